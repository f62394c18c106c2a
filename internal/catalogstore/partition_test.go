package catalogstore_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// TestPartitionsAreSeparate stores the same content under one name in a store and in its partition.
func TestPartitionsAreSeparate(t *testing.T) {
	dir := t.TempDir()
	s, lost := open(t, dir)
	p := s.Partition("other")
	unpack(t, s, "c", lineA)
	for _, name := range []string{"c", "d"} {
		if _, err := p.Unpack(t.Context(), name, catalogstore.Source{Resolved: "partition"}, files(lineA)); err != nil {
			t.Fatal(err)
		}
	}

	contents, err := os.ReadDir(filepath.Join(dir, "content"))
	if err != nil || len(contents) != 1 {
		t.Errorf("the store has the content files %v (%v), want one", contents, err)
	}
	if diff := cmp.Diff([]string{"c"}, s.Names()); diff != "" {
		t.Errorf("names of the store (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c", "d"}, p.Names()); diff != "" {
		t.Errorf("names of the partition (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), s.Partition("third").Names()); diff != "" {
		t.Errorf("names of another partition (-want +got):\n%s", diff)
	}

	for _, name := range []string{"d", "other:c", "other:d"} {
		if _, err := s.Content(name); !errors.Is(err, catalogstore.ErrNotFound) {
			t.Errorf("content of %q in the store: %v, want ErrNotFound", name, err)
		}
		if _, err := s.Stored(name); !errors.Is(err, catalogstore.ErrNotFound) {
			t.Errorf("%q is stored in the store: %v, want ErrNotFound", name, err)
		}
	}

	// The content remains as long as the store or its partition uses it.
	if err := errors.Join(s.Delete("c"), p.Delete("c")); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, dir)
	if diff := cmp.Diff([]string{"d"}, again.Partition("other").Names()); diff != "" {
		t.Errorf("names of the partition after a restart (-want +got):\n%s", diff)
	}

	content, err := again.Partition("other").Content("d")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	if text, err := io.ReadAll(content.All().Reader()); err != nil || string(text) != lineA {
		t.Errorf("content is %q (%v), want %q", text, err, lineA)
	}

	// Lost catalogs of the partition are not reported to the owner of the store.
	if err := os.RemoveAll(filepath.Join(dir, "catalogs")); err != nil {
		t.Fatal(err)
	}
	s.Check()
	if len(lost.all()) > 0 {
		t.Errorf("lost %v, want nothing", lost.all())
	}
}
