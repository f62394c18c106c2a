package main

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/cli/opm"
)

const catalog = `{"schema":"olm.package","name":"kettle","defaultChannel":"x"}
{"schema":"olm.channel","package":"kettle","name":"x","entries":[{"name":"kettle.v1"}]}
{"schema":"olm.bundle","package":"kettle","name":"kettle.v1","image":"example.com/kettle:v1","properties":[{"type":"olm.package","value":{"packageName":"kettle","version":"1.0.0"}}]}
`

// Only the server, which provides heap profiles, samples allocations.
func TestServeSamplesAllocations(t *testing.T) {
	runtime.MemProfileRate = 0
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(catalog), 0o600); err != nil {
		t.Fatal(err)
	}

	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if err := serveCatalog(t.Context(), opm.Serving{Folder: dir, CacheDir: t.TempDir(), CacheOnly: true, Log: log}); err != nil {
		t.Fatal(err)
	}
	if runtime.MemProfileRate == 0 {
		t.Error("nothing is sampled")
	}
}
