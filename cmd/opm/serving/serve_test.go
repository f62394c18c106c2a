package serving_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/cmd/opm/serving"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

const catalog = `{"schema":"olm.package","name":"kettle","defaultChannel":"x"}
{"schema":"olm.channel","package":"kettle","name":"x","entries":[{"name":"kettle.v1"}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","image":"example.com/kettle:v1","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}}]}
`

func writeCatalog(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The cache flags are passed to the server.
func TestServeKeepsTheCache(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	yes, no := true, false
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	fill := func(enforce *bool) error {
		return serving.Serve(t.Context(), opm.Serving{Folder: dir, CacheDir: cache, CacheOnly: true, EnforceIntegrity: enforce, Log: log})
	}
	writeCatalog(t, dir, catalog)
	if err := fill(nil); err != nil {
		t.Fatal(err)
	}
	if err := fill(&yes); err != nil {
		t.Errorf("with a matching cache: got error %v, want none", err)
	}

	writeCatalog(t, dir, strings.ReplaceAll(catalog, "1.0.0", "1.0.1"))
	if err := fill(&yes); err == nil || !strings.Contains(err.Error(), "integrity check failed") {
		t.Errorf("with the cache of another catalog: got error %v, want that the integrity check failed", err)
	}
	if err := fill(&no); err != nil {
		t.Errorf("without the integrity check: got error %v, want none", err)
	}
	if err := fill(&yes); err != nil {
		t.Errorf("with the rebuilt cache: got error %v, want none", err)
	}
}

// A SQLite catalog is served from the blobs that are read from the database.
func TestServeReadsBlobs(t *testing.T) {
	database := filepath.Join(t.TempDir(), "bundles.db")
	if err := os.WriteFile(database, []byte("any file: its content is what changes"), 0o600); err != nil {
		t.Fatal(err)
	}

	s := opm.Serving{
		Database: database, CacheDir: t.TempDir(), CacheOnly: true, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Blobs: fbc.Read(strings.NewReader(catalog), "catalog", fbc.Limits{}),
	}
	if err := serving.Serve(t.Context(), s); err != nil {
		t.Error(err)
	}

	s.Blobs = fbc.Read(strings.NewReader("{"), "catalog", fbc.Limits{})
	s.CacheDir = t.TempDir()
	if err := serving.Serve(t.Context(), s); err == nil {
		t.Error("with an unreadable catalog: got no error, want one")
	}
}

// A SQLite catalog is served although it violates a rule of file-based catalogs. A directory that violates the rule
// is not served.
func TestServeHoldsOnlyFoldersToTheRules(t *testing.T) {
	broken := strings.ReplaceAll(catalog, `[{"name":"kettle.v1"}]`, `[{"name":"kettle.v1"},{"name":"kettle.v2"}]`)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	dir := t.TempDir()
	writeCatalog(t, dir, broken)
	err := serving.Serve(t.Context(), opm.Serving{Folder: dir, CacheDir: t.TempDir(), CacheOnly: true, Log: log})
	if err == nil || !strings.Contains(err.Error(), "no olm.bundle blobs found") {
		t.Errorf("with an invalid folder: got error %v, want that it has no bundle blobs", err)
	}

	err = serving.Serve(t.Context(), opm.Serving{
		Database: filepath.Join(dir, "catalog.json"), CacheDir: t.TempDir(), CacheOnly: true, Log: log,
		Blobs: fbc.Read(strings.NewReader(broken), "catalog", fbc.Limits{}),
	})
	if err != nil {
		t.Errorf("with an invalid database: got error %v, want none", err)
	}
}
