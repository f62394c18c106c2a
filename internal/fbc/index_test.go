package fbc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// mixedFiles are files with blobs at different positions.
var mixedFiles = map[string]string{
	"a.json":   "{\"schema\":\"s\",\"name\":\"1\"}{\"name\":\"2\",\"schema\":\"s\"}\n # note\n  {\"schema\":\"s\",\"name\":\"3\"}",
	"b/c.yaml": "# note\n  schema: s\n  name: '4'\n--- # note\nschema: s\nname: '5'\n--- {schema: s, name: '6'}\n---\n{schema: s, name: '7',}\n---\n{\"schema\":\"s\"}# 8\nschema: s\nname: '8'\n...\n",
	"d.yaml":   "\ufeffschema: s\nname: '9'\n",
	"empty":    "\n",
	"z.json":   "{\"schema\":\"s\",\"name\":\"\\u00e9\"}",
}

func TestIndexReadsEachBlobAgain(t *testing.T) {
	for name, fsys := range map[string]fs.FS{"in memory": newFiles(mixedFiles), "from the start only": sequentialFS{newFiles(mixedFiles)}, "folder": writeFolder(t, mixedFiles)} {
		t.Run(name, func(t *testing.T) {
			ix := fbc.NewIndex(fbc.Limits{})
			if err := ix.Add(fsys); err != nil {
				t.Fatal(err)
			}
			checkIndex(t, ix, fsys)
		})
	}
}

// checkIndex compares the blobs of an index with those of a walk, in two orders.
func checkIndex(t *testing.T, ix *fbc.Index, fsys fs.FS) {
	t.Helper()
	var want []fbc.Meta
	for meta, err := range fbc.Walk(fsys, fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, meta)
	}

	entries := ix.Entries()
	if len(entries) != len(want) || len(want) == 0 {
		t.Fatalf("got %d entries, want %d", len(entries), len(want))
	}

	for i := range want {
		for _, j := range []int{i, len(want) - 1 - i} {
			got, err := ix.ReadBlob(entries[j])
			if err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(want[j], got) {
				t.Errorf("blob %d is %+v, want %+v", j, got, want[j])
			}
		}
	}
}

// sequentialFS is a file system whose files can only be read from their start.
type sequentialFS struct{ fs.FS }

func (s sequentialFS) Open(name string) (fs.File, error) {
	file, err := s.FS.Open(name)
	if dir, ok := file.(fs.ReadDirFile); ok || err != nil {
		return dir, err
	}
	return struct{ fs.File }{file}, nil
}

// writeFolder writes files into a temporary folder.
func writeFolder(t *testing.T, paths map[string]string) fs.FS {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, newFiles(paths)); err != nil {
		t.Fatal(err)
	}
	return os.DirFS(dir)
}

func TestIndexOfRealCatalogs(t *testing.T) {
	fsys := os.DirFS(checkout.SharedData(t, "fbc"))
	ix := fbc.NewIndex(fbc.Limits{})
	if err := ix.Add(fsys); err != nil {
		t.Fatal(err)
	}
	checkIndex(t, ix, fsys)
}

func TestIndexOfSeveralCatalogs(t *testing.T) {
	ix := fbc.NewIndex(fbc.Limits{})
	inMemory := json.RawMessage("{ \"schema\": \"olm.bundle\", \"package\": \"p\", \"name\": \"b\", \"image\": \"\\u003c\" }")
	for _, err := range []error{
		ix.Add(newFiles(map[string]string{"a": `{"schema":"olm.package","name":"p"}`})),
		ix.AddBlob(fbc.Meta{Blob: inMemory, At: fbc.Place{File: "inMemory"}}),
		ix.Add(newFiles(map[string]string{"a": `{"schema":"olm.package","name":"q"}`})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	var got []string
	for _, e := range ix.Entries() {
		meta, err := ix.ReadBlob(e)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s of %s: %s", e, e.PackageName(), meta.Blob))
	}

	want := []string{
		`blob of schema olm.package, name "p" of p: {"name":"p","schema":"olm.package"}`,
		`blob of schema olm.bundle, package "p", name "b" of p: {"image":"<","name":"b","package":"p","schema":"olm.bundle"}`,
		`blob of schema olm.package, name "q" of q: {"name":"q","schema":"olm.package"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestIndexMapDoesBoth(t *testing.T) {
	ix := fbc.NewIndex(fbc.Limits{})
	fsys := newFiles(mixedFiles)
	var blobs []json.RawMessage
	for blob, err := range fbc.IndexMap(ix, fsys, func(m fbc.Meta) (json.RawMessage, error) { return m.Blob, nil }) {
		if err != nil {
			t.Fatal(err)
		}
		blobs = append(blobs, blob)
	}

	checkIndex(t, ix, fsys)
	for i, e := range ix.Entries() {
		if m, err := ix.ReadBlob(e); err != nil || string(m.Blob) != string(blobs[i]) {
			t.Errorf("blob %d is %s, %v, want %s", i, blobs[i], err, m.Blob)
		}
	}
}

func TestIndexRefusesWhatDoesNotFit(t *testing.T) {
	ix := fbc.NewIndex(fbc.Limits{})
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"schema in a file":    {ix.Add(newFiles(map[string]string{"f": `{"schema":"olm.channel","name":"c","entries":1}`})), "f: document 1 (line 1, byte 0): blob of schema olm.channel, name \"c\" does not fit its schema: json: cannot unmarshal number"},
		"schema in memory":    {ix.AddBlob(fbc.Meta{Blob: []byte(`{"schema":"olm.channel","entries":1}`), At: fbc.Place{File: "inMemory"}}), "inMemory: blob of schema olm.channel does not fit its schema"},
		"no JSON in memory":   {ix.AddBlob(fbc.Meta{Blob: []byte(`{`)}), "unexpected end of JSON input"},
		"no blob in memory":   {ix.AddBlob(fbc.Meta{Blob: []byte(`{}`)}), "missing root schema field"},
		"no text in memory":   {ix.AddBlob(fbc.Meta{Blob: []byte(`{"schema":1}`)}), `expected value for key "schema" to be a string`},
		"no object in memory": {ix.AddBlob(fbc.Meta{Blob: []byte(`[]`)}), "looking for beginning of object"},
	} {
		var content *fbc.Error
		if !errors.As(test.err, &content) || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: got error %v (%T), want an *fbc.Error: %s", name, test.err, test.err, test.want)
		}
	}
}

func TestIndexIsBounded(t *testing.T) {
	ix := fbc.NewIndex(fbc.Limits{Blobs: 2})
	const want = "the catalog has more than 2 blobs"
	err := ix.Add(newFiles(map[string]string{"a": "", "b": "", "c": "", "d": ""}))
	if err == nil || err.Error() != want || len(ix.Entries()) != 2 {
		t.Errorf("error is %v with %d blobs, want %s", err, len(ix.Entries()), want)
	}
	if err := ix.AddBlob(fbc.Meta{Blob: []byte(`{"schema":"s"}`)}); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestIndexNoticesChanges(t *testing.T) {
	const text = `{"schema":"s","name":"1"}{"schema":"s","name":"2"}`
	const want = "a.json: the file has changed since it was first read: start again"
	for name, test := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"shorter":     {func(path string) error { return os.WriteFile(path, []byte(text[:30]), 0o600) }, want},
		"later":       {func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(2_000_000_000, 0)) }, want},
		"other names": {func(path string) error { return replaceContent(path, strings.ReplaceAll(text, "2", "3")) }, want},
		"other text":  {func(path string) error { return replaceContent(path, strings.Repeat("x", len(text))) }, want},
		"gone":        {os.Remove, "reading a.json again: opening a.json: open a.json: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.json")
			if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, time.Time{}, time.Unix(1_000_000_000, 0))); err != nil {
				t.Fatal(err)
			}

			ix := fbc.NewIndex(fbc.Limits{})
			if err := errors.Join(ix.Add(os.DirFS(filepath.Dir(path))), test.change(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := ix.ReadBlob(ix.Entries()[1]); err == nil || err.Error() != test.want {
				t.Errorf("got error %v, want %s", err, test.want)
			}
		})
	}
}

// replaceContent changes a file but not its modification time.
func replaceContent(path, text string) error {
	return errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, time.Time{}, time.Unix(1_000_000_000, 0)))
}

// FuzzIndex reads each blob of a file again.
func FuzzIndex(f *testing.F) {
	for _, text := range mixedFiles {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		ix := fbc.NewIndex(fuzzLimits)
		var want []fbc.Meta
		for meta, err := range fbc.IndexMap(ix, newFiles(map[string]string{"f": string(text) + "\n"}), func(m fbc.Meta) (fbc.Meta, error) { return m, nil }) {
			if err != nil {
				break
			}
			want = append(want, meta)
		}

		if len(ix.Entries()) != len(want) {
			t.Fatalf("got %d entries, want %d", len(ix.Entries()), len(want))
		}

		for i, e := range ix.Entries() {
			if got, err := ix.ReadBlob(e); err != nil || !cmp.Equal(want[i], got) {
				t.Errorf("blob %d of %q is %+v, %v, want %+v", i, text, got, err, want[i])
			}
		}
	})
}
