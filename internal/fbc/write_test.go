package fbc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// unordered is a catalog of three packages with mixed blobs, some without a package.
const unordered = `
{"schema":"other","name":"last"}
{"schema":"olm.deprecations","package":"b","entries":[{"reference":{"schema":"olm.package"},"message":"m"}]}
{"schema":"olm.bundle","package":"b","name":"b.v2","image":"i","unknown":1}
{"schema":"z","package":"b","name":"1"}
{"schema":"olm.channel","package":"b","name":"y"}
{"schema":"olm.bundle","package":"b","name":"b.v1","image":"<>","relatedImages":[{"image":"z","name":"n"},{"image":"a","name":"n"}],
 "properties":[{"type":"olm.bundle.object","value":{"b":1,"a":[]}},{"type":"olm.gvk","value":{}},{"type":"olm.csv.metadata"},{"type":"t","value":1.0}]}
{"schema":"m","package":"b"}
{"schema":"olm.package","name":"b","defaultChannel":"y","icon":{"base64data":"aGk=","mediatype":"image/png"},"description":"d"}
{"schema":"z","package":"b","name":"0"}
{"schema":"olm.channel","package":"b","name":"x","entries":[{"name":"b.v1","skips":["s"],"skipRange":"<1.0.0","replaces":"r"}],"properties":[{"type":"t","value":"v"}]}
{"schema":"c","package":"a","name":"only"}
{"schema":"olm.channel","name":"lost"}
{"schema":"olm.bundle","name":"lost","image":""}
{"schema":"olm.deprecations"}
{"schema":"olm.package","defaultChannel":"lost"}
{"schema":"olm.bundle","package":"c","image":""}
{"schema":"another"}
`

// orderedJSON is the output for unordered.
const orderedJSON = `{"name":"only","package":"a","schema":"c"}
{"schema":"olm.package","name":"b","defaultChannel":"y","icon":{"base64data":"aGk=","mediatype":"image/png"},"description":"d"}
{"schema":"olm.channel","name":"x","package":"b","entries":[{"name":"b.v1","replaces":"r","skips":["s"],"skipRange":"<1.0.0"}],"properties":[{"type":"t","value":"v"}]}
{"schema":"olm.channel","name":"y","package":"b","entries":null}
{"schema":"olm.bundle","name":"b.v1","package":"b","image":"<>","properties":[{"type":"olm.gvk","value":{}},{"type":"t","value":1.0},{"type":"olm.bundle.object","value":{"a":[],"b":1}},{"type":"olm.csv.metadata","value":null}],"relatedImages":[{"name":"n","image":"a"},{"name":"n","image":"z"}]}
{"schema":"olm.bundle","name":"b.v2","package":"b","image":"i"}
{"package":"b","schema":"m"}
{"name":"1","package":"b","schema":"z"}
{"name":"0","package":"b","schema":"z"}
{"schema":"olm.deprecations","package":"b","entries":[{"reference":{"schema":"olm.package"},"message":"m"}]}
{"schema":"olm.bundle","package":"c","image":""}
{"name":"last","schema":"other"}
{"schema":"another"}
`

func newIndexOf(t *testing.T, text string) *fbc.Index {
	t.Helper()
	ix := fbc.NewIndex(fbc.Limits{})
	if err := ix.Add(newFiles(map[string]string{"catalog": text})); err != nil {
		t.Fatal(err)
	}
	return ix
}

func tidyBundle(b *fbc.Bundle) error {
	b.Tidy()
	return nil
}

func TestWriteBringsBlobsIntoOrder(t *testing.T) {
	for name, test := range map[string]struct {
		format fbc.Format
		write  func(io.Writer, []byte) error
	}{
		"JSON": {fbc.FormatJSON, func(w io.Writer, blob []byte) error {
			var out bytes.Buffer
			err := json.Indent(&out, blob, "", "    ")
			fmt.Fprintf(w, "%s\n", out.Bytes())
			return err
		}},
		"YAML": {fbc.FormatYAML, func(w io.Writer, blob []byte) error {
			text, err := yaml.JSONToYAML(blob)
			fmt.Fprintf(w, "---\n%s", text)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var want, got bytes.Buffer
			for line := range strings.Lines(orderedJSON) {
				if err := test.write(&want, []byte(strings.TrimSpace(line))); err != nil {
					t.Fatal(err)
				}
			}

			dropped, err := fbc.Write(&got, newIndexOf(t, unordered), fbc.WriteOptions{Format: test.format, Bundle: tidyBundle})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}

			wantDropped := []string{`blob of schema olm.channel, name "lost"`, `blob of schema olm.bundle, name "lost"`, "blob of schema olm.deprecations", "blob of schema olm.package"}
			if diff := cmp.Diff(wantDropped, entryNames(dropped)); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

func entryNames(entries []fbc.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.String())
	}
	return out
}

// fakeFolder records its files, and fails on request.
type fakeFolder struct {
	log                    []string
	create, write, closing error
}

func (f *fakeFolder) Create(path string) (io.WriteCloser, error) {
	f.log = append(f.log, "create "+path)
	return &fakeFile{folder: f, path: path}, f.create
}

type fakeFile struct {
	folder *fakeFolder
	path   string
	size   int
}

func (f *fakeFile) Write(text []byte) (int, error) {
	f.size += len(text)
	return len(text), f.folder.write
}

func (f *fakeFile) Close() error {
	f.folder.log = append(f.folder.log, fmt.Sprintf("close %s (%t)", f.path, f.size > 0))
	return f.folder.closing
}

func TestWriteFilesMakesOneForEachPackage(t *testing.T) {
	f := &fakeFolder{}
	dropped, err := fbc.WriteFiles(f.Create, newIndexOf(t, unordered), fbc.WriteOptions{Format: fbc.FormatYAML})
	if err != nil || len(dropped) != 4 {
		t.Fatalf("dropped %v, error %v", dropped, err)
	}

	want := []string{
		"create a/catalog.yaml", "close a/catalog.yaml (true)", "create b/catalog.yaml", "close b/catalog.yaml (true)",
		"create c/catalog.yaml", "close c/catalog.yaml (true)", "create catalog.yaml", "close catalog.yaml (true)",
	}
	if diff := cmp.Diff(want, f.log); diff != "" {
		t.Error(diff)
	}
}

func TestWriteFilesPassesErrorsOn(t *testing.T) {
	full := errors.New("the disk is full")
	for name, test := range map[string]struct {
		folder fakeFolder
		text   string
		want   string
		log    []string
	}{
		"create":        {fakeFolder{create: full}, unordered, `write file "a/catalog.json": the disk is full`, []string{"create a/catalog.json"}},
		"write":         {fakeFolder{write: full}, unordered, `write file "a/catalog.json": the disk is full`, []string{"create a/catalog.json", "close a/catalog.json (true)"}},
		"close":         {fakeFolder{closing: full}, unordered, `write file "a/catalog.json": the disk is full`, []string{"create a/catalog.json", "close a/catalog.json (true)"}},
		"close at last": {fakeFolder{closing: full}, `{"schema":"x"}`, `write file "catalog.json": the disk is full`, []string{"create catalog.json", "close catalog.json (true)"}},
		"slash":         {fakeFolder{}, `{"schema":"x","package":"a"}{"schema":"x","package":"b/c"}`, `invalid package name "b/c": must be a single local path element`, nil},
		"above":         {fakeFolder{}, `{"schema":"x","package":".."}`, `invalid package name "..": must be a single local path element`, nil},
		"itself":        {fakeFolder{}, `{"schema":"x","package":"."}`, `invalid package name ".": must be a single local path element`, nil},
		"backslash":     {fakeFolder{}, `{"schema":"x","package":"a\\b"}`, `invalid package name "a\\b": must be a single local path element`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fbc.WriteFiles(test.folder.Create, newIndexOf(t, test.text), fbc.WriteOptions{})
			if err == nil || err.Error() != test.want {
				t.Errorf("got error %v, want %s", err, test.want)
			}
			if diff := cmp.Diff(test.log, test.folder.log); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriteEndsWithTheFirstError(t *testing.T) {
	failed := errors.New("failed")
	_, err := fbc.Write(io.Discard, newIndexOf(t, unordered), fbc.WriteOptions{Bundle: func(*fbc.Bundle) error { return failed }})
	if !errors.Is(err, failed) {
		t.Errorf("got error %v, want that of the function", err)
	}

	path := writeFolder(t, map[string]string{"f": unordered})
	ix := fbc.NewIndex(fbc.Limits{})
	if err := ix.Add(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fmt.Sprintf("%s/f", path), []byte(orderedJSON), 0o600); err != nil {
		t.Fatal(err)
	}

	var content *fbc.Error
	if _, err := fbc.Write(io.Discard, ix, fbc.WriteOptions{}); !errors.As(err, &content) {
		t.Errorf("got error %v, want an *fbc.Error about the changed file", err)
	}
}

// TestWriteLosesNothing writes the real catalogs and reads them again.
func TestWriteLosesNothing(t *testing.T) {
	ix := fbc.NewIndex(fbc.Limits{})
	if err := ix.Add(os.DirFS(checkout.SharedData(t, "fbc"))); err != nil {
		t.Fatal(err)
	}

	want := readEveryBlob(t, ix)
	for _, format := range []fbc.Format{fbc.FormatJSON, fbc.FormatYAML} {
		var text, again bytes.Buffer
		dropped, err := fbc.Write(&text, ix, fbc.WriteOptions{Format: format})
		if err != nil || len(dropped) > 0 {
			t.Fatalf("dropped %v, error %v", dropped, err)
		}

		reread := newIndexOf(t, text.String())
		if diff := cmp.Diff(want, readEveryBlob(t, reread)); diff != "" {
			t.Errorf("blobs (-want +got):\n%s", diff)
		}
		if _, err := fbc.Write(&again, reread, fbc.WriteOptions{Format: format}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text.Bytes(), again.Bytes()) {
			t.Error("got another text from writing a written catalog again, want the same")
		}
	}
}

func readEveryBlob(t *testing.T, ix *fbc.Index) []string {
	t.Helper()
	var out []string
	for _, e := range ix.Entries() {
		m, err := ix.ReadBlob(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(m.Blob))
	}

	slices.Sort(out)
	return out
}

// FuzzWrite compares the output for a blob with encoding/json and sigs.k8s.io/yaml.
func FuzzWrite(f *testing.F) {
	for line := range strings.Lines(orderedJSON) {
		f.Add([]byte(line))
	}

	for _, seed := range decodeSeeds {
		f.Add([]byte(strings.Replace(seed, "{", `{"schema":"olm.bundle","package":"p",`, 1)))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		ix := fbc.NewIndex(fbc.Limits{Depth: 20})
		if ix.AddBlob(fbc.Meta{Blob: text}) != nil || ix.Entries()[0].PackageName() == "" {
			return
		}

		m, err := ix.ReadBlob(ix.Entries()[0])
		if err != nil {
			t.Fatal(err)
		}

		compact := marshalReference(t, m)
		var want, got bytes.Buffer
		if err := json.Indent(&want, compact, "", "    "); err != nil {
			t.Fatal(err)
		}
		if _, err := fbc.Write(&got, ix, fbc.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String()+"\n", got.String()); diff != "" {
			t.Errorf("JSON of %s (-want +got):\n%s", m.Blob, diff)
		}
	})
}

// marshalReference returns a blob as encoding/json writes it.
func marshalReference(t *testing.T, m fbc.Meta) []byte {
	t.Helper()
	var value any = m.Blob
	switch m.Schema {
	case fbc.SchemaPackage:
		value = new(fbc.Package)
	case fbc.SchemaChannel:
		value = new(fbc.Channel)
	case fbc.SchemaBundle:
		value = new(fbc.Bundle)
	case fbc.SchemaDeprecations:
		value = new(fbc.Deprecations)
	}

	if _, other := value.(json.RawMessage); !other {
		if err := json.Unmarshal(m.Blob, value); err != nil {
			t.Fatal(err)
		}
	}

	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		t.Fatal(err)
	}

	return bytes.TrimSpace(out.Bytes())
}
