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

// pieces is a file system whose files are read a few bytes at a time.
type pieces struct {
	fs.FS
	size int
}

func (p pieces) Open(name string) (fs.File, error) {
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

// outcomeOf returns what an iteration yields, as text.
func outcomeOf(all func(func(Meta, error) bool)) []string {
	var out []string
	for meta, err := range all {
		out = append(out, fmt.Sprintf("%+v %s %v", meta.At, meta.Blob, err))
	}
	return out
}

// small makes a Map of the identity that cuts files into small chunks.
func small(text []byte, size int, limits Limits) func(func(Meta, error) bool) {
	fsys := pieces{fstest.MapFS{"f": {Data: text}}, max(1, size/3)}
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
	"\xff\xfex", "# a\n\n\n# b\n", "{\"schema\":\"a\",\"x\":\"\\\\\\\"}{\"}[", "schema: a\n--", "schema: a\n---\n{\"schema\":\"a\"}--- x", "{\"schema\":\"a\"}\n" + strings.Repeat("#", 200) + "\n{\"schema\":\"b\"}",
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
	want := outcomeOf(Read(bytes.NewReader(text), "f", limits))
	if diff := cmp.Diff(want, outcomeOf(small(text, size, limits))); diff != "" {
		t.Errorf("%q in chunks of %d (-whole +chunks):\n%s", text, size, diff)
	}

	s := newChunkSplitter(pieceFile{File: fileOf(text), size: 5}, "f", limits.withDefaults(), nil, startOfFile())
	s.readSize = size
	serial := outcomeOf(func(yield func(Meta, error) bool) {
		err := readBlobsOfFile(s, func(m Meta) error { yield(m, nil); return nil })
		if err != nil {
			yield(Meta{}, err)
		}
	})
	if diff := cmp.Diff(want, serial); diff != "" {
		t.Errorf("%q in chunks of %d, read in a row (-whole +chunks):\n%s", text, size, diff)
	}
}

func fileOf(text []byte) fs.File {
	file, _ := fstest.MapFS{"f": {Data: text}}.Open("f") // It is there.
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

// manyFiles has more chunks than can be worked on at once.
func manyFiles() fstest.MapFS {
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

	for name, err := range Map(manyFiles(), Limits{}, func(m Meta) (string, error) { return m.Name, nil }) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMapLeavesNothingBehind ends a Map in every way and calls it again with what its
// function uses, which the race detector and the closed channel would notice.
func TestMapLeavesNothingBehind(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		f     func(Meta) (string, error)
		limit int
		want  string
	}{
		"break":          {func(m Meta) (string, error) { return m.Name, nil }, 7, ""},
		"function fails": {func(m Meta) (string, error) { return m.Name, failAt(m, "5", broken) }, 1000, "broken"},
		"function panics": {func(m Meta) (string, error) {
			if m.Name == "5" {
				panic("the function")
			}
			return m.Name, nil
		}, 1000, "panic: the function"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := make(chan struct{}, 1000)
			got := endOf(Map(manyFiles(), Limits{}, func(m Meta) (string, error) {
				calls <- struct{}{}
				return test.f(m)
			}), test.limit)
			close(calls) // A call that comes later panics.
			if got != test.want {
				t.Errorf("it ended with %q, want %q", got, test.want)
			}
		})
	}
}

func failAt(m Meta, name string, err error) error {
	if m.Name == name {
		return err
	}
	return nil
}

// endOf takes so many values and tells how it ends, after the names before were seen.
func endOf(all func(func(string, error) bool), limit int) (end string) {
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
				t.Errorf("panic is %v", p)
			}
		}()
		for range Map(manyFiles(), Limits{}, func(Meta) (int, error) { calls <- struct{}{}; return 0, nil }) { //nolint:errcheck // It does not come to an error.
			panic("the consumer")
		}
	}()

	close(calls)
}

func TestMapNamesAFileThatGoesAway(t *testing.T) {
	gone := &vanishing{FS: fstest.MapFS{"f": {Data: []byte(chunkSeeds[1])}}}
	m := &blobMapper[Meta]{fsys: pieces{gone, 3}, limits: Limits{}.withDefaults(), readSize: 10, mapBlob: func(m Meta) (Meta, error) { return m, nil }}
	got := outcomeOf(m.yieldAllResults)
	const want = "opening f: open f: file does not exist"
	if len(got) != 2 || !strings.HasSuffix(got[1], want) {
		t.Errorf("got %q, want a blob and %s", got, want)
	}
}

// vanishing is a file system whose files can be opened once.
type vanishing struct {
	fs.FS
	opened []string
}

func (v *vanishing) Open(name string) (fs.File, error) {
	if name != "." && slices.Contains(v.opened, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	v.opened = append(v.opened, name)
	return v.FS.Open(name)
}
