package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/cluster/retrieval"
)

// copy-release writes the files that the operator reads, and returns an error for missing input.
func TestCopyRelease(t *testing.T) {
	root, to := t.TempDir(), filepath.Join(t.TempDir(), "updatepayloads")
	for name, text := range map[string]string{"manifests/0000_00_a.yaml": "own", "release-manifests/release-metadata": "{}", "usr/bin/mainstay": "not copied"} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	const image = "registry.example.com/release@sha256:1"
	run := func(args ...string) error {
		cmd := NewCommand("test")
		cmd.SilenceErrors = true
		cmd.SetArgs(append([]string{retrieval.Command}, args...))
		return cmd.ExecuteContext(t.Context())
	}
	if err := run("--release-image", image, "--from", root, "--to", to); err != nil {
		t.Fatal(err)
	}

	data, err := os.ReadFile(filepath.Join(to, retrieval.FolderName(image), "content", "manifests", "0000_00_a.yaml"))
	if err != nil || string(data) != "own" {
		t.Errorf("got the file %q, error %v", data, err)
	}

	other := filepath.Join(t.TempDir(), "other")
	if err := run("--release-image", image, "--from", t.TempDir(), "--to", other); err == nil || !strings.Contains(err.Error(), "is not the root of a release image") {
		t.Errorf("without a release: got error %v", err)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("the folder contains files that are not a release")
	}
	if err := run("--release-image", image); err == nil || !strings.Contains(err.Error(), `"to"`) {
		t.Errorf("without a folder: got error %v", err)
	}
}

func TestValidateRetrieval(t *testing.T) {
	for name, test := range map[string]struct {
		options clusterOptions
		want    string
	}{
		"registry":      {clusterOptions{retrieval: retrievalRegistry}, ""},
		"job":           {clusterOptions{retrieval: retrievalJob, node: "a", retrievalDir: "/releases"}, ""},
		"another":       {clusterOptions{retrieval: "pod"}, `--retrieval: "pod" must be registry or job`},
		"no node":       {clusterOptions{retrieval: retrievalJob, retrievalDir: "/releases"}, "set --node or NODE_NAME"},
		"relative path": {clusterOptions{retrieval: retrievalJob, node: "a", retrievalDir: "releases"}, "is not an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.options.validateRetrieval()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
