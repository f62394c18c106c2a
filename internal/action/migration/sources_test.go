package migration_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// TestBundleImages opens bundles whose annotations do not specify their format. The label of the image does, as for an
// installation.
func TestBundleImages(t *testing.T) {
	host := ociregistry.Start(t).Host
	overHTTP := catalogs.Registry{UseHTTP: true}
	metadata := t.TempDir()
	annotations := "annotations: {operators.operatorframework.io.bundle.package.v1: hello-operator}\n"
	if err := os.WriteFile(filepath.Join(metadata, "annotations.yaml"), []byte(annotations), 0o600); err != nil {
		t.Fatal(err)
	}

	for mediaType, want := range map[string]string{
		bundle.MediaType:      "",
		bundle.MediaTypePlain: `the bundle format "plain" is not supported`,
	} {
		t.Run(mediaType, func(t *testing.T) {
			build := &catalogs.BundleImage{
				Registry: overHTTP, Manifests: filepath.FromSlash("../../../examples/bundles/hello-operator/1.0.0/manifests"), Metadata: metadata,
				Description: bundle.Description{MediaType: mediaType}, Delivery: catalogs.Delivery{Push: host + "/bundle:v1"},
			}
			image, err := build.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}

			images := &migration.BundleImages{Registry: overHTTP}
			switch b, err := images.Open(t.Context(), image); {
			case want == "" && (err != nil || b.Name() != "hello-operator.v1.0.0"):
				t.Errorf("got %+v and the error %v, want the bundle", b, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got the error %v, want one with %q", err, want)
			}
		})
	}
}

// TestBundleImagesOpenNoFolder opens the path of a bundle on this machine, because a catalog may contain it instead of an image.
func TestBundleImagesOpenNoFolder(t *testing.T) {
	folder, err := filepath.Abs(filepath.FromSlash("../../../examples/bundles/hello-operator/1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := (&migration.BundleImages{}).Open(t.Context(), folder); err == nil {
		t.Errorf("got the bundle %s of a folder, want an error", b.Name())
	}
}
