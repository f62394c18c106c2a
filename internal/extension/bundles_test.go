package extension

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// A bundle that was opened can be used after the removal of another extension has cleared the cache.
func TestOpenedBundleOutlivesTheCache(t *testing.T) {
	b, ref := newOpenerOfExample(t, nil)
	opened, err := b.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Keep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	loaded, err := opened.Files.Load(opened.Labels)
	if err != nil {
		t.Fatalf("after the cache was cleared: %v", err)
	}
	if loaded.CSV.Name != "hello-operator.v1.0.0" || opened.Canonical != ref {
		t.Errorf("got bundle %q of image %s, want hello-operator.v1.0.0 of %s", loaded.CSV.Name, opened.Canonical, ref)
	}
}

// An opened bundle has the labels of its image, which state the media type of a bundle whose annotations do not, also
// when the image is cached.
func TestOpenedBundleHasLabelsOfImage(t *testing.T) {
	want := map[string]string{bundle.KeyMediaType: "registry+v1"}
	b, ref := newOpenerOfExample(t, want)
	for _, from := range []string{"registry", "cache"} {
		opened, err := b.Open(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, opened.Labels); diff != "" {
			t.Errorf("labels of the bundle from the %s (-want +got):\n%s", from, diff)
		}
	}
}

// newOpenerOfExample pushes an example bundle with labels to a registry. It returns the reference of the image, and an opener.
func newOpenerOfExample(t *testing.T, labels map[string]string) (opener *bundleOpener, ref string) {
	t.Helper()
	example := os.DirFS(filepath.Join("..", "..", "examples", "bundles", "hello-operator", "1.0.0"))
	ref = ociregistry.Push(t, ociregistry.Start(t).Host+"/hello:v1", image.Spec{Labels: labels, Layers: []image.Layer{{Tree: example, Target: "/"}}})
	images := image.NewClient(image.Options{})
	opener = &bundleOpener{images: func(context.Context) (*image.Client, error) { return images, nil }, cache: image.NewCache(t.TempDir())}
	return opener, ref
}
