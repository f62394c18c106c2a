package env

import (
	"os"
	"os/exec"
	"testing"
)

// FindProgram returns the path of a program, given by its name in PATH or by its path. If it is
// missing, the test is skipped, or fails if RequireVariable is set.
func FindProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv(RequireVariable) == "":
		t.Skipf("%v: build it by 'make build' or 'make e2e', or install the Debian package that has it", err)
	default:
		t.Fatalf("%v, and %s is set", err, RequireVariable)
	}

	return path
}
