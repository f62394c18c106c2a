package catalogstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/testing/smalldisk"
)

// TestAFullDiskChangesNothing uses a file system of one megabyte.
func TestAFullDiskChangesNothing(t *testing.T) { smalldisk.Run(t, "size=1m,nr_inodes=64", fillDisk) }

// large returns an incompressible catalog of about size bytes.
func large(seed, size int) string {
	var b strings.Builder
	state := uint64(seed)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `{"name":"n%d","schema":"x","text":"`, i)
		for range 60 {
			state = state*6364136223846793005 + 1442695040888963407
			fmt.Fprintf(&b, "%016x", state)
		}
		b.WriteString("\"}\n")
	}

	return b.String()
}

func fillDisk(t *testing.T, dir string) {
	const explained = "the volume of the catalog cache is full; free space on it or make it larger"
	s, lost := open(t, dir)
	first := large(1, 300<<10)
	unpack(t, s, "c", first)
	before := tree(t, dir)
	refused := func(name string, err error) {
		t.Helper()
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), explained) {
			t.Fatalf("error is %v, want ENOSPC explained", err)
		}
		if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
			t.Errorf("%s: the store (-want +got):\n%s", name, diff)
		}
		if got := read(t, s, "c", catalogstore.Query{}); got != first {
			t.Errorf("%s: got %d served bytes, want the previous %d", name, len(got), len(first))
		}
		if _, err := s.Stored("c"); err != nil || len(lost.all()) > 0 {
			t.Errorf("%s: got error %v and lost catalogs %v, want neither", name, err, lost.all())
		}
	}

	_, err := s.Unpack(t.Context(), "c", catalogstore.Source{}, files(large(2, 900<<10)))
	refused("content too large", err)

	// Without any free space, the pointer of a catalog cannot be written either.
	fill := dir + "/filler"
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}

	for err == nil {
		_, err = f.Write(bytes.Repeat([]byte("x"), 4096))
	}

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	before = tree(t, dir)
	_, err = s.Unpack(t.Context(), "c", catalogstore.Source{}, files(lineA))
	refused("a small catalog", err)
	_, err = s.Unpack(t.Context(), "new", catalogstore.Source{}, files(lineA))
	refused("another catalog", err)
	_, err = s.Confirm("c", "r:v2", time.Now())
	refused("a confirmation", err)

	// A compressed form cannot be created, which is not an error.
	content, err := s.Content("c")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	content.Compressed(catalogstore.Gzip)

	// With free space, storing succeeds again.
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}

	unpack(t, s, "c", lineB)
	if got := read(t, s, "c", catalogstore.Query{}); got != lineB {
		t.Errorf("got %d other served bytes after space was freed, want the new content", len(got))
	}

	// Running out of inodes is handled like running out of space.
	for i := 0; err == nil; i++ {
		err = os.WriteFile(fmt.Sprintf("%s/filler-%d", dir, i), nil, 0o600)
	}

	_, err = s.Unpack(t.Context(), "c", catalogstore.Source{}, files(lineC))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), explained) {
		t.Errorf("error is %v, want ENOSPC explained", err)
	}
	if got := read(t, s, "c", catalogstore.Query{}); got != lineB {
		t.Errorf("got served content %q, want %q", got, lineB)
	}
}
