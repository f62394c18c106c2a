package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// sampleSource is a folder with a copy of the sample catalog.
func sampleSource(t testing.TB) Folder {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/catalog")); err != nil {
		t.Fatal(err)
	}
	return Folder{Dir: dir}
}

// quiet returns a cache without a log.
func quiet(dir string) Cache {
	return Cache{Dir: dir, Log: slog.New(slog.DiscardHandler)}
}

func with(c Cache, change func(*Cache)) Cache {
	change(&c)
	return c
}

// mustOpen opens content until the test ends.
func mustOpen(t testing.TB, c Cache, source Source) *Content {
	t.Helper()
	content, err := c.Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := content.Close(); err != nil {
			t.Error(err)
		}
	})
	return content
}

// fill fills a cache directory.
func fill(t testing.TB, dir string, source Source) {
	t.Helper()
	mustOpen(t, with(quiet(dir), func(c *Cache) { c.BuildOnly = true }), source)
}

func contentFile(dir string) string { return filepath.Join(dir, Format, fileName) }

// stamp sets the modification time of a content file to a time in the past, to detect whether the file is built again.
func stamp(t testing.TB, dir string) {
	t.Helper()
	if err := os.Chtimes(contentFile(dir), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}

func isStamped(t testing.TB, dir string) bool {
	t.Helper()
	info, err := os.Stat(contentFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().Equal(time.Unix(1, 0))
}

func TestCacheIsReused(t *testing.T) {
	source, dir := sampleSource(t), filepath.Join(t.TempDir(), "not", "there", "yet")
	built := mustOpen(t, with(quiet(dir), func(c *Cache) { c.BuildOnly = true }), source)
	stamp(t, dir)
	for _, integrity := range []Integrity{DeriveIntegrity, EnforceIntegrity, IgnoreIntegrity} {
		for _, only := range []bool{false, true} {
			loaded := mustOpen(t, with(quiet(dir), func(c *Cache) { c.Integrity, c.BuildOnly = integrity, only }), source)
			if !isStamped(t, dir) {
				t.Fatalf("integrity %d, only %t: the cache was built again", integrity, only)
			}
			// The content is the same as when it was built.
			if diff := cmp.Diff(built.index, loaded.index, compareIndexes); diff != "" {
				t.Fatalf("(-built +loaded):\n%s", diff)
			}
		}
	}
}

// corruptions are the ways in which a cache can differ from its catalog, with the errors that are reported.
var corruptions = []struct {
	name  string
	spoil func(t *testing.T, dir string, source Folder)
	want  string
}{
	{"missing directory", func(t *testing.T, dir string, _ Folder) { remove(t, dir) }, "read existing cache digest: open %s: no such file or directory"},
	{"empty directory", func(t *testing.T, dir string, _ Folder) { remove(t, filepath.Join(dir, Format)) }, "read existing cache digest: open %s: no such file or directory"},
	{"empty folder", func(t *testing.T, dir string, _ Folder) { remove(t, contentFile(dir)) }, "read existing cache digest: open %s: no such file or directory"},
	{"empty file", func(t *testing.T, dir string, _ Folder) { cut(t, dir, 0) }, "read existing cache digest: is not a cache of this version"},
	{"cut off", func(t *testing.T, dir string, _ Folder) { cut(t, dir, 1000) }, "read existing cache digest: is not a cache of this version"},
	{"folder in its place", func(t *testing.T, dir string, _ Folder) {
		remove(t, contentFile(dir))
		if err := os.Mkdir(contentFile(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}, "read existing cache digest: is not a cache of this version"},
	{"cache changed at its start", func(t *testing.T, dir string, _ Folder) { flip(t, dir, 0) }, requiresRebuild},
	{"cache changed in its index", func(t *testing.T, dir string, _ Folder) { flip(t, dir, -trailerSize-1) }, requiresRebuild},
	{"cache changed in its trailer", func(t *testing.T, dir string, _ Folder) { flip(t, dir, -1) }, "read existing cache digest: is damaged at its end"},
	{"cache of another version", func(t *testing.T, dir string, _ Folder) { flip(t, dir, -trailerSize) }, "read existing cache digest: is not a cache of this version"},
	{"cache of another catalog", func(t *testing.T, dir string, _ Folder) { fill(t, dir, Folder{Dir: t.TempDir()}) }, requiresRebuild},
	{"catalog changed", func(t *testing.T, _ string, source Folder) {
		change(t, filepath.Join(source.Dir, "prometheus/catalog.json"), func(text []byte) []byte { return append(text, ' ') })
	}, requiresRebuild},
	{"file added", func(t *testing.T, _ string, source Folder) {
		if err := os.WriteFile(filepath.Join(source.Dir, "new"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}, requiresRebuild},
	{"file removed", func(t *testing.T, _ string, source Folder) { remove(t, filepath.Join(source.Dir, "extra/custom.json")) }, requiresRebuild},
	{"file renamed", func(t *testing.T, _ string, source Folder) {
		if err := os.Rename(filepath.Join(source.Dir, "extra/custom.json"), filepath.Join(source.Dir, "extra/custom2.json")); err != nil {
			t.Fatal(err)
		}
	}, requiresRebuild},
}

const requiresRebuild = "cache requires rebuild: cache reports digest as "

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, dir string, size int64) {
	t.Helper()
	if err := os.Truncate(contentFile(dir), size); err != nil {
		t.Fatal(err)
	}
}

// flip changes a byte of a content file; from the end when at is negative.
func flip(t *testing.T, dir string, at int) {
	t.Helper()
	change(t, contentFile(dir), func(text []byte) []byte {
		text = bytes.Clone(text)
		if at < 0 {
			at += len(text)
		}
		text[at]++
		return text
	})
}

func change(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestEnforceIntegrityRefusesMismatch(t *testing.T) {
	for _, test := range corruptions {
		t.Run(test.name, func(t *testing.T) {
			source, dir := sampleSource(t), t.TempDir()
			fill(t, dir, source)
			test.spoil(t, dir, source)
			want := test.want
			if strings.Contains(want, "%s") {
				want = fmt.Sprintf(want, contentFile(dir))
			}

			for name, c := range map[string]Cache{
				"derived":           quiet(dir),
				"enforced":          with(quiet(dir), func(c *Cache) { c.Integrity = EnforceIntegrity }),
				"enforced, to fill": with(quiet(dir), func(c *Cache) { c.Integrity, c.BuildOnly = EnforceIntegrity, true }),
			} {
				_, err := c.Open(t.Context(), source)
				if err == nil || !strings.HasPrefix(err.Error(), "integrity check failed: "+want) {
					t.Errorf("%s: got error %v, want integrity check failed: %s", name, err, want)
				}
			}
		})
	}
}

func TestMismatchIsRebuilt(t *testing.T) {
	for _, test := range corruptions {
		for name, c := range map[string]Cache{
			"ignored":             {Integrity: IgnoreIntegrity},
			"to fill":             {BuildOnly: true},
			"ignored and to fill": {Integrity: IgnoreIntegrity, BuildOnly: true},
		} {
			t.Run(test.name+", "+name, func(t *testing.T) {
				source, dir := sampleSource(t), t.TempDir()
				fill(t, dir, source)
				test.spoil(t, dir, source)
				c.Dir, c.Log = dir, slog.New(slog.DiscardHandler)
				built, err := c.Open(t.Context(), source)
				if test.name == "folder in its place" {
					if err == nil {
						t.Error("a folder was replaced")
					}
					return
				}

				if err != nil {
					t.Fatal(err)
				}
				if err := built.Close(); err != nil {
					t.Error(err)
				}
				if n := len(built.packages); n != 2 {
					t.Errorf("got %d packages", n)
				}

				// The rebuilt cache is valid.
				mustOpen(t, with(quiet(dir), func(c *Cache) { c.Integrity = EnforceIntegrity }), source)
			})
		}
	}
}

func TestIntegrityErrorNamesBothDigests(t *testing.T) {
	source, dir := sampleSource(t), t.TempDir()
	fill(t, dir, source)
	before := digestOf(t, dir)
	remove(t, filepath.Join(source.Dir, "extra"))
	_, err := quiet(dir).Open(t.Context(), source)
	fill(t, dir, source)
	want := fmt.Sprintf("integrity check failed: cache requires rebuild: cache reports digest as %q, but computed digest is ", before)
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func digestOf(t *testing.T, dir string) string {
	t.Helper()
	file, err := os.Open(contentFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	end, _, err := readTrailer(file)
	if err != nil {
		t.Fatal(err)
	}

	return end.displayDigest()
}

// The same catalog results in the same bytes, regardless of the order in which its blobs are processed.
func TestContentIsDeterministic(t *testing.T) {
	source := sampleSource(t)
	var first []byte
	for range 5 {
		dir := t.TempDir()
		fill(t, dir, source)
		text, err := os.ReadFile(contentFile(dir))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = text
		}
		if !bytes.Equal(first, text) {
			t.Fatal("the content differs from one run to the next")
		}
	}
}

func TestForeignCacheDirectories(t *testing.T) {
	const pogreb, jsonCache = "pogreb.v1/db/x", "cache/packages.json"
	for _, test := range []struct {
		name    string
		files   []string
		foreign bool
		err     string
	}{
		{name: "a pogreb cache", files: []string{pogreb}, foreign: true},
		{name: "a JSON cache", files: []string{jsonCache, "digest"}, foreign: true},
		{name: "a JSON cache without digest", files: []string{jsonCache}, err: "cache directory has unexpected contents: cache"},
		{name: "a digest without JSON cache", files: []string{"digest"}, err: "cache directory has unexpected contents: digest"},
		{name: "other files", files: []string{"b", "a/c"}, err: "cache directory has unexpected contents: a,b"},
		{name: "a file with the name of the format", files: []string{Format}, err: "cache directory has unexpected contents: " + Format},
		{name: "other files and a pogreb cache", files: []string{"lost+found/x", pogreb}, foreign: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			source, dir := sampleSource(t), t.TempDir()
			for _, name := range test.files {
				path := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("theirs"), 0o644)); err != nil {
					t.Fatal(err)
				}
			}

			if test.err != "" {
				for _, only := range []bool{false, true} {
					_, err := with(quiet(dir), func(c *Cache) { c.BuildOnly = only }).Open(t.Context(), source)
					if err == nil || err.Error() != test.err {
						t.Errorf("got error %v, want %s", err, test.err)
					}
				}
				return
			}

			// An image that the established opm has built is served, unless integrity is enforced.
			_, err := with(quiet(dir), func(c *Cache) { c.Integrity = EnforceIntegrity }).Open(t.Context(), source)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got error %v where integrity is enforced", err)
			}
			if n := len(mustOpen(t, quiet(dir), source).packages); n != 2 {
				t.Errorf("got %d packages", n)
			}

			for _, name := range test.files {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != "theirs" {
					t.Errorf("%s: got %q, error %v", name, text, err)
				}
			}

			// There is a cache of this program now, which must be valid.
			stamp(t, dir)
			mustOpen(t, quiet(dir), source)
			if !isStamped(t, dir) {
				t.Error("the cache was built again")
			}

			flip(t, dir, 0)
			if _, err := quiet(dir).Open(t.Context(), source); err == nil {
				t.Error("a damaged cache is accepted")
			}
		})
	}
}

func TestEnforceIntegrityNeedsACacheDirectory(t *testing.T) {
	_, err := with(quiet(""), func(c *Cache) { c.Integrity = EnforceIntegrity }).Open(t.Context(), sampleSource(t))
	if err == nil || err.Error() != "--cache-dir must be specified with --cache-enforce-integrity" {
		t.Errorf("got error %v", err)
	}
}

// A failure keeps the existing cache, and leaves no incomplete files.
func TestFailedBuildKeepsTheCache(t *testing.T) {
	source, dir := sampleSource(t), t.TempDir()
	fill(t, dir, source)
	before, err := os.ReadFile(contentFile(dir))
	if err != nil {
		t.Fatal(err)
	}

	change(t, filepath.Join(source.Dir, "extra/custom.json"), func([]byte) []byte { return []byte(`{"schema": `) })
	if _, err := with(quiet(dir), func(c *Cache) { c.BuildOnly = true }).Open(t.Context(), source); err == nil {
		t.Fatal("no error")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := with(quiet(dir), func(c *Cache) { c.BuildOnly = true }).Open(ctx, source); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}

	after, err := os.ReadFile(contentFile(dir))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the cache has changed: %v", err)
	}

	entries, err := os.ReadDir(filepath.Join(dir, Format))
	if err != nil || len(entries) != 1 {
		t.Errorf("got remaining files %v, error %v", entries, err)
	}
}

func TestAbandonedFilesAreRemoved(t *testing.T) {
	source, dir := sampleSource(t), t.TempDir()
	old, young := filepath.Join(dir, Format, ".new-1"), filepath.Join(dir, Format, ".new-2")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, Format), 0o755), os.WriteFile(old, nil, 0o644), os.WriteFile(young, nil, 0o644),
		os.Chtimes(old, time.Time{}, time.Now().Add(-2*abandonedFileTimeout))); err != nil {
		t.Fatal(err)
	}

	fill(t, dir, source)
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old temporary file: got error %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a temporary file that may be in use: got error %v", err)
	}
}

// An image is built by one user and run by another.
func TestCachePermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	fill(t, dir, sampleSource(t))
	for path, want := range map[string]fs.FileMode{
		dir: fs.ModeDir | 0o775, filepath.Join(dir, Format): fs.ModeDir | 0o775, contentFile(dir): 0o664,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s: got the mode %v, want %v", path, info.Mode(), want)
		}
	}
}

// A link to a file counts as the file. Ignored files are also part of the checksum of the source.
func TestChecksumCoversLinksAndIgnoredFiles(t *testing.T) {
	source, dir := sampleSource(t), t.TempDir()
	if err := errors.Join(
		os.Mkdir(filepath.Join(source.Dir, "ignored"), 0o755),
		os.WriteFile(filepath.Join(source.Dir, "ignored", "text"), []byte("one"), 0o644),
		os.WriteFile(filepath.Join(source.Dir, ".indexignore"), []byte("ignored\n"), 0o644),
		os.Symlink("ignored/text", filepath.Join(source.Dir, "ignored-link")),
	); err != nil {
		t.Fatal(err)
	}

	change(t, filepath.Join(source.Dir, ".indexignore"), func([]byte) []byte { return []byte("ignored*\n") })
	fill(t, dir, source)
	mustOpen(t, quiet(dir), source)
	before, err := source.computeChecksum(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	change(t, filepath.Join(source.Dir, "ignored", "text"), func([]byte) []byte { return []byte("two") })
	if _, err := quiet(dir).Open(t.Context(), source); err == nil {
		t.Error("a change of an ignored file does not change the checksum")
	}

	// A change of the link alone is detected too.
	remove(t, filepath.Join(source.Dir, "ignored-link"))
	linkless, err := source.computeChecksum(t.Context())
	if err != nil || linkless == before {
		t.Errorf("got the checksum %x, before %x, error %v", linkless, before, err)
	}
	// Special files are not opened, because that could block forever. Only their type is part of the checksum.
	if err := os.Symlink("ignored", filepath.Join(source.Dir, "ignored-folder")); err != nil {
		t.Fatal(err)
	}

	withFolder, err := source.computeChecksum(t.Context())
	if err != nil || withFolder == linkless {
		t.Errorf("got the checksum %x, before %x, error %v", withFolder, linkless, err)
	}
}

func TestLinksOutOfTheCatalogAreRefused(t *testing.T) {
	source := sampleSource(t)
	outside := filepath.Join(t.TempDir(), "outside.json")
	if err := errors.Join(os.WriteFile(outside, []byte("{}"), 0o644), os.Symlink(outside, filepath.Join(source.Dir, "link.json"))); err != nil {
		t.Fatal(err)
	}
	if _, err := source.computeChecksum(t.Context()); err == nil {
		t.Error("got a checksum, want an error")
	}
	if _, err := quiet("").Open(t.Context(), source); err == nil {
		t.Error("got content, want an error")
	}
}

func TestTooManyFilesAreRefused(t *testing.T) {
	source := sampleSource(t)
	source.Limits.Files = 2
	for _, dir := range []string{"", t.TempDir()} {
		_, err := with(quiet(dir), func(c *Cache) { c.Integrity = IgnoreIntegrity }).Open(t.Context(), source)
		var wrong *fbc.Error
		if !errors.As(err, &wrong) {
			t.Errorf("got error %v", err)
		}
	}

	if _, err := source.computeChecksum(t.Context()); err == nil {
		t.Error("got a checksum, want an error")
	}
}
