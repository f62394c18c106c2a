// Package checkout finds what tests need besides the code: the root of the repository, real data, and programs.
//
// It is only for tests. No package of the product imports it.
package checkout

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// RequireVariable is an environment variable. If it is set, a test that needs missing programs of
// the control plane fails instead of being skipped. CI sets it, so that no test is silently
// skipped.
const RequireVariable = "MAINSTAY_REQUIRE_ENV"

// Root returns the root of the repository: the first folder with go.mod and config/crd, upward
// from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for {
		_, modErr := os.Stat(filepath.Join(dir, "go.mod"))
		_, crdErr := os.Stat(filepath.Join(dir, "config", "crd"))
		if modErr == nil && crdErr == nil {
			return dir, nil
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no repository above the working directory: %w", fs.ErrNotExist)
		}

		dir = parent
	}
}

// SharedData returns the folder of a kind of real data, shared/data/<kind> next to the repository.
// It skips the test if the folder does not exist.
func SharedData(t testing.TB, kind string) string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}

	folder := filepath.Join(filepath.Dir(root), "shared", "data", kind)
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("real data is not here: %v", err)
	}

	return folder
}

// RealBundles returns the folders of all real bundles. It skips the test if there is no real data.
func RealBundles(t testing.TB) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(SharedData(t, "bundles"), "*", "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("found %d bundles, error %v", len(folders), err)
	}
	return folders
}

// FindProgram returns the path of a program that is specified by its name in PATH or by its path. If it is
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
