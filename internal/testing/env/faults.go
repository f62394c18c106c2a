package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// pidFile is the file to which the API server writes its process ID, in the folder of the
// environment.
const pidFile = "kube-apiserver.pid"

// makeServerRestartable sets a folder for certificates that outlives the API server's process, and starts the server
// through a script that writes its process ID. The script also raises GOGC, because garbage collection would take a
// quarter of the server's CPU time.
func makeServerRestartable(environment *envtest.Environment, binaries, folder string) error {
	server := environment.ControlPlane.GetAPIServer()
	server.CertDir, server.Path = filepath.Join(folder, "certificates"), filepath.Join(folder, "kube-apiserver")
	script := fmt.Sprintf("#!/bin/sh\necho $$ > '%s'\nGOGC=400 exec '%s' \"$@\"\n", filepath.Join(folder, pidFile), filepath.Join(binaries, "kube-apiserver"))
	return errors.Join(os.Mkdir(server.CertDir, 0o700), os.WriteFile(server.Path, []byte(script), 0o700))
}

// RestartServer kills the API server of this test binary and starts it again, with the same
// address and data. It calls the functions while the server is down.
func RestartServer(t testing.TB, meanwhile ...func()) {
	t.Helper()
	own := startOwn(t)
	written, err := os.ReadFile(filepath.Join(own.folder, pidFile))
	if err != nil {
		t.Fatal(err)
	}

	pid, err := strconv.Atoi(strings.TrimSpace(string(written)))
	if err != nil {
		t.Fatalf("the number of the API server's process: %v", err)
	}

	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatalf("killing the API server: %v", err)
	}

	// Stop fails until the server's exit has been noticed.
	server := own.environment.ControlPlane.GetAPIServer()
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, controlPlaneTimeout, true, func(context.Context) (bool, error) {
		return server.Stop() == nil, nil
	})
	if err != nil {
		t.Fatalf("stopping the API server: %v", err)
	}

	for _, act := range meanwhile {
		act()
	}

	if err := server.Start(); err != nil {
		t.Fatalf("starting the API server again: %v", err)
	}
}

// FillEtcd makes etcd reject all writes except deletions, as if its space were exhausted. The
// returned function ends this; otherwise it ends with the test.
func FillEtcd(t testing.TB) (free func()) {
	t.Helper()
	e := etcd{startOwn(t).environment.ControlPlane.Etcd.URL}
	setAlarm := func(action string) {
		t.Helper()
		alarm := map[string]any{"action": action, "memberID": "1", "alarm": "NOSPACE"}
		if err := e.postJSON(context.Background(), "maintenance/alarm", alarm, &struct{}{}); err != nil {
			t.Fatal(err)
		}
	}

	setAlarm("ACTIVATE")
	full := true
	free = func() {
		t.Helper()
		if full {
			setAlarm("DEACTIVATE")
			full = false
		}
	}

	t.Cleanup(free)

	return free
}

// startOwn returns the API server that only this test binary uses.
func startOwn(t testing.TB) *controlPlane {
	t.Helper()
	Start(t)
	if shared.own == nil {
		t.Fatal("the API server is shared with other packages: call env.NeedOwnServer in TestMain")
	}
	return shared.own
}
