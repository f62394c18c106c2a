package catalogstore_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// scattered returns a catalog in which the blobs of several packages alternate.
func scattered() string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "{\"name\":\"n%d\",\"package\":\"p%d\",\"schema\":\"s%d\",\"x\":\"%s\"}\n", i%11, i%7, i%3, strings.Repeat("x", i))
	}
	return b.String()
}

// TestSelectionsAreThoseOfALinearSearch compares the index with a linear search, for content that was just stored
// and for content that was opened again.
func TestSelectionsAreThoseOfALinearSearch(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	unpack(t, s, "c", scattered())
	again, _ := open(t, dir)
	for _, s := range []*catalogstore.Store{s, again} {
		for schema := range 5 {
			for pkg := range 9 {
				for name := range 13 {
					q := catalogstore.Query{Schema: optional("s", schema), Package: optional("p", pkg), Name: optional("n", name)}
					if diff := cmp.Diff(linear(t, q), read(t, s, "c", q)); diff != "" {
						t.Fatalf("%+v (-want +got):\n%s", q, diff)
					}
				}
			}
		}
	}
}

// optional returns "" for 0, and a value that does not occur in the blobs for the highest i.
func optional(prefix string, i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprint(prefix, i-1)
}

func linear(t *testing.T, q catalogstore.Query) string {
	t.Helper()
	var b strings.Builder
	for meta, err := range fbc.Read(strings.NewReader(scattered()), "", fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		if (q.Schema == "" || q.Schema == meta.Schema) && (q.Package == "" || q.Package == meta.Package) && (q.Name == "" || q.Name == meta.Name) {
			b.Write(meta.Blob)
			b.WriteByte('\n')
		}
	}

	return b.String()
}

func TestReadersCanBeMoved(t *testing.T) {
	dir := t.TempDir()
	s, _ := open(t, dir)
	unpack(t, s, "c", scattered())
	// Content of an earlier process is verified while it is read, until all of it is verified.
	again, _ := open(t, dir)
	for name, s := range map[string]*catalogstore.Store{"stored": s, "opened": again} {
		t.Run(name, func(t *testing.T) {
			content, err := s.Content("c")
			if err != nil {
				t.Fatal(err)
			}
			defer content.Close()
			selection := content.Select(catalogstore.Query{Package: "p3"})
			want := linear(t, catalogstore.Query{Package: "p3"})
			if err := iotest.TestReader(selection.Reader(), []byte(want)); err != nil {
				t.Error(err)
			}

			reader := selection.Reader()
			for range 1000 {
				from := rand.Int64N(selection.Bytes + 10)
				if _, err := reader.Seek(from-selection.Bytes, io.SeekEnd); err != nil {
					t.Fatal(err)
				}

				buffer := make([]byte, rand.IntN(300))
				n, err := io.ReadFull(reader, buffer)
				if got, rest := string(buffer[:n]), want[min(from, selection.Bytes):]; !strings.HasPrefix(rest, got) || (err != nil && got != rest) {
					t.Fatalf("from %d: %q (%v), want the start of %q", from, got, err, rest)
				}
			}

			if _, err := reader.Seek(-1, io.SeekStart); err == nil {
				t.Error("got no error of seeking before the start, want one")
			}
		})
	}
}

func TestBlobs(t *testing.T) {
	dir := t.TempDir()
	s, lost := open(t, dir)
	unpack(t, s, "c", lineA+lineB+lineC)
	content, err := s.Content("c")
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var refs []catalogstore.Ref
	for ref, entry := range content.Refs(catalogstore.Query{Schema: "olm.bundle"}) {
		refs = append(refs, ref)
		meta, err := content.Blob(ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := (catalogstore.Entry{Schema: meta.Schema, Package: meta.Package, Name: meta.Name, Bytes: len(meta.Blob)}); got != entry {
			t.Errorf("blob %d: got %+v, want its entry %+v", ref, got, entry)
		}
	}

	if diff := cmp.Diff([]catalogstore.Ref{1, 2}, refs); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	if _, err := content.Blob(3); err == nil || !strings.Contains(err.Error(), "there is no blob 3 among 3") {
		t.Errorf("a blob that does not exist: got error %v, want that there is no blob 3", err)
	}

	for name, metas := range map[string]iter.Seq2[fbc.Meta, error]{
		"metas": content.Metas(catalogstore.Query{Schema: "olm.bundle"}),
		"scan":  content.Scan(catalogstore.Query{Schema: "olm.bundle"}),
	} {
		var got strings.Builder
		for meta, err := range metas {
			if err != nil {
				t.Fatal(err)
			}
			got.Write(meta.Blob)
			got.WriteByte('\n')
		}
		if got.String() != lineB+lineC {
			t.Errorf("%s: got %q, want %q", name, &got, lineB+lineC)
		}
	}

	// Changed bytes are not returned.
	path := contentFile(t, s, dir, "c")
	if err := change(path, int64(len(lineA)+5)); err != nil {
		t.Fatal(err)
	}
	if _, err := content.Blob(1); err == nil || !strings.Contains(err.Error(), "the checksum of blob 1 does not match") {
		t.Errorf("a changed blob: got error %v, want one with \"the checksum of blob 1 does not match\"", err)
	}

	for name, metas := range map[string]iter.Seq2[fbc.Meta, error]{"metas": content.Metas(catalogstore.Query{}), "scan": content.Scan(catalogstore.Query{})} {
		var all error
		count := 0
		for meta, err := range metas {
			count++
			all = errors.Join(all, err)
			if (err != nil) != (meta.Schema == "") {
				t.Errorf("%s: got %v with error %v, want either a blob or an error", name, meta, err)
			}
		}
		if count != 2 || all == nil {
			t.Errorf("%s: got %d results with the errors %v, want 2 and an error", name, count, all)
		}
	}

	if names := lost.all(); len(names) != 1 {
		t.Errorf("lost %v, want the catalog once", names)
	}
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := content.Blob(0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a truncated blob: got error %v, want io.ErrUnexpectedEOF", err)
	}
}

// FuzzOpen searches for content files that break the reader.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	s, err := catalogstore.Open(dir, catalogstore.Limits{})
	if err != nil {
		f.Fatal(err)
	}

	info, err := s.Unpack(f.Context(), "c", catalogstore.Source{}, fstest.MapFS{"c.json": {Data: []byte(lineA + lineB)}})
	if err != nil {
		f.Fatal(err)
	}

	good, err := os.ReadFile(dir + "/content/" + info.Sum)
	if err != nil {
		f.Fatal(err)
	}

	pointer, err := os.ReadFile(dir + "/catalogs/c")
	if err != nil {
		f.Fatal(err)
	}

	f.Add(good, pointer)
	f.Add([]byte("MAINCAT2"), []byte("{}\n"))
	f.Fuzz(func(t *testing.T, text, pointer []byte) {
		dir := t.TempDir()
		if err := errors.Join(
			os.Mkdir(dir+"/content", 0o700), os.WriteFile(dir+"/content/"+info.Sum, text, 0o600),
			os.Mkdir(dir+"/catalogs", 0o700), os.WriteFile(dir+"/catalogs/c", pointer, 0o600),
		); err != nil {
			t.Fatal(err)
		}

		s, err := catalogstore.Open(dir, catalogstore.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		content, err := s.Content("c")
		var damaged *catalogstore.DamagedError
		if err != nil && !errors.As(err, &damaged) {
			t.Fatalf("error is %v (%T), want a *catalogstore.DamagedError", err, err)
		}
		if err != nil {
			return
		}
		defer content.Close()
		served, err := io.ReadAll(content.All().Reader())
		if err == nil && string(served) != lineA+lineB {
			t.Errorf("got content %q with the sum of other content, want an error", served)
		}
	})
}
