package catalogstore_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// benchFiles is a catalog of 100 packages of 41 blobs, about 20 MB.
func benchFiles() (fstest.MapFS, int) {
	fsys := fstest.MapFS{}
	total := 0
	for p := range 100 {
		var text strings.Builder
		fmt.Fprintf(&text, `{"defaultChannel":"stable","name":"p%d","schema":"olm.package"}`+"\n", p)
		for v := range 40 {
			fmt.Fprintf(&text, `{"name":"p%d.v%d","package":"p%d","properties":[{"type":"olm.csv.metadata","value":{"description":"%s"}}],"schema":"olm.bundle"}`+"\n",
				p, v, p, strings.Repeat(`some \"quoted\" text with a line break\n`, 120))
		}

		fsys[fmt.Sprintf("p%d/catalog.json", p)] = &fstest.MapFile{Data: []byte(text.String())}
		total += text.Len()
	}

	return fsys, total
}

func benchStore(b *testing.B) (*catalogstore.Store, string, int) {
	b.Helper()
	dir := b.TempDir()
	s, err := catalogstore.Open(dir, catalogstore.Limits{})
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(s.Close)
	fsys, total := benchFiles()
	if _, err := s.Unpack(b.Context(), "c", catalogstore.Source{}, fsys); err != nil {
		b.Fatal(err)
	}

	return s, dir, total
}

// BenchmarkUnpack reads a catalog and stores it.
func BenchmarkUnpack(b *testing.B) {
	s, err := catalogstore.Open(b.TempDir(), catalogstore.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	fsys, total := benchFiles()
	b.SetBytes(int64(total))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Unpack(b.Context(), "c", catalogstore.Source{}, fsys); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a store and reads a package of it, as at a start.
func BenchmarkOpen(b *testing.B) {
	_, dir, _ := benchStore(b)
	b.ReportAllocs()
	for b.Loop() {
		s, err := catalogstore.Open(dir, catalogstore.Limits{})
		if err != nil {
			b.Fatal(err)
		}

		content, err := s.Content("c")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, content.Select(catalogstore.Query{Package: "p50"}).Reader()); err != nil {
			b.Fatal(err)
		}

		b.StopTimer()
		content.Close()
		s.Close() // Close waits until the whole content is verified.
		b.StartTimer()
	}
}

// BenchmarkSelect finds the blobs of queries.
func BenchmarkSelect(b *testing.B) {
	s, _, _ := benchStore(b)
	content, err := s.Content("c")
	if err != nil {
		b.Fatal(err)
	}
	defer content.Close()
	for name, query := range map[string]catalogstore.Query{
		"bundles of a package": {Schema: "olm.bundle", Package: "p50"},
		"a package":            {Schema: "olm.package", Name: "p50"},
		"all bundles":          {Schema: "olm.bundle"},
		"nothing":              {Package: "none"},
	} {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				content.Select(query)
			}
		})
	}
}
