// Package golden compares what a person reads with a file of the test's testdata.
//
//	go test ./internal/cli -update
//
// rewrites the files; the difference is then reviewed as any other. It is for tests
// only. No room of the product imports it.
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

// Check compares got with testdata/<name>, and rewrites the file when the tests run
// with -update. A file that is missing is a failure.
func Check(t testing.TB, name string, got []byte) {
	t.Helper()
	CheckFile(t, filepath.Join("testdata", filepath.FromSlash(name)), got)
}

// CheckFile is Check for a file that lies elsewhere, such as a page of documentation.
func CheckFile(t testing.TB, file string, got []byte) {
	t.Helper()
	if *update {
		write(t, file, got)
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
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, cmp.Diff(lines(want), lines(got)))
	}
}

func write(t testing.TB, file string, got []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, got, 0o644); err != nil {
		t.Fatal(err)
	}
}

func lines(data []byte) []string { return strings.SplitAfter(string(data), "\n") }
