package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// folders are the folders of the programs and of what they write.
type folders struct{ dir, programs string }

// launchProgram starts `mainstay run` of a version with the identity of a kubeconfig, and appends
// its output to a log file.
func (f folders) launchProgram(version, name, kubeconfig string, args ...string) (*cluster.Process, error) {
	cmd := exec.Command(f.programPath(version), append([]string{"run"}, args...)...) // It outlives the step that starts it.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return cluster.Launch(name, f.logPath(name), cmd)
}

func (f folders) programPath(version string) string {
	return filepath.Join(f.programs, version, "mainstay")
}

func (f folders) logPath(name string) string { return filepath.Join(f.dir, name+".log") }

// nodeRoot returns the folder that replaces the root of a node.
func (f folders) nodeRoot(node string) string { return filepath.Join(f.dir, "nodes", node) }

func (f folders) checkNodeFile(node, want string) error {
	data, err := os.ReadFile(filepath.Join(f.nodeRoot(node), filepath.FromSlash(settingFile)))
	if err == nil && string(data) != want {
		err = fmt.Errorf("/%s of node %s says %q, want %s", settingFile, node, data, want)
	}
	return err
}
