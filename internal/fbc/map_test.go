package fbc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// piecewiseFS is a file system whose files return a few bytes per read.
type piecewiseFS struct {
	fs.FS
	size int
}

func (p piecewiseFS) Open(name string) (fs.File, error) {
	file, err := p.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if dir, ok := file.(fs.ReadDirFile); ok {
		return dir, nil
	}
	return pieceFile{file, p.size}, nil
}

type pieceFile struct {
	fs.File
	size int
}

func (p pieceFile) Read(b []byte) (int, error) { return p.File.Read(b[:min(len(b), p.size)]) }

// collectOutcome returns the results of an iteration as text.
func collectOutcome(all func(func(Meta, error) bool)) []string {
	var out []string
	for meta, err := range all {
		out = append(out, fmt.Sprintf("%+v %s %v", meta.At, meta.Blob, err))
	}
	return out
}

// newSmallMap returns a Map of the identity that splits files into small chunks.
func newSmallMap(text []byte, size int, limits Limits) func(func(Meta, error) bool) {
	fsys := piecewiseFS{fstest.MapFS{"f": {Data: text}}, max(1, size/3)}
	return (&blobMapper[Meta]{fsys: fsys, limits: limits.withDefaults(), readSize: size, mapBlob: func(m Meta) (Meta, error) {
		m.Blob = bytes.Clone(m.Blob)
		return m, nil
	}}).yieldAllResults
}

var chunkSeeds = []string{
	"{\"schema\":\"a\"}\n{\"schema\":\"b\"} {\"schema\":\"c\"}{\"schema\":\"d\"}\n# comment\n---\nschema: e\n---\n{\"schema\":\"f\"}\n\n\n",
	"{\"schema\":\"a\"}\n{schema: b, name: '}'}\n---\n{\"schema\":\"c\"}\n{schema: d,\n\n\n\n x: 1}\n---\nschema: e\n...\nschema: f\n",
	"{\"schema\":\"a\"}\n{schema: b, x: [}}\n---\n{\"schema\":\"c\"}", "{\"schema\":\"a\"}\n{\"schema\":\"b\",}\n{\"schema\":\"c\"}",
	"\ufeffschema: a\n--- # c\n  schema: b\n  x: |\n   ---\n%YAML 1.1\n---\nschema: c\n---", "{\"schema\":\"a\"}\n{\"schema\":\"b\"", "{\"schema\":\"a\"}\n{\"schema\":\"b\" x}\n{\"schema\":\"c\"}",
	"\xff\xfex", "\xff\xfe a\n---\n", "# a\n\n\n# b\n", "{\"schema\":\"a\",\"x\":\"\\\\\\\"}{\"}[", "schema: a\n--", "schema: a\n---\n{\"schema\":\"a\"}--- x", "{\"schema\":\"a\"}\n" + strings.Repeat("#", 200) + "\n{\"schema\":\"b\"}",
}

func TestChunksChangeNothing(t *testing.T) {
	for _, text := range chunkSeeds {
		for _, size := range []int{1, 2, 3, 7, 20, 64, 1000} {
			checkChunks(t, []byte(text), size)
		}
	}
}

func checkChunks(t *testing.T, text []byte, size int) {
	t.Helper()
	limits := Limits{BlobBytes: 1 << 12, YAMLBytes: 1 << 12, Depth: 20}
	want := collectOutcome(Read(bytes.NewReader(text), "f", limits))
	if diff := cmp.Diff(want, collectOutcome(newSmallMap(text, size, limits))); diff != "" {
		t.Errorf("%q in chunks of %d (-want as read at once +got):\n%s", text, size, diff)
	}

	s := newChunkSplitter(pieceFile{File: openText(text), size: 5}, "f", limits.withDefaults(), nil, startOfFile())
	s.readSize = size
	serial := collectOutcome(func(yield func(Meta, error) bool) {
		err := readBlobsOfFile(s, func(m Meta) error { yield(m, nil); return nil })
		if err != nil {
			yield(Meta{}, err)
		}
	})
	if diff := cmp.Diff(want, serial); diff != "" {
		t.Errorf("%q in chunks of %d, read sequentially (-want as read at once +got):\n%s", text, size, diff)
	}
}

func openText(text []byte) fs.File {
	file, _ := fstest.MapFS{"f": {Data: text}}.Open("f") // The file exists.
	return file
}

// FuzzChunks compares reading a file at once with reading it in chunks on all processors.
func FuzzChunks(f *testing.F) {
	for _, seed := range chunkSeeds {
		f.Add([]byte(seed), 16)
	}

	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size > 0 && len(text) < 1<<12 {
			checkChunks(t, text, size)
		}
	})
}

// newManyFiles returns a catalog with more chunks than can be processed at the same time.
func newManyFiles() fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := range 200 {
		fsys[fmt.Sprintf("%03d.json", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "{\"schema\":\"a\",\"name\":\"%d\"}{\"schema\":\"b\",\"name\":\"%d\"}", i, i)}
	}
	return fsys
}

func TestMapKeepsTheOrder(t *testing.T) {
	var want, got []string
	for i := range 200 {
		want = append(want, strconv.Itoa(i), strconv.Itoa(i))
	}

	for name, err := range Map(newManyFiles(), Limits{}, func(m Meta) (string, error) { return m.Name, nil }) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMapLeavesNothingBehind ends a Map in every way, and then uses the resources of its function
// again. The race detector or the closed channel detect calls that are still running.
func TestMapLeavesNothingBehind(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		f     func(Meta) (string, error)
		limit int
		want  string
	}{
		"break":          {func(m Meta) (string, error) { return m.Name, nil }, 7, ""},
		"function fails": {func(m Meta) (string, error) { return m.Name, failAtName(m, "5", broken) }, 1000, "broken"},
		"function panics": {func(m Meta) (string, error) {
			if m.Name == "5" {
				panic("the function")
			}
			return m.Name, nil
		}, 1000, "panic: the function"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := make(chan struct{}, 1000)
			got := collectUntil(Map(newManyFiles(), Limits{}, func(m Meta) (string, error) {
				calls <- struct{}{}
				return test.f(m)
			}), test.limit)
			close(calls) // A later call panics.
			if got != test.want {
				t.Errorf("got the end %q, want %q", got, test.want)
			}
		})
	}
}

func failAtName(m Meta, name string, err error) error {
	if m.Name == name {
		return err
	}
	return nil
}

// collectUntil takes at most limit values and returns how the iteration ends.
func collectUntil(all func(func(string, error) bool), limit int) (end string) {
	defer func() {
		if p := recover(); p != nil {
			end = fmt.Sprint("panic: ", p)
		}
	}()
	for _, err := range all {
		if err != nil {
			return err.Error()
		}
		if limit--; limit == 0 {
			return ""
		}
	}

	return "no end"
}

func TestMapPassesThePanicOfItsConsumerOn(t *testing.T) {
	calls := make(chan struct{}, 1000)
	func() {
		defer func() {
			if p := recover(); p != "the consumer" {
				t.Errorf("got panic %v, want that of the loop body", p)
			}
		}()
		for range Map(newManyFiles(), Limits{}, func(Meta) (int, error) { calls <- struct{}{}; return 0, nil }) { //nolint:errcheck // The loop body panics.
			panic("the consumer")
		}
	}()

	close(calls)
}

func TestMapNamesAFileThatGoesAway(t *testing.T) {
	gone := &vanishingFS{FS: fstest.MapFS{"f": {Data: []byte(chunkSeeds[1])}}}
	m := &blobMapper[Meta]{fsys: piecewiseFS{gone, 3}, limits: Limits{}.withDefaults(), readSize: 10, mapBlob: func(m Meta) (Meta, error) { return m, nil }}
	got := collectOutcome(m.yieldAllResults)
	const want = "opening f: open f: file does not exist"
	if len(got) != 2 || !strings.HasSuffix(got[1], want) {
		t.Errorf("got %q, want a blob and %s", got, want)
	}
}

// vanishingFS is a file system whose files can be opened once.
type vanishingFS struct {
	fs.FS
	opened []string
}

func (v *vanishingFS) Open(name string) (fs.File, error) {
	if name != "." && slices.Contains(v.opened, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	v.opened = append(v.opened, name)
	return v.FS.Open(name)
}
