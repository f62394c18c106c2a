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
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// newFiles returns a file system. A file without text has one blob with the path as its name.
func newFiles(paths map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for path, text := range paths {
		if text == "" {
			text = fmt.Sprintf("{\"schema\":\"s\",\"name\":%q}\n", path)
		}
		fsys[path] = &fstest.MapFile{Data: []byte(text)}
	}

	return fsys
}

// walkNames returns the names of the blobs.
func walkNames(fsys fs.FS, limits fbc.Limits) ([]string, error) {
	var names []string
	for meta, err := range fbc.Walk(fsys, limits) {
		if err != nil {
			return names, err
		}
		names = append(names, meta.Name)
	}

	return names, nil
}

func TestWalkReadsEveryFile(t *testing.T) {
	got, err := walkNames(newFiles(map[string]string{
		"z.json": "", "a/b/c.yaml": "schema: s\nname: one\n---\nschema: s\nname: two\n", "README": "", ".hidden/x": "",
		"a/empty.yaml": "\n", "b/many.json": `{"schema":"s","name":"1"}{"schema":"s","name":"2"}`,
	}), fbc.Limits{})
	if err != nil {
		t.Fatal(err)
	}

	want := []string{".hidden/x", "README", "one", "two", "1", "2", "z.json"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
}

func TestWalkLeavesOutWhatIgnoreFilesSay(t *testing.T) {
	for name, test := range map[string]struct {
		ignore map[string]string
		files  string
		want   string
	}{
		"name at any depth":                     {map[string]string{"": "README.md"}, "README.md a/README.md b.json", "b.json"},
		"glob":                                  {map[string]string{"": "*.txt"}, "a.txt b/c.txt d.json", "d.json"},
		"anchored by a first slash":             {map[string]string{"": "/a.txt"}, "a.txt b/a.txt", "b/a.txt"},
		"anchored by a slash":                   {map[string]string{"": "b/a.txt"}, "b/a.txt c/b/a.txt", "c/b/a.txt"},
		"folder":                                {map[string]string{"": "objects/"}, "objects a/objects/x a/y", "a/y objects"},
		"folder by its name":                    {map[string]string{"": "objects"}, "a/objects/x/y a/y", "a/y"},
		"anchored folder":                       {map[string]string{"": "/a/b"}, "a/b/c/d a/c", "a/c"},
		"leading stars":                         {map[string]string{"": "**/b"}, "b a/b a/c/b/d e", "e"},
		"trailing stars":                        {map[string]string{"": "a/**"}, "a/b a/c/d e", "e"},
		"stars alone do not match their folder": {map[string]string{"": "a/**"}, "a b", "a b"},
		"middle stars":                          {map[string]string{"": "a/**/z"}, "a/z a/b/z a/b/c/z z", "z"},
		"the documented example": {map[string]string{"": "**/*\n!*.json\n!*.yaml\n**/objects/*.json\n**/objects/*.yaml\n"},
			"a.json b/c.yaml b/objects/d.json b/README.md", "a.json b/c.yaml"},
		"the last line wins":     {map[string]string{"": "*.json\n!a.json\nb/a.json"}, "a.json c.json b/a.json", "a.json"},
		"below its folder":       {map[string]string{"b": "*.json"}, "a.json b/a.json b/c/a.json", "a.json"},
		"anchored to its folder": {map[string]string{"b": "/a.json"}, "a.json b/a.json b/c/a.json", "a.json b/c/a.json"},
		"the deeper file wins":   {map[string]string{"": "*.json", "b": "!a.json"}, "a.json b/a.json", "b/a.json"},
		"in an ignored folder":   {map[string]string{"": "b/", "b": "!a.json"}, "b/a.json b/c.json", "b/a.json"},
		"comments and blanks":    {map[string]string{"": "\ufeff# a.json\r\n\r\n  b.json  \r\n\\#c\n\\!d\n"}, "a.json b.json #c !d", "a.json"},
		"class and escape":       {map[string]string{"": "[!a].json\n\\*.txt\n?x"}, "a.json b.json a.txt *.txt yx", "a.json a.txt"},
		"blank at the end":       {map[string]string{"": "a\\ \nb "}, "a b c", "a c"},
		"malformed pattern":      {map[string]string{"": "[a\n/\n!\n"}, "a b", "a b"},
		"two stars alone":        {map[string]string{"": "**"}, "a b/c", ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string]string{}
			for dir, text := range test.ignore {
				all[strings.TrimPrefix(dir+"/.indexignore", "/")] = text
			}

			for file := range strings.FieldsSeq(test.files) {
				all[file] = ""
			}

			got, err := walkNames(newFiles(all), fbc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(test.want), append([]string{}, got...)); diff != "" {
				t.Errorf("files read (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWalkRefusesWhatItMustNotFollow(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(outside, []byte(`{"schema":"s"}`), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		link func(dir string) error
		want string
	}{
		"link out":       {func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "a.json")) }, "a.json: the symbolic link cannot be followed"},
		"dangling link":  {func(dir string) error { return os.Symlink("none", filepath.Join(dir, "a.json")) }, "a.json: the symbolic link cannot be followed"},
		"link to folder": {func(dir string) error { return os.Symlink(".", filepath.Join(dir, "a")) }, "a: is a symbolic link to a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := test.link(dir); err != nil {
				t.Fatal(err)
			}

			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}

			t.Cleanup(func() { _ = root.Close() })
			_, err = walkNames(root.FS(), fbc.Limits{})
			var content *fbc.Error
			if !errors.As(err, &content) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v (%T), want an *fbc.Error: %s", err, err, test.want)
			}
		})
	}
}

func TestWalkFollowsALinkToAFile(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{"schema":"s","name":"n"}`), 0o600),
		os.Symlink("a.json", filepath.Join(dir, "b.json"))); err != nil {
		t.Fatal(err)
	}

	got, err := walkNames(os.DirFS(dir), fbc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"n", "n"}, got); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
}

func TestWalkKeepsItsLimits(t *testing.T) {
	for name, test := range map[string]struct {
		files  map[string]string
		limits fbc.Limits
		want   string
	}{
		"files":         {map[string]string{"a": "", "b": "", "c": ""}, fbc.Limits{Files: 2}, ".: the catalog has more than 2 files"},
		"files below":   {map[string]string{"a": "", "b/c": "", "b/d": ""}, fbc.Limits{Files: 3}, "b: the catalog has more than 3 files"},
		"folders":       {map[string]string{"a/b/c/d": ""}, fbc.Limits{Folders: 2}, "a/b/c: folders are nested more than 2 deep"},
		"ignore file":   {map[string]string{".indexignore": strings.Repeat("a", 1<<20+1)}, fbc.Limits{}, ".indexignore: is larger than 1048576 bytes"},
		"ignore lines":  {map[string]string{".indexignore": strings.Repeat("a\n", 10001)}, fbc.Limits{}, ".indexignore: has more than 10000 patterns"},
		"a broken file": {map[string]string{"a/b.yaml": "schema: a\n---\n[", "z": ""}, fbc.Limits{}, "a/b.yaml: document 2 (line 3, byte 14): cannot be parsed as YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := walkNames(newFiles(test.files), test.limits)
			var content *fbc.Error
			if !errors.As(err, &content) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v (%T), want an *fbc.Error: %s", err, err, test.want)
			}
		})
	}
}

func TestWalkStopsWhenTheConsumerDoes(t *testing.T) {
	count := 0
	for _, err := range fbc.Walk(newFiles(map[string]string{"a": "", "b/c": "", "d": "["}), fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count == 2 {
			break
		}
	}

	if count != 2 {
		t.Errorf("got %d blobs, want 2", count)
	}
}

// TestWalkReadsRealCatalogs compares each blob with that of an independent parser.
func TestWalkReadsRealCatalogs(t *testing.T) {
	dir := checkout.SharedData(t, "fbc")
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("got no catalogs in %s (error %v), want some", dir, err)
	}

	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		var want []any
		for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			var value any
			if err := yaml.Unmarshal([]byte(document), &value); err != nil {
				t.Fatal(err)
			}
			want = append(want, value)
		}

		var got []any
		for meta, err := range fbc.Walk(os.DirFS(filepath.Dir(path)), fbc.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}

			var value any
			if err := json.Unmarshal(meta.Blob, &value); err != nil {
				t.Fatal(err)
			}

			got = append(got, value)
			decodeDefinedSchema(t, meta)
		}

		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func decodeDefinedSchema(t *testing.T, meta fbc.Meta) {
	t.Helper()
	var err error
	switch meta.Schema {
	case fbc.SchemaPackage:
		_, err = fbc.DecodePackage(meta)
	case fbc.SchemaChannel:
		_, err = fbc.DecodeChannel(meta)
	case fbc.SchemaBundle:
		_, err = fbc.DecodeBundle(meta)
	case fbc.SchemaDeprecations:
		_, err = fbc.DecodeDeprecations(meta)
	}

	if err != nil {
		t.Error(err)
	}
}
