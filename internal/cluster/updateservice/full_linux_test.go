package updateservice

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/mainstay-dev/mainstay/internal/testing/smalldisk"
)

// TestFullDisk fills the file system of the cache.
func TestFullDisk(t *testing.T) { smalldisk.Run(t, "size=64k", scanWithFullDisk) }

// scanWithFullDisk scans without free space in the directory of the cache, and again with free space.
func scanWithFullDisk(t *testing.T, dir string) {
	i := newTestRegistry(t)
	i.pushRelease("4.1.0")
	var logged bytes.Buffer
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 128<<10), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: got %v, want ENOSPC", err)
	}

	options := Options{
		Releases: i.repository, CacheDir: dir, DataFolder: newDataFolder(t, map[string]string{"channels/stable.yaml": stable}),
		Log: funcr.New(func(_, args string) { logged.WriteString(args + "\n") }, funcr.Options{}),
	}
	s := newScannedService(t, options)
	if got, want := describeGraph(t, s, "channel=stable-4.1"), "4.1.0"; got != want {
		t.Errorf("with a full disk: got the graph %q, want %q", got, want)
	}
	if want := "the volume of the cache directory is full; free space on it or make it larger"; !strings.Contains(logged.String(), want) {
		t.Errorf("got the log %q, want a line with %q", logged.String(), want)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*releases-*")); len(files) > 0 {
		t.Errorf("got incomplete files %v, want none", files)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := s.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if known, err := newImageCache(dir, i.repository).load(); err != nil || len(known) == 0 {
		t.Errorf("with free space: the cache has %d images (%v), want those of the scan", len(known), err)
	}
}
