package catalogstore

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errKilled = errors.New("the process was killed")

// killer simulates a process that is killed after a number of changes: it rejects all later changes,
// including those of the cleanup.
type killer struct {
	after int
	// done lists the changes that were made.
	done []string
}

func (k *killer) before(change, path string) error {
	if len(k.done) == k.after {
		if change == "write" {
			// A write can be interrupted at any byte.
			_ = appendTo(path, "half of it")
		}
		return errKilled
	}

	k.done = append(k.done, change+" "+filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
	return nil
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

const (
	crashOld = `{"name":"old","schema":"olm.package"}` + "\n"
	crashNew = `{"name":"new","schema":"olm.package"}` + "\n"
)

func crashFiles(text string) fstest.MapFS { return fstest.MapFS{"c.json": {Data: []byte(text)}} }

// contents returns the content of each catalog of a store.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	s, err := Open(dir, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	found := map[string]string{}
	for _, name := range s.Names() {
		content, err := s.Content(name)
		if err != nil {
			t.Errorf("catalog %s: %v", name, err)
			continue
		}

		text, err := io.ReadAll(content.All().Reader())
		if err != nil {
			t.Errorf("catalog %s: %v", name, err)
		}

		found[name] = string(text)
		content.Close()
	}

	return found
}

// TestAProcessMayEndBetweenAnyTwoChanges simulates a crash before each change of an operation, and checks that
// the next process finds either the old or the new content, and no leftover files.
func TestAProcessMayEndBetweenAnyTwoChanges(t *testing.T) {
	before := map[string]string{"c": crashOld, "other": crashOld}
	for name, test := range map[string]struct {
		do    func(s *Store) error
		after map[string]string
	}{
		"unpack the first": {
			func(s *Store) error { return unpackCrash(t, s, "new", crashNew) },
			map[string]string{"c": crashOld, "other": crashOld, "new": crashNew},
		},
		"unpack new content": {
			func(s *Store) error { return unpackCrash(t, s, "c", crashNew) },
			map[string]string{"c": crashNew, "other": crashOld},
		},
		"unpack the same content": {
			func(s *Store) error { return unpackCrash(t, s, "c", crashOld) },
			before,
		},
		"replace both": {
			func(s *Store) error {
				return errors.Join(unpackCrash(t, s, "c", crashNew), unpackCrash(t, s, "other", crashNew))
			},
			map[string]string{"c": crashNew, "other": crashNew},
		},
		"confirm": {
			func(s *Store) error { _, err := s.Confirm("c", "r:v2", time.Now()); return err },
			before,
		},
		"delete one of two": {
			func(s *Store) error { return s.Delete("c") },
			map[string]string{"other": crashOld},
		},
		"delete both": {
			func(s *Store) error { return errors.Join(s.Delete("c"), s.Delete("other")) },
			map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			last := 0
			for after := 0; ; after++ {
				dir := filepath.Join(t.TempDir(), "store")
				prepareCrash(t, dir)
				k := &killer{after: after}
				s, err := openStore(dir, Limits{}, disk{beforeChange: k.before})
				if err == nil {
					err = test.do(s)
					s.Close()
				}
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}

				checkOrder(t, k.done)
				got := contents(t, dir)
				for name, text := range got {
					if text != before[name] && text != test.after[name] {
						t.Errorf("killed after %q: got content %[3]q of catalog %[2]s, want the old or the new content", k.done, name, text)
					}
				}

				for name := range before {
					if _, stays := test.after[name]; stays && got[name] == "" {
						t.Errorf("killed after %q: got no content of catalog %s, want some", k.done, name)
					}
				}

				checkNothingIsLeft(t, dir, got)
				if err == nil {
					if diff := cmp.Diff(test.after, got); diff != "" {
						t.Errorf("after all changes (-want +got):\n%s", diff)
					}
					break
				}
				last = after
			}
			if last < 1 {
				t.Errorf("got %d places at which the process was killed, want at least 2", last+1)
			}
		})
	}
}

func unpackCrash(t *testing.T, s *Store, name, text string) error {
	t.Helper()
	_, err := s.Unpack(t.Context(), name, Source{}, crashFiles(text))
	return err
}

func prepareCrash(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(dir, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"c", "other"} {
		if err := unpackCrash(t, s, name, crashOld); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := s.Scratch(); err != nil {
		t.Fatal(err)
	}
}

// checkOrder checks that files are synced before they are renamed, so that a power failure leaves either the
// old or the new content, too.
func checkOrder(t *testing.T, done []string) {
	t.Helper()
	synced := false
	for i, change := range done {
		switch {
		case strings.HasPrefix(change, "create"), strings.HasPrefix(change, "write"):
			synced = false
		case strings.HasPrefix(change, "sync"):
			synced = true
		case strings.HasPrefix(change, "rename") && !synced:
			t.Errorf("got %q before the file is synced in %q, want it after that", change, done[:i+1])
		}
	}
}

// checkNothingIsLeft checks that the store contains only the files of catalogs.
func checkNothingIsLeft(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	distinct := map[string]bool{}
	for _, text := range want {
		distinct[text] = true
	}

	files := 0
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files++
		}
		if entry.Name() == scratchFolder {
			return fmt.Errorf("%s is still there", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if files != len(want)+len(distinct) {
		t.Errorf("the store has %d files for the catalogs %v with %d contents", files, slices.Sorted(maps.Keys(want)), len(distinct))
	}
}

// TestACompressedFormOfContentThatIsGoneIsNotKept replaces content while its compressed form is created.
func TestACompressedFormOfContentThatIsGoneIsNotKept(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := unpackCrash(t, s, "c", crashOld); err != nil {
		t.Fatal(err)
	}

	content, err := s.Content("c")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	out, err := s.disk.createPendingFile(s.contentDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Delete("c"); err != nil {
		t.Fatal(err)
	}

	place := content.file.path + "." + string(Gzip)
	if err := s.files.renameCompressedForm(content.file, out, place); !errors.Is(err, errContentReplaced) {
		t.Errorf("storing a compressed form of replaced content: got error %v, want errContentReplaced", err)
	}

	out.closeAndDiscard()
	if left := contents(t, dir); len(left) > 0 {
		t.Errorf("got content %v in the store, want none", left)
	}

	checkNothingIsLeft(t, dir, nil)
}
