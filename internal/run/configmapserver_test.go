package run

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// configmap-server has the flags of the upstream program. Pods call it with -c and -n.
func TestConfigMapServerCommand(t *testing.T) {
	kubeconfig := env.WriteKubeconfig(t, env.Start(t))
	log := filepath.Join(t.TempDir(), "log")
	for _, args := range [][]string{
		{"-c", "absent", "-n", "default", "-k", kubeconfig, "-p", "0", "-t", log, "-d", "bundles.db", "--debug", "--permissive"},
		{"--configMapName=absent", "--configMapNamespace=default", "--kubeconfig=" + kubeconfig, "--port=0", "--termination-log=" + log, "--database=bundles.db"},
	} {
		cmd := NewConfigMapServerCommand()
		cmd.SetArgs(args)
		cmd.SetErr(io.Discard)
		const want = "ConfigMap default/absent does not exist"
		err := cmd.ExecuteContext(t.Context())
		written, _ := os.ReadFile(log)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(string(written), want) {
			t.Errorf("%q: got %v and log %q, want %q", args, err, written, want)
		}
		_ = os.Remove(log)
	}

	cmd := NewConfigMapServerCommand()
	cmd.SetArgs([]string{"-c", "absent"})
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "configMapNamespace") {
		t.Errorf("without namespace: got %v, want an error", err)
	}
}
