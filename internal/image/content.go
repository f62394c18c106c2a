package image

import (
	"errors"
	"io/fs"
	"maps"
)

// Labels with which tools find the content of catalog and bundle images.
const (
	// LabelConfigs is the label with the directory of a file-based catalog.
	LabelConfigs = "operators.operatorframework.io.index.configs.v1"
	// LabelBundleMediaType is the label with the format of a bundle.
	LabelBundleMediaType = "operators.operatorframework.io.bundle.mediatype.v1"
	// LabelBundleManifests is the label with the directory of a bundle's manifests.
	LabelBundleManifests = "operators.operatorframework.io.bundle.manifests.v1"
	// LabelBundleMetadata is the label with the directory of a bundle's metadata.
	LabelBundleMetadata = "operators.operatorframework.io.bundle.metadata.v1"
)

// contentArchitecture is the architecture of images without programs. Every tool accepts
// it. It is the same on every machine, so that the digest is the same too.
const contentArchitecture = "amd64"

// CatalogSpec returns the spec of a catalog image with the file-based catalog in /configs.
func CatalogSpec(catalog fs.FS) Spec {
	return Spec{
		OS: "linux", Architecture: contentArchitecture,
		Labels: map[string]string{LabelConfigs: "/configs"},
		Layers: []Layer{{Tree: catalog, Target: "/configs"}},
	}
}

// BundleSpec returns the spec of a bundle image with the content of a bundle's directory:
// manifests/, metadata/ and, if present, tests/. The annotations are those of
// metadata/annotations.yaml and become the labels of the image. The labels of every
// registry+v1 bundle are added when they are missing.
func BundleSpec(bundle fs.FS, annotations map[string]string) (Spec, error) {
	spec := Spec{
		OS: "linux", Architecture: contentArchitecture,
		Labels: map[string]string{
			LabelBundleMediaType: "registry+v1",
			LabelBundleManifests: "manifests/",
			LabelBundleMetadata:  "metadata/",
		},
	}

	maps.Copy(spec.Labels, annotations)
	for _, dir := range []string{"manifests", "metadata", "tests"} {
		info, err := fs.Stat(bundle, dir)
		if errors.Is(err, fs.ErrNotExist) && dir == "tests" {
			continue
		}
		if err == nil && !info.IsDir() {
			err = errors.New("is not a directory")
		}
		if err != nil {
			return Spec{}, wrapOperationError("build", "", kindErrorf(KindInvalid, "the bundle's %s/: %w", dir, err))
		}

		tree, err := fs.Sub(bundle, dir)
		if err != nil {
			return Spec{}, wrapOperationError("build", "", kindErrorf(KindInvalid, "the bundle's %s/: %w", dir, err))
		}

		spec.Layers = append(spec.Layers, Layer{Tree: tree, Target: "/" + dir})
	}

	return spec, nil
}
