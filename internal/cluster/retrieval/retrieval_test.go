package retrieval

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

var content = fstest.MapFS{
	"manifests/0000_00_a_1.yaml":          {Data: []byte("own")},
	"release-manifests/release-metadata":  {Data: []byte("{}")},
	"release-manifests/deeper/other.yaml": {Data: []byte("not read")},
	"usr/bin/program":                     {Data: []byte("not read")},
}

// pushImage pushes an image to a new registry and returns its pull spec by digest.
func pushImage(t *testing.T, files fs.FS) (ref string, server *ociregistry.Server) {
	t.Helper()
	server = ociregistry.Start(t)
	return ociregistry.Push(t, server.Host+"/release:v1", image.Spec{Layers: []image.Layer{{Tree: files}}}), server
}

func newRelease(ref string) configv1.Release { return configv1.Release{Version: "1.0.0", Image: ref} }

func newRegistry(t *testing.T) *Registry {
	t.Helper()
	client := image.NewClient(image.Options{})
	return &Registry{Dir: filepath.Join(t.TempDir(), "releases"), Images: func(context.Context) (*image.Client, error) { return client, nil }}
}

func fileNames(t *testing.T, files fs.FS) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return all
}

func TestRetrieve(t *testing.T) {
	ref, server := pushImage(t, content)
	f := newRegistry(t)
	files, err := f.Retrieve(t.Context(), newRelease(ref))
	if err != nil {
		t.Fatal(err)
	}

	want := []string{"manifests/0000_00_a_1.yaml", "release-manifests/release-metadata"}
	if diff := cmp.Diff(want, fileNames(t, files)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if data, err := fs.ReadFile(files, want[0]); err != nil || string(data) != "own" {
		t.Errorf("%s: got content %q and error %v", want[0], data, err)
	}

	server.Close()
	if _, err := f.Retrieve(t.Context(), newRelease(ref)); err != nil {
		t.Errorf("got error %v for a stored release without the registry, want none", err)
	}
	// A crash can leave a file empty.
	if err := os.Truncate(filepath.Join(f.Dir, FolderName(ref), contentName, want[0]), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Retrieve(t.Context(), newRelease(ref)); err == nil {
		t.Error("got no error for a damaged release without the registry, want one")
	}
	if _, err := f.Retrieve(t.Context(), newRelease(strings.Replace(ref, "@", ":v1@", 1))); err == nil {
		t.Error("got no error while the registry is down, want one")
	}

	entries, err := os.ReadDir(f.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got folders %v after failures (error %v), want one", entries, err)
	}
}

// A process that is killed while it stores a release again does not lose it.
func TestPutKeepsCompleteRelease(t *testing.T) {
	const ref = "registry.example.com/release@sha256:1"
	dir := t.TempDir()
	if err := Put(t.Context(), dir, ref, content); err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(dir, FolderName(ref), recordName)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Put(t.Context(), dir, ref, content); err != nil {
		t.Fatal(err)
	}

	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the complete release was replaced (error %v), want the same file", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := Put(t.Context(), dir, ref, content); err != nil {
		t.Fatal(err)
	}
	if _, ok := findRelease(dir, ref); !ok {
		t.Error("got no complete release, want it to replace the incomplete one")
	}
}

func TestTagIsResolvedAgain(t *testing.T) {
	ref, server := pushImage(t, content)
	tag, _, _ := strings.Cut(ref, "@")
	f := newRegistry(t)
	if _, err := f.Retrieve(t.Context(), newRelease(tag+":v1")); err != nil {
		t.Fatal(err)
	}

	server.Close()
	if _, err := f.Retrieve(t.Context(), newRelease(tag+":v1")); err == nil {
		t.Error("got no error for a tag without the registry, want the tag to be resolved again")
	}
}

func TestRetrieveEnds(t *testing.T) {
	ref, _ := pushImage(t, content)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newRegistry(t).Retrieve(ctx, newRelease(ref)); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want context.Canceled", err)
	}
}

func TestWrongDigest(t *testing.T) {
	ref, _ := pushImage(t, content)
	repository, _, _ := strings.Cut(ref, "@")
	if _, err := newRegistry(t).Retrieve(t.Context(), newRelease(repository+"@sha256:"+strings.Repeat("0", 64))); err == nil {
		t.Error("got no error for an unknown digest, want one")
	}
}

// The last three releases are kept, and incomplete ones are removed.
func TestRemoveOldReleases(t *testing.T) {
	f := newRegistry(t)
	var refs []string
	for _, name := range []string{"a", "b", "c", "d"} {
		ref, _ := pushImage(t, fstest.MapFS{"manifests/" + name: {Data: []byte(name)}})
		refs = append(refs, ref)
		if _, err := f.Retrieve(t.Context(), newRelease(ref)); err != nil {
			t.Fatal(err)
		}
	}

	if err := os.Mkdir(filepath.Join(f.Dir, tempPrefix+"left"), 0o755); err != nil {
		t.Fatal(err)
	}

	last, _ := pushImage(t, content)
	if _, err := f.Retrieve(t.Context(), newRelease(last)); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != maxReleases {
		t.Errorf("got %d folders, want %d: %v", len(entries), maxReleases, entries)
	}
	if !isCompleteFolder(filepath.Join(f.Dir, FolderName(last))) || isCompleteFolder(filepath.Join(f.Dir, FolderName(refs[0]))) {
		t.Error("want the newest release to remain and the oldest to be removed")
	}
}
