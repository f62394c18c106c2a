package fbc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// endless repeats a text, up to a number of bytes, and counts the bytes that were read.
type endless struct {
	text string
	left int
	read int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}

	n := 0
	for n < len(b) && n < e.left {
		n += copy(b[n:min(len(b), e.left)], e.text[(e.read+n)%len(e.text):])
	}

	e.left -= n
	e.read += n
	return n, nil
}

// measureAllocation returns the number of bytes that a function allocates.
func measureAllocation(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestReadRefusesMaliciousInput reads malicious inputs. Each returns an error after a
// bounded part of it was read, with bounded memory.
func TestReadRefusesMaliciousInput(t *testing.T) {
	const gigabyte = 1 << 30
	var laughs strings.Builder
	laughs.WriteString("schema: a\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}

	for name, test := range map[string]struct {
		before string
		body   endless
		want   string
		// read is the limit for the bytes that are read, and megabytes that for the allocated memory.
		read, megabytes int
	}{
		"a gigabyte in one string":       {`{"schema":"a","x":"`, endless{text: "xxxxxxxx", left: gigabyte}, "is larger than 16777216 bytes", 40 << 20, 200},
		"a gigabyte of one YAML string":  {"schema: a\nx: ", endless{text: "xxxxxxxx", left: gigabyte}, "is a YAML document larger than 8388608 bytes", 40 << 20, 200},
		"a gigabyte of blanks in JSON":   {`{"schema":"a",`, endless{text: "        ", left: gigabyte}, "is larger than 16777216 bytes", 40 << 20, 200},
		"a gigabyte without a blob":      {"#", endless{text: "########", left: gigabyte}, "bytes on end without a blob", 40 << 20, 200},
		"JSON nested 100,000 deep":       {`{"schema":"a","x":`, endless{text: "[", left: 100_000}, "is nested more than 500 deep", 100_000, 5},
		"objects nested 100,000 deep":    {`{"schema":"a","x":`, endless{text: `{"x":`, left: 500_000}, "is nested more than 500 deep", 500_000, 10},
		"YAML nested 100,000 deep":       {"schema: a\nx: ", endless{text: "[", left: 100_000}, "cannot be parsed as YAML: exceeded max depth", 100_000, 100},
		"YAML lists nested 100,000 deep": {"schema: a\nx:\n  ", endless{text: "- ", left: 200_000}, "cannot be parsed as YAML: exceeded max depth", 200_000, 100},
		"aliases that multiply":          {laughs.String(), endless{}, "document contains excessive aliasing", 100, 100},
		"invalid UTF-8 in YAML":          {"schema: \"\xff\"\n", endless{}, "invalid leading UTF-8 octet", 100, 5},
		"a million lines of YAML":        {"schema: a\n", endless{text: "- a\n", left: 4_000_000}, "is a YAML document with more than 500000 lines", 5 << 20, 100},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			size := measureAllocation(func() {
				for _, readErr := range fbc.Read(io.MultiReader(strings.NewReader(test.before), &test.body), "f", fbc.Limits{}) {
					err = readErr
				}
			})
			var content *fbc.Error
			if !errors.As(err, &content) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v (%T), want an *fbc.Error: %s", err, err, test.want)
			}
			if test.body.read > test.read || size>>20 > uint64(test.megabytes) {
				t.Errorf("got %d bytes read and %d MB allocated, want at most %d and %d", test.body.read, size>>20, test.read, test.megabytes)
			}
		})
	}
}

// wideFS is a file system with a folder of any number of files.
type wideFS struct{ read int }

func (w *wideFS) Open(name string) (fs.File, error) {
	if name == "." {
		return &wideFolder{wide: w}, nil
	}
	return fstest.MapFS{"f": {Data: []byte(`{"schema":"a"}`)}}.Open("f")
}

type wideFolder struct {
	fs.ReadDirFile
	wide *wideFS
}

func (f *wideFolder) Close() error { return nil }

func (f *wideFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	var entries []fs.DirEntry
	for range n {
		f.wide.read++
		entries = append(entries, fs.FileInfoToDirEntry(wideInfo(f.wide.read)))
	}
	return entries, nil
}

// wideInfo is a file whose name is a number.
type wideInfo int

func (i wideInfo) Name() string     { return fmt.Sprintf("%09d", int(i)) }
func (wideInfo) Size() int64        { return 1 }
func (wideInfo) Mode() fs.FileMode  { return 0o644 }
func (wideInfo) ModTime() time.Time { return time.Time{} }
func (wideInfo) IsDir() bool        { return false }
func (wideInfo) Sys() any           { return nil }

func TestWalkRefusesAFolderOfAMillionFiles(t *testing.T) {
	fsys := &wideFS{}
	_, err := walkNames(fsys, fbc.Limits{})
	var content *fbc.Error
	if !errors.As(err, &content) || err.Error() != ".: the catalog has more than 200000 files" {
		t.Errorf("got error %v (%T), want that the catalog has too many files", err, err)
	}
	if fsys.read > 210_000 {
		t.Errorf("got %d names read, want a bounded number", fsys.read)
	}
}

// TestReadKeepsNumbersAndRepairsText checks that reading only changes the text of a blob to
// canonical form.
func TestReadKeepsNumbersAndRepairsText(t *testing.T) {
	metas, err := readAll(bytes.NewReader([]byte("{\"schema\":\"a\",\"n\":1234567890123456789012345678901234567890.10,\"t\":\"\xff\\ud800\"}")), fbc.Limits{})
	const want = "{\"n\":1234567890123456789012345678901234567890.10,\"schema\":\"a\",\"t\":\"\ufffd\ufffd\"}"
	if err != nil || len(metas) != 1 || string(metas[0].Blob) != want {
		t.Errorf("got %v, %v, want %s", metas, err, want)
	}
}
