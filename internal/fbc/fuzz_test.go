package fbc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// fuzzLimits keep each run short.
var fuzzLimits = fbc.Limits{BlobBytes: 1 << 16, YAMLBytes: 1 << 14, FileBytes: 1 << 18, Depth: 50}

// FuzzReadJSON compares with encoding/json: sequences of objects with a schema have the same
// result.
func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{twoPackages, `{"schema":"a"}{"schema":"b"}`, `{"schema":"a","x":{"y":["}",null,1e5,true]}}`, `{"sch\u0065ma":"a\\"}`, "{\"schema\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		want, ok := decodeAll(text)
		got, err := readAll(bytes.NewReader(text), fuzzLimits)
		if !ok {
			return
		}
		if err != nil {
			t.Fatalf("got error %v for %q, which encoding/json reads", err, text)
		}
		if len(want) != len(got) {
			t.Fatalf("got %d blobs of %q, want %d", len(got), text, len(want))
		}

		for i, w := range want {
			var value map[string]any
			if err := json.Unmarshal(got[i].Blob, &value); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(w, value); diff != "" {
				t.Errorf("blob %d of %q (-want +got):\n%s", i, text, diff)
			}
			if w["schema"] != got[i].Schema {
				t.Errorf("got schema %q, want %q", got[i].Schema, w["schema"])
			}
		}
	})
}

// decodeAll decodes a sequence of objects that are simple catalog blobs.
func decodeAll(text []byte) ([]map[string]any, bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var all []map[string]any
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return all, true
		} else if err != nil || bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) > fuzzLimits.Depth || len(raw) > fuzzLimits.BlobBytes {
			return nil, false
		}

		var object map[string]any
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, false
		}

		folded := map[string]bool{}
		for key, value := range object {
			lower := strings.ToLower(key)
			_, isString := value.(string)
			if folded[lower] || (lower == "schema" || lower == "package" || lower == "name") && (!isString || lower != key) {
				return nil, false
			}
			folded[lower] = true
		}

		// The first of two duplicate keys may have had another type.
		if schema, _ := object["schema"].(string); schema == "" || hasDuplicateKeys(raw, len(object)) {
			return nil, false
		}

		all = append(all, object)
	}
}

// hasDuplicateKeys reports whether an object has more keys than a map of it.
func hasDuplicateKeys(raw []byte, distinct int) bool {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return true
	}

	count := 0
	for decoder.More() {
		var value json.RawMessage
		if _, err := decoder.Token(); err != nil || decoder.Decode(&value) != nil {
			return true
		}
		count++
	}

	return count != distinct
}

// FuzzReadYAML compares one document with sigs.k8s.io/yaml, and reading in pieces with reading at
// once.
func FuzzReadYAML(f *testing.F) {
	for _, seed := range []string{"schema: a\nx: [1, 2.5, true, null, ~, yes, 0777, 1e3]\n", "schema: a\nt: |\n  b\n   c\n", "---\nschema: a\n---\nschema: b\n", "schema: a\nx: &x {y: 1}\nz: *x\n", "{schema: a,}", "schema: !!binary aGk=\n", "schema: a\nd: 2020-01-01\n"} {
		f.Add([]byte(seed))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := readAll(bytes.NewReader(text), fuzzLimits)
		pieces, perr := readAll(iotest.OneByteReader(bytes.NewReader(text)), fuzzLimits)
		if diff := cmp.Diff(got, pieces); diff != "" || (err == nil) != (perr == nil) {
			t.Fatalf("read in pieces: got error %v, want %v; blobs (-want as read at once +got):\n%s", perr, err, diff)
		}

		for _, m := range got {
			if !json.Valid(m.Blob) || bytes.IndexByte(m.Blob, '\n') >= 0 || m.Schema == "" {
				t.Fatalf("got %+v, want a blob", m)
			}
		}

		if err != nil || len(got) != 1 || bytes.Contains(text, []byte("---")) || bytes.Contains(text, []byte("...")) || bytes.HasPrefix(text, []byte("%")) {
			return
		}

		var want, have any
		if yaml.Unmarshal(text, &want) != nil {
			return
		}
		if err := json.Unmarshal(got[0].Blob, &have); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	})
}

// FuzzWalk searches for inputs that break the walk and its ignore files.
func FuzzWalk(f *testing.F) {
	f.Add("**/*\n!*.json\n", "a/**/b\n", "schema: a\n")
	f.Add("[a\n\\", "/", "{")
	f.Fuzz(func(t *testing.T, root, nested, text string) {
		fsys := fstest.MapFS{
			".indexignore":     {Data: []byte(root)},
			"a/b/.indexignore": {Data: []byte(nested)},
			"a/b/c.json":       {Data: []byte(text)},
			"d.yaml":           {Data: []byte(text)},
		}
		count := 0
		for meta, err := range fbc.Walk(fsys, fuzzLimits) {
			if err != nil {
				var content *fbc.Error
				if !errors.As(err, &content) {
					t.Errorf("got error %v (%T), want an *fbc.Error", err, err)
				}
				return
			}
			if count++; meta.Schema == "" || !json.Valid(meta.Blob) {
				t.Errorf("got %+v, want a blob", meta)
			}
		}
	})
}
