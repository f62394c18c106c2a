// Package golden compares output for users with files in the testdata folder of a test.
//
//	go test ./internal/cli -update
//
// rewrites the files. Review the difference like any other change. The package is only for tests.
// No package of the product imports it.
package golden

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check compares got with testdata/<name>, or rewrites the file if the tests run with -update. A
// missing file is a failure.
func Check(t testing.TB, name string, got []byte) {
	t.Helper()
	CheckFile(t, filepath.Join("testdata", filepath.FromSlash(name)), got)
}

// CheckFile is Check for a file at another path, such as a page of the documentation.
func CheckFile(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		writeFile(t, file, got)
		return
	}

	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s does not exist: run the test with -update and review the file; it would hold:\n%s", file, got)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, cmp.Diff(splitLines(want), splitLines(got)))
	}
}

func writeFile(t testing.TB, file string, got []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, got, 0o644); err != nil {
		t.Fatal(err)
	}
}

func splitLines(data []byte) []string { return strings.SplitAfter(string(data), "\n") }
