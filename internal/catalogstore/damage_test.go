package catalogstore_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// damages are ways to damage the files of a store. Each function gets the directory of the store, the content
// file and the pointer file of a catalog.
var damages = map[string]struct {
	do func(dir, content, pointer string) error
	// served is set if a process that has the content open continues to serve it.
	served bool
}{
	"store deleted":      {func(dir, _, _ string) error { return os.RemoveAll(dir) }, true},
	"folders deleted":    {func(dir, _, _ string) error { return removeFolders(dir) }, true},
	"content deleted":    {func(_, content, _ string) error { return os.Remove(content) }, true},
	"content replaced":   {func(_, content, _ string) error { return replace(content, "x") }, true},
	"content cut off":    {func(_, content, _ string) error { return os.Truncate(content, 20) }, false},
	"content emptied":    {func(_, content, _ string) error { return os.Truncate(content, 0) }, false},
	"blobs changed":      {func(_, content, _ string) error { return change(content, 12) }, false},
	"line break changed": {func(_, content, _ string) error { return change(content, int64(len(lineA)-1)) }, false},
	"index changed":      {func(_, content, _ string) error { return change(content, int64(len(lineA+lineB))+30) }, false},
	"trailer changed":    {func(_, content, _ string) error { return change(content, -10) }, false},
	"other version":      {func(_, content, _ string) error { return change(content, -50) }, false},
	"pointer deleted":    {func(_, _, pointer string) error { return os.Remove(pointer) }, true},
	"pointer emptied":    {func(_, _, pointer string) error { return os.Truncate(pointer, 0) }, true},
	"pointer changed":    {func(_, _, pointer string) error { return change(pointer, 12) }, true},
	"pointer replaced":   {func(_, _, pointer string) error { return replace(pointer, "{}\n") }, true},
	"a folder instead":   {func(_, content, _ string) error { return errors.Join(os.Remove(content), os.Mkdir(content, 0o700)) }, true},
}

func removeFolders(dir string) error {
	return errors.Join(os.RemoveAll(filepath.Join(dir, "content")), os.RemoveAll(filepath.Join(dir, "catalogs")))
}

func replace(path, text string) error {
	return errors.Join(os.Remove(path), os.WriteFile(path, []byte(text), 0o600))
}

// change flips a bit of a file in place, at an offset from the start or, if negative, from the end.
func change(path string, offset int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if offset < 0 {
		offset += info.Size()
	}

	b := make([]byte, 1)
	if _, err := f.ReadAt(b, offset); err != nil {
		return err
	}

	b[0] ^= 1
	if _, err := f.WriteAt(b, offset); err != nil {
		return err
	}

	// The timestamps of the file system can be too coarse to detect an immediate change.
	return os.Chtimes(path, time.Time{}, time.Now().Add(time.Minute))
}

func TestDamageIsNoticedAndHealed(t *testing.T) {
	const text = lineA + lineB
	for name, test := range damages {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, lost := open(t, dir)
			unpack(t, s, "c", text)
			if err := test.do(dir, contentFile(t, s, dir, "c"), filepath.Join(dir, "catalogs", "c")); err != nil {
				t.Fatal(err)
			}

			s.Check()
			s.Check()
			if diff := cmp.Diff([]string{"c"}, lost.all()); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}

			var damaged *catalogstore.DamagedError
			if _, err := s.Stored("c"); !errors.As(err, &damaged) {
				t.Errorf("stored: %v, want a *catalogstore.DamagedError", err)
			}
			if got := s.Serves("c"); got != test.served {
				t.Errorf("got serves %v, want %v", got, test.served)
			}

			if test.served {
				if got := read(t, s, "c", catalogstore.Query{}); got != text {
					t.Errorf("served %q, want %q", got, text)
				}
			}

			unpack(t, s, "c", text)
			if _, err := s.Stored("c"); err != nil {
				t.Errorf("got error %v after the catalog was unpacked again, want none", err)
			}
			if got := read(t, s, "c", catalogstore.Query{}); got != text {
				t.Errorf("got content %q after the catalog was unpacked again, want %q", got, text)
			}

			again, _ := open(t, dir)
			if got := read(t, again, "c", catalogstore.Query{}); got != text {
				t.Errorf("got content %q after a restart, want %q", got, text)
			}
		})
	}
}

// TestDamageWhileStoppedIsNotServed damages files while no process is running.
func TestDamageWhileStoppedIsNotServed(t *testing.T) {
	const text = lineA + lineB
	for name, test := range damages {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s, _ := open(t, dir)
			unpack(t, s, "c", text)
			content := contentFile(t, s, dir, "c")
			s.Close()
			if err := test.do(dir, content, filepath.Join(dir, "catalogs", "c")); err != nil {
				t.Fatal(err)
			}

			again, lost := open(t, dir)
			found, err := again.Content("c")
			if err == nil {
				defer found.Close()
				// Blobs are verified while they are read.
				var served []byte
				served, err = io.ReadAll(found.All().Reader())
				if !strings.HasPrefix(text, string(served)) {
					t.Errorf("got content %q, want a prefix of %q", served, text)
				}
			}

			var damaged *catalogstore.DamagedError
			switch {
			case err == nil:
				t.Error("got damaged content without an error, want one")
			case errors.Is(err, catalogstore.ErrNotFound) && len(again.Names()) == 0:
				// The store has no trace of the catalog.
				return
			default:
				<-lost.reported
			}

			if _, err := again.Stored("c"); !errors.As(err, &damaged) {
				t.Errorf("stored: %v, want a *catalogstore.DamagedError", err)
			}

			unpack(t, again, "c", text)
			if got := read(t, again, "c", catalogstore.Query{}); got != text {
				t.Errorf("got content %q after the catalog was unpacked again, want %q", got, text)
			}
		})
	}
}

// TestCheckDetectsDamageWithoutReaders checks that Check detects damage without readers.
func TestCheckDetectsDamageWithoutReaders(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	unpack(t, s, "c", lineA+lineB)
	content := contentFile(t, s, dir, "c")
	s.Close()
	if err := change(content, 12); err != nil {
		t.Fatal(err)
	}

	again, lost := open(t, dir)
	if _, err := again.Stored("c"); err != nil {
		t.Fatal(err)
	}

	<-lost.reported
	var damaged *catalogstore.DamagedError
	if _, err := again.Stored("c"); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "the checksum of blob 0 does not match") {
		t.Errorf("stored: %v, want a *catalogstore.DamagedError", err)
	}
	if again.Serves("c") {
		t.Error("got damaged content served, want none")
	}
}

func TestCatalogsWithTheSameContentShareIt(t *testing.T) {
	dir := t.TempDir()
	s, lost := open(t, dir)
	unpack(t, s, "a", lineA)
	unpack(t, s, "b", lineA)
	path := contentFile(t, s, dir, "a")
	if len(tree(t, dir)) != 3 {
		t.Errorf("the store has %v, want two catalogs and one content", tree(t, dir))
	}

	// Both catalogs lose the content. Unpacking one of them repairs both.
	if err := os.Truncate(path, 5); err != nil {
		t.Fatal(err)
	}

	s.Check()
	if diff := cmp.Diff([]string{"a", "b"}, lost.all()); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}

	unpack(t, s, "b", lineA)
	for _, name := range []string{"a", "b"} {
		if got := read(t, s, name, catalogstore.Query{}); got != lineA {
			t.Errorf("catalog %s: got content %q, want %q", name, got, lineA)
		}
	}

	// Shared content is kept until the last catalog is deleted, also before a new process has opened it.
	again, _ := open(t, dir)
	if err := again.Delete("a"); err != nil {
		t.Fatal(err)
	}
	if got := read(t, again, "b", catalogstore.Query{}); got != lineA {
		t.Errorf("got content %q of b after a was deleted, want %q", got, lineA)
	}

	unpack(t, again, "b", lineB)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("content of no catalog: got error %v, want ErrNotExist", err)
	}
}
