package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// pidFile is where the API server's process writes its number, in the folder of the environment.
const pidFile = "kube-apiserver.pid"

// makeRestartable sets the API server's certificate folder to one that outlives its process, and
// starts it through a script that writes its process ID. The script also raises GOGC: a quarter of
// the server's CPU time would go to garbage collection, and the memory is free again at the end of the test.
func makeRestartable(environment *envtest.Environment, binaries, folder string) error {
	server := environment.ControlPlane.GetAPIServer()
	server.CertDir, server.Path = filepath.Join(folder, "certificates"), filepath.Join(folder, "kube-apiserver")
	script := fmt.Sprintf("#!/bin/sh\necho $$ > '%s'\nGOGC=400 exec '%s' \"$@\"\n", filepath.Join(folder, pidFile), filepath.Join(binaries, "kube-apiserver"))
	return errors.Join(os.Mkdir(server.CertDir, 0o700), os.WriteFile(server.Path, []byte(script), 0o700))
}

// RestartServer kills the API server of this test binary and starts it again, at the same
// address and with everything that it had stored. The functions are called while it is away.
func RestartServer(t testing.TB, meanwhile ...func()) {
	t.Helper()
	Start(t)
	written, err := os.ReadFile(filepath.Join(shared.folder, pidFile))
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

	// Stop fails until the end of the process was noticed.
	server := shared.env.ControlPlane.GetAPIServer()
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, startTime, true, func(context.Context) (bool, error) {
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

// FillEtcd has etcd refuse every write but deletions, as when its space is exhausted, until
// the returned function is called, at the latest when the test ends.
func FillEtcd(t testing.TB) (free func()) {
	t.Helper()
	Start(t)
	setAlarm(t, "ACTIVATE")
	full := true
	free = func() {
		t.Helper()
		if full {
			setAlarm(t, "DEACTIVATE")
			full = false
		}
	}

	t.Cleanup(free)

	return free
}

// setAlarm sets or lifts the alarm that etcd sets when its space is exhausted.
func setAlarm(t testing.TB, action string) {
	t.Helper()
	url := shared.env.ControlPlane.Etcd.URL.JoinPath("v3", "maintenance", "alarm")
	body := fmt.Appendf(nil, `{"action": %q, "memberID": "1", "alarm": "NOSPACE"}`, action)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url.String(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("asking etcd: %v", err)
	}

	defer response.Body.Close()
	if answer, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("etcd answers %s: %s (error %v)", response.Status, answer, err)
	}
}
