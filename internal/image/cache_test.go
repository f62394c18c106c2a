package image

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cacheFixture is a registry with one image. It counts how often its layer is downloaded.
type cacheFixture struct {
	host, ref string
	client    *Client
	downloads atomic.Int32
	broken    atomic.Bool
}

func newCacheFixture(t *testing.T) *cacheFixture {
	t.Helper()
	f := &cacheFixture{client: NewClient(Options{Timeouts: Timeouts{Backoff: time.Millisecond}})}
	built := catalogImage(t)
	f.host = newRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		if f.broken.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, built.layers[0].digest.String()) {
			f.downloads.Add(1)
		}
		return false
	})

	f.ref = pushImage(t, f.host+"/org/cat:v1", built)

	return f
}

var cachedFiles = map[string]string{"foo/": "", "foo/catalog.yaml": "schema: olm.package\nname: foo\n"}

func (f *cacheFixture) ensure(t *testing.T, cache *Cache) *CacheEntry {
	t.Helper()
	got, err := cache.Ensure(t.Context(), f.client, f.ref, "/configs")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cachedFiles, readTree(t, got.Dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got.Labels[LabelConfigs] != "/configs" {
		t.Errorf("got labels %v, want %s", got.Labels, LabelConfigs)
	}

	return got
}

func TestCacheHitNeedsNoRegistry(t *testing.T) {
	f := newCacheFixture(t)
	dir := filepath.Join(t.TempDir(), "made", "when-needed")
	f.ensure(t, NewCache(dir))
	f.broken.Store(true)
	entry := f.ensure(t, NewCache(dir)) // like after a restart
	data, err := fs.ReadFile(entry.FS(), "foo/catalog.yaml")
	if err != nil || string(data) != cachedFiles["foo/catalog.yaml"] {
		t.Errorf("got %q (%v)", data, err)
	}
	if n := f.downloads.Load(); n != 1 {
		t.Errorf("got %d downloads, want 1", n)
	}

	// Access and trust are decided for each repository, also for the same content.
	other := strings.Replace(f.ref, "/org/", "/other/", 1)
	_, err = NewCache(dir).Ensure(t.Context(), f.client, other, "/configs")
	wantError(t, err, KindUnavailable, "pull image "+other)
}

func TestCacheHeals(t *testing.T) {
	damages := map[string]func(t *testing.T, dir string, entry *CacheEntry) error{
		"all deleted":     func(_ *testing.T, dir string, _ *CacheEntry) error { return os.RemoveAll(dir) },
		"content deleted": func(_ *testing.T, _ string, e *CacheEntry) error { return os.RemoveAll(e.Dir) },
		"one file deleted": func(_ *testing.T, _ string, e *CacheEntry) error {
			return os.Remove(filepath.Join(e.Dir, "foo/catalog.yaml"))
		},
		"one file emptied": func(_ *testing.T, _ string, e *CacheEntry) error {
			return os.Truncate(filepath.Join(e.Dir, "foo/catalog.yaml"), 0)
		},
		"a file added": func(_ *testing.T, _ string, e *CacheEntry) error {
			return os.WriteFile(filepath.Join(e.Dir, "new"), nil, 0o600)
		},
		"record deleted": func(_ *testing.T, _ string, e *CacheEntry) error {
			return os.Remove(filepath.Join(e.Dir, "..", recordFile))
		},
		"record broken": func(_ *testing.T, _ string, e *CacheEntry) error {
			return os.WriteFile(filepath.Join(e.Dir, "..", recordFile), []byte("{"), 0o600)
		},
	}

	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			f := newCacheFixture(t)
			dir := t.TempDir()
			cache := NewCache(dir)
			if err := damage(t, dir, f.ensure(t, cache)); err != nil {
				t.Fatal(err)
			}

			f.ensure(t, cache)
			if n := f.downloads.Load(); n != 2 {
				t.Errorf("got %d downloads, want 2", n)
			}
		})
	}
}

func TestCachePullsOnceForMany(t *testing.T) {
	f := newCacheFixture(t)
	cache := NewCache(t.TempDir())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := cache.Ensure(t.Context(), f.client, f.ref, "/configs"); err != nil {
				t.Error(err)
			}
		})
	}

	wg.Wait()
	if n := f.downloads.Load(); n != 1 {
		t.Errorf("got %d downloads, want 1", n)
	}
	if len(cache.locks) != 0 {
		t.Errorf("got %d remaining locks, want none", len(cache.locks))
	}
}

func TestCacheWaitEndsWithContext(t *testing.T) {
	f := newCacheFixture(t)
	cache := NewCache(t.TempDir())
	unlock, err := cache.lockCacheEntry(t.Context(), cacheName(t, f.ref, "/configs"))
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = cache.Ensure(ctx, f.client, f.ref, "/configs")
	wantError(t, err, KindUnavailable, "context canceled")
	unlock()
	f.ensure(t, cache)
}

func cacheName(t *testing.T, ref, prefix string) string {
	t.Helper()
	name, err := cacheEntryName(ref, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCacheFailureLeavesNothing(t *testing.T) {
	f := newCacheFixture(t)
	dir := t.TempDir()
	cache := NewCache(dir)
	_, err := cache.Ensure(t.Context(), f.client, f.ref, "/none")
	wantError(t, err, KindContent, "no directory /none")
	_, err = cache.Ensure(t.Context(), f.client, f.host+"/org/cat:v1", "/configs")
	wantError(t, err, KindInvalid, "only images named by digest")
	if got := readTree(t, dir); len(got) != 0 {
		t.Errorf("got leftover files %v, want none", got)
	}
}

// TestCacheUse checks that Keep removes an image only after all its readers have returned.
func TestCacheUse(t *testing.T) {
	f := newCacheFixture(t)
	cache := NewCache(t.TempDir())
	var dir string
	broken := errors.New("broken")
	err := cache.Use(t.Context(), f.client, f.ref, "/configs", func(entry *CacheEntry) error {
		if err := cache.RemoveExcept(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(cachedFiles, readTree(t, entry.Dir)); diff != "" {
			t.Errorf("files while they are read (-want +got):\n%s", diff)
		}
		dir = entry.Dir
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got error %v, want that of the reader", err)
	}
	if err := cache.RemoveExcept(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files after Keep: got error %v, want that they do not exist", err)
	}
}

func TestCacheKeep(t *testing.T) {
	f := newCacheFixture(t)
	dir := t.TempDir()
	cache := NewCache(dir)
	if err := NewCache(filepath.Join(dir, "none")).RemoveExcept(); err != nil {
		t.Errorf("a directory that does not exist: got error %v, want none", err)
	}

	f.ensure(t, cache)
	if _, err := cache.Ensure(t.Context(), f.client, f.ref, "/"); err != nil {
		t.Fatal(err)
	}

	gone := pushImage(t, f.host+"/org/other:v1", imageForArch(t, "s390x"))
	if _, err := cache.Ensure(t.Context(), f.client, gone, "/"); err != nil {
		t.Fatal(err)
	}

	pulling := cacheName(t, gone, "/busy")
	unlock, err := cache.lockCacheEntry(t.Context(), pulling)
	if err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{tempPrefix + pulling + "-123", tempPrefix + "crashed-123", removedPrefix + "crashed", removedPrefix + cacheName(t, gone, "/")} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	if err := cache.RemoveExcept("", "example.com/x:tag", "no reference", f.ref); err != nil {
		t.Fatalf("got error %v, want references without a digest to be ignored", err)
	}

	unlock()
	var got []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		got = append(got, entry.Name())
	}

	want := map[string]bool{tempPrefix + pulling + "-123": true, cacheName(t, f.ref, "/"): true, cacheName(t, f.ref, "/configs"): true}
	for _, name := range got {
		if !want[name] {
			t.Errorf("got %s in the cache, want it removed", name)
		}
	}

	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
