// Package smalldisk runs tests on a small file system, which they can fill.
//
// It is only for tests. No package of the product imports it.
package smalldisk

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// folderVariable is the environment variable with the folder on which the child process of a test mounts the file system.
const folderVariable = "MAINSTAY_TEST_SMALL_DISK"

// Run calls test with the folder of an empty file system in memory. options are those of mount(8) for a tmpfs, such as
// "size=1m". The test runs in a child process with mounts of its own: the test binary, restricted to the calling test, which
// must do nothing before Run. The test is skipped where no such process can be started.
func Run(t *testing.T, options string, test func(t *testing.T, folder string)) {
	t.Helper()
	if folder := os.Getenv(folderVariable); folder != "" {
		if err := syscall.Mount("none", folder, "tmpfs", 0, options); err != nil {
			t.Skipf("no file system can be mounted here: %v", err)
		}
		test(t, folder)
		return
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), folderVariable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		t.Errorf("%s", out)
	case err != nil:
		t.Skipf("no process with mounts of its own can be started here: %v", err)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skip(string(out))
	case !strings.Contains(string(out), "--- PASS"):
		t.Errorf("the child process has not run the test: %s", out)
	}
}
