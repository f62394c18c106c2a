package generate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mainstay-dev/mainstay/bench/generate"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// The generated catalog is read by the same code as a real one, and holds what was
// asked for, byte for byte the same each time.
func TestCatalog(t *testing.T) {
	size := generate.Size{Packages: 3, Bundles: 10}
	first, second := t.TempDir(), t.TempDir()
	n, err := generate.Catalog(first, size)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := generate.Catalog(second, size); err != nil || m != n {
		t.Fatalf("the second catalog has %d bytes, the first %d (%v)", m, n, err)
	}

	got := map[string]int{}
	for entry, err := range fbc.Walk(os.DirFS(first), fbc.Limits{}) {
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Schema]++
	}

	if got[fbc.SchemaPackage] != 3 || got[fbc.SchemaBundle] != 10 || got[fbc.SchemaChannel] != 2+3+4 || got[fbc.SchemaDeprecations] != 1 {
		t.Errorf("the catalog holds %v", got)
	}

	a, _ := os.ReadFile(filepath.Join(first, "package-0001", "catalog.json"))
	b, _ := os.ReadFile(filepath.Join(second, "package-0001", "catalog.json"))
	if len(a) == 0 || string(a) != string(b) {
		t.Error("two catalogs of one size differ")
	}
}
