package filecopy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/action/filecopy"
)

// writeTree writes files below a folder. A text with the prefix "-> " creates a link.
func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}

		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, name)
		} else {
			err = os.WriteFile(name, []byte(text), 0o555)
		}

		if err != nil {
			t.Fatal(err)
		}
	}
}

// readTree returns the files below a folder in the format of writeTree.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}

		if entry.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			files[filepath.ToSlash(below)] = "-> " + target
			return err
		}

		text, err := os.ReadFile(name)
		files[filepath.ToSlash(below)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return files
}

// A copy can be repeated, because the pod may be restarted.
func TestCopy(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "deep", "down")
	tree := map[string]string{"a.yaml": "a", "b/c.yaml": "c", "b/d": "-> c.yaml"}
	writeTree(t, from, tree)
	link := filepath.Join(t.TempDir(), "link")
	writeTree(t, filepath.Dir(link), map[string]string{"link": "-> " + from})
	for range 2 {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := (&filecopy.Copy{From: link, To: to}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tree, readTree(t, to)); diff != "" {
			t.Errorf("the copy (-want +got):\n%s", diff)
		}
	}
}

// Copying a link to a program copies the program.
func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"program": "#!", "alias": "-> program"})
	var copied []string
	c := filecopy.Copy{From: filepath.Join(dir, "alias"), To: filepath.Join(dir, "copy"), Copied: func(from, to string) {
		copied = append(copied, filepath.Base(from)+" "+filepath.Base(to))
	}}
	for range 2 { // the existing file is read-only the second time
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	info, err := os.Lstat(c.To)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o555 {
		t.Errorf("got mode %v, want 0555", info.Mode())
	}
	if diff := cmp.Diff([]string{"alias copy", "alias copy"}, copied); diff != "" {
		t.Errorf("copied (-want +got):\n%s", diff)
	}
}

func TestCopyMissingFile(t *testing.T) {
	c := filecopy.Copy{From: filepath.Join(t.TempDir(), "nothing"), To: t.TempDir()}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing: no such file") {
		t.Errorf("got error %v, want one about a missing file", err)
	}
}

const annotations = `annotations:
  operators.operatorframework.io.bundle.manifests.v1: deploy/
`

// The annotations determine the folders of a bundle. Other files of the image are not copied.
func TestBundle(t *testing.T) {
	for name, test := range map[string]struct {
		image map[string]string
		want  map[string]string
		err   string
	}{
		"as usual": {
			image: map[string]string{"manifests/csv.yaml": "kind: X\n", "metadata/annotations.yaml": "annotations: {}\n", "bin/sh": "#!"},
			want:  map[string]string{"manifests/csv.yaml": "kind: X\n", "metadata/annotations.yaml": "annotations: {}\n"},
		},
		"elsewhere": {
			image: map[string]string{"deploy/csv.yaml": "kind: X\n", "metadata/annotations.yaml": annotations},
			want:  map[string]string{"deploy/csv.yaml": "kind: X\n", "metadata/annotations.yaml": annotations},
		},
		"with a link out of it": {
			image: map[string]string{"manifests/csv.yaml": "kind: X\n", "manifests/passwd": "-> /etc/passwd", "metadata/annotations.yaml": "annotations: {}\n"},
			err:   "manifests/passwd",
		},
		"without manifests": {image: map[string]string{"metadata/annotations.yaml": "annotations: {}\n"}, want: map[string]string{}, err: "no folder manifests"},
		"without metadata":  {image: map[string]string{"manifests/csv.yaml": "kind: X\n"}, want: map[string]string{}, err: "no folder metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			image, to := t.TempDir(), t.TempDir()
			writeTree(t, image, test.image)
			err := (&filecopy.Bundle{From: image, To: to}).Run(t.Context())
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Fatalf("got error %v, want one with %q", err, test.err)
			}
			if test.want == nil {
				return
			}
			if diff := cmp.Diff(test.want, readTree(t, to)); diff != "" {
				t.Errorf("the copy (-want +got):\n%s", diff)
			}
		})
	}
}
