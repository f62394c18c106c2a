package image

import (
	"errors"
	"io/fs"
	"maps"
)

// Labels by which tools find the content of catalog and bundle images.
const (
	// LabelConfigs names the directory of a file-based catalog.
	LabelConfigs = "operators.operatorframework.io.index.configs.v1"
	// LabelBundleMediaType names the format of a bundle.
	LabelBundleMediaType = "operators.operatorframework.io.bundle.mediatype.v1"
	// LabelBundleManifests names the directory of a bundle's manifests.
	LabelBundleManifests = "operators.operatorframework.io.bundle.manifests.v1"
	// LabelBundleMetadata names the directory of a bundle's metadata.
	LabelBundleMetadata = "operators.operatorframework.io.bundle.metadata.v1"
)

// contentArchitecture is what images without programs say they are for: one that every
// tool accepts, and the same on every machine, so that the digest is too.
const contentArchitecture = "amd64"

// CatalogSpec describes a catalog image: the file-based catalog below /configs.
func CatalogSpec(catalog fs.FS) Spec {
	return Spec{
		OS: "linux", Architecture: contentArchitecture,
		Labels: map[string]string{LabelConfigs: "/configs"},
		Layers: []Layer{{Tree: catalog, Target: "/configs"}},
	}
}

// BundleSpec describes a bundle image from a bundle's directory: manifests/, metadata/
// and, when it is there, tests/. The annotations are those of metadata/annotations.yaml;
// they become the image's labels. The labels that every registry+v1 bundle has are added
// when they are missing.
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
			return Spec{}, fail("build", "", faultf(KindInvalid, "the bundle's %s/: %w", dir, err))
		}

		tree, err := fs.Sub(bundle, dir)
		if err != nil {
			return Spec{}, fail("build", "", faultf(KindInvalid, "the bundle's %s/: %w", dir, err))
		}

		spec.Layers = append(spec.Layers, Layer{Tree: tree, Target: "/" + dir})
	}

	return spec, nil
}
