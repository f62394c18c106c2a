package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sharedData returns the folder of real bundles and catalogs next to the repository.
func sharedData(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}

	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		data := filepath.Join(filepath.Dir(dir), "shared", "data")
		if info, err := os.Stat(data); err == nil && info.IsDir() {
			return data
		}
	}

	t.Skip("the folder shared/data does not exist next to the repository: real bundles are not tested")
	return ""
}

// bundleTree returns the files of a bundle directory that belong to its image.
func bundleTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := readTree(t, dir)
	for name := range all {
		if top, _, _ := strings.Cut(name, "/"); top != "manifests" && top != "metadata" && top != "tests" {
			delete(all, name)
		}
	}
	return all
}

func TestRealBundlesRoundTrip(t *testing.T) {
	host := newRegistry(t, nil)
	client := NewClient(Options{})
	cache := NewCache(t.TempDir())
	count := 0
	err := filepath.WalkDir(filepath.Join(sharedData(t), "bundles"), func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() != "manifests" {
			return err
		}

		dir = filepath.Dir(dir)
		spec, err := BundleSpec(os.DirFS(dir), nil)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			return nil
		}

		ref, err := client.Push(t.Context(), host+"/bundles:latest", nil, mustBuild(t, spec))
		if err != nil {
			return err
		}

		got, err := cache.Ensure(t.Context(), client, ref, "/")
		if err != nil {
			return err
		}
		if diff := cmp.Diff(bundleTree(t, dir), readTree(t, got.Dir)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}

		count++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count == 0 {
		t.Error("got no bundle, want at least one")
	}
}
