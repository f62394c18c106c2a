package generate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mainstay-dev/mainstay/bench/generate"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// TestCatalog reads the generated catalog with the code that reads real ones. The catalog must have the
// requested size, and the same bytes each time.
func TestCatalog(t *testing.T) {
	size := generate.Size{Packages: 3, Bundles: 10}
	first, second := t.TempDir(), t.TempDir()
	n, err := generate.Catalog(first, size)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := generate.Catalog(second, size); err != nil || m != n {
		t.Fatalf("second catalog: got %d bytes (%v), want %d as in the first", m, err, n)
	}

	got := map[string]int{}
	for entry, err := range fbc.Walk(os.DirFS(first), fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Schema]++
	}

	if got[fbc.SchemaPackage] != 3 || got[fbc.SchemaBundle] != 10 || got[fbc.SchemaChannel] != 2+3+4 || got[fbc.SchemaDeprecations] != 1 {
		t.Errorf("got the blobs %v, want 3 packages, 10 bundles, 9 channels and 1 deprecation", got)
	}

	a, _ := os.ReadFile(filepath.Join(first, "package-0001", "catalog.json"))
	b, _ := os.ReadFile(filepath.Join(second, "package-0001", "catalog.json"))
	if len(a) == 0 || string(a) != string(b) {
		t.Error("got different catalogs of the same size, want equal ones")
	}
}
