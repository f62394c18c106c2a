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

// fault is a fault of an API server that a test causes.
type fault string

const (
	killServer  fault = "kill the API server"
	startServer fault = "start the killed API server"
	fillEtcd    fault = "fill etcd"
	freeEtcd    fault = "free space in etcd"
)

// RestartServer kills the API server of this test binary and starts it again, with the same address and data. It calls the
// functions while the server is down.
func RestartServer(t testing.TB, meanwhile ...func()) {
	t.Helper()
	causeFault(t, killServer)
	for _, act := range meanwhile {
		act()
	}
	causeFault(t, startServer)
}

// FillEtcd makes etcd reject all writes except deletions, as if its space were exhausted. The returned function ends this;
// otherwise it ends with the test.
func FillEtcd(t testing.TB) (free func()) {
	t.Helper()
	causeFault(t, fillEtcd)
	isFull := true
	free = func() {
		t.Helper()
		if isFull {
			causeFault(t, freeEtcd)
			isFull = false
		}
	}

	t.Cleanup(free)

	return free
}

// causeFault causes a fault of the API server of this test binary, which is its own or borrowed.
func causeFault(t testing.TB, f fault) {
	t.Helper()
	Start(t)
	var err error
	if shared.own != nil {
		err = shared.own.causeFault(f)
	} else {
		err = shared.borrowed.causeFault(f)
	}

	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
}

// causeFault causes a fault of the API server.
func (c *controlPlane) causeFault(f fault) error {
	switch f {
	case killServer:
		c.isKilled = true
		return c.killServer()
	case startServer:
		c.isKilled = false
		return c.environment.ControlPlane.GetAPIServer().Start()
	case fillEtcd:
		c.isFull = true
		return c.setSpaceAlarm("ACTIVATE")
	case freeEtcd:
		c.isFull = false
		return c.setSpaceAlarm("DEACTIVATE")
	}
	return fmt.Errorf("unknown fault %q", f)
}

// endFaults ends the faults that a test program has left, because it was killed or a test failed.
func (c *controlPlane) endFaults() error {
	var errs []error
	if c.isKilled {
		errs = append(errs, c.causeFault(startServer))
	}
	if c.isFull {
		errs = append(errs, c.causeFault(freeEtcd))
	}
	return errors.Join(errs...)
}

// killServer kills the API server, and waits until envtest has noticed it.
func (c *controlPlane) killServer() error {
	written, err := os.ReadFile(filepath.Join(c.folder, pidFile))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(written)))
	if err != nil {
		return fmt.Errorf("the number of the process: %w", err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if err := process.Kill(); err != nil {
		return err
	}

	server := c.environment.ControlPlane.GetAPIServer()
	return wait.PollUntilContextTimeout(context.Background(), 10*time.Millisecond, controlPlaneTimeout, true, func(context.Context) (bool, error) {
		return server.Stop() == nil, nil
	})
}

// setSpaceAlarm activates or deactivates etcd's alarm that its space is exhausted.
func (c *controlPlane) setSpaceAlarm(action string) error {
	alarm := map[string]any{"action": action, "memberID": "1", "alarm": "NOSPACE"}
	return etcd{c.environment.ControlPlane.Etcd.URL}.postJSON(context.Background(), "maintenance/alarm", alarm, &struct{}{})
}
