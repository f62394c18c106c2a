package bundle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// CSVMetadata is the value of an olm.csv.metadata property: what a catalog shows of a CSV
// to users who choose a package. Its structs are always encoded, even when empty.
type CSVMetadata struct {
	Annotations               map[string]string                  `json:"annotations,omitempty"`
	APIServiceDefinitions     v1alpha1.APIServiceDefinitions     `json:"apiServiceDefinitions"`
	CustomResourceDefinitions v1alpha1.CustomResourceDefinitions `json:"crdDescriptions"`
	Description               string                             `json:"description,omitempty"`
	DisplayName               string                             `json:"displayName,omitempty"`
	InstallModes              []v1alpha1.InstallMode             `json:"installModes,omitempty"`
	Keywords                  []string                           `json:"keywords,omitempty"`
	Labels                    map[string]string                  `json:"labels,omitempty"`
	Links                     []v1alpha1.AppLink                 `json:"links,omitempty"`
	Maintainers               []v1alpha1.Maintainer              `json:"maintainers,omitempty"`
	Maturity                  string                             `json:"maturity,omitempty"`
	MinKubeVersion            v1alpha1.LooseVersion              `json:"minKubeVersion,omitempty"`
	NativeAPIs                []metav1.GroupVersionKind          `json:"nativeAPIs,omitempty"`
	Provider                  v1alpha1.AppLink                   `json:"provider"`
}

// ObjectProperty is the value of an olm.bundle.object property: a manifest in JSON or YAML,
// which is base64 in the blob.
type ObjectProperty struct {
	Data []byte `json:"data"`
}

// ManifestForm is how an olm.bundle blob contains the manifests of its bundle.
type ManifestForm int

const (
	// WithObjects adds every manifest as an olm.bundle.object property, like "opm render".
	// Such a catalog can be served without the bundle's image.
	WithObjects ManifestForm = iota
	// WithMetadata adds the descriptive part of the CSV as one olm.csv.metadata property,
	// which is much smaller. Mainstay's own catalogs use it.
	WithMetadata
)

// FBC returns the olm.bundle blob of the bundle: its properties, its manifests in the given
// form, and its related images, including that of the bundle itself. image is the reference
// of the bundle's image in the catalog. It may be empty.
//
// It returns an error for a CRD that the CSV owns and the catalog would not contain.
func (b *Bundle) FBC(image string, form ManifestForm) (fbc.Bundle, error) {
	if err := b.checkProvidedAPIs(); err != nil {
		return fbc.Bundle{}, fmt.Errorf("error checking provided apis in bundle %s: %w", b.Name(), err)
	}

	blob := fbc.Bundle{
		Schema:        fbc.SchemaBundle,
		Package:       b.Package,
		Name:          b.Name(),
		Image:         image,
		Properties:    slices.Clone(b.Properties),
		RelatedImages: b.collectRelatedImages(image),
	}

	switch form {
	case WithObjects:
		set := propertySet{}
		for _, manifest := range b.Manifests {
			object, err := newObjectProperty(manifest)
			if err != nil {
				return fbc.Bundle{}, err
			}
			set.items = append(set.items, object)
		}
		blob.Properties = append(blob.Properties, set.sortedProperties()...)
	case WithMetadata:
		metadata, err := newCSVMetadataProperty(&b.CSV)
		if err != nil {
			return fbc.Bundle{}, err
		}
		blob.Properties = append(blob.Properties, metadata)
	}

	SortManifestPropertiesLast(&blob)
	return blob, nil
}

// SortManifestPropertiesLast moves the properties with manifests behind all others, and sorts the related
// images by image, as in every rendered bundle. Otherwise it keeps the order.
func SortManifestPropertiesLast(b *fbc.Bundle) {
	slices.SortStableFunc(b.Properties, func(x, y fbc.Property) int {
		return cmp.Compare(manifestPropertyRank(x), manifestPropertyRank(y))
	})
	slices.SortStableFunc(b.RelatedImages, func(x, y fbc.RelatedImage) int { return cmp.Compare(x.Image, y.Image) })
}

// manifestPropertyRank returns 1 for properties with manifests and 0 for others.
func manifestPropertyRank(p fbc.Property) int {
	if p.Type == fbc.PropertyBundleObject || p.Type == fbc.PropertyCSVMetadata {
		return 1
	}
	return 0
}

// newObjectProperty returns the olm.bundle.object property of a manifest: JSON without
// spaces, with sorted keys, in base64.
func newObjectProperty(manifest unstructured.Unstructured) (fbc.Property, error) {
	data, err := json.Marshal(manifest.Object) // escapes <, > and &, as all catalogs have it
	if err != nil {
		return fbc.Property{}, fmt.Errorf("%s %q: %w", manifest.GetKind(), manifest.GetName(), err)
	}
	return newProperty(fbc.PropertyBundleObject, ObjectProperty{Data: data}), nil
}

// newCSVMetadataProperty returns the olm.csv.metadata property of a CSV.
func newCSVMetadataProperty(csv *v1alpha1.ClusterServiceVersion) (fbc.Property, error) {
	spec := csv.Spec
	raw, err := encodeCompact(CSVMetadata{
		Annotations:               csv.Annotations,
		APIServiceDefinitions:     spec.APIServiceDefinitions,
		CustomResourceDefinitions: spec.CustomResourceDefinitions,
		Description:               spec.Description,
		DisplayName:               spec.DisplayName,
		InstallModes:              spec.InstallModes,
		Keywords:                  spec.Keywords,
		Labels:                    csv.Labels,
		Links:                     spec.Links,
		Maintainers:               spec.Maintainers,
		Maturity:                  spec.Maturity,
		MinKubeVersion:            spec.MinKubeVersion,
		NativeAPIs:                spec.NativeAPIs,
		Provider:                  spec.Provider,
	})
	if err != nil { // a descriptor's value is free JSON
		return fbc.Property{}, fmt.Errorf("property %s of ClusterServiceVersion %q: %w", fbc.PropertyCSVMetadata, csv.Name, err)
	}
	return fbc.Property{Type: fbc.PropertyCSVMetadata, Value: raw}, nil
}

// collectRelatedImages returns the images that the CSV lists, the bundle's own, and those
// of the operator's containers, in this order.
func (b *Bundle) collectRelatedImages(image string) []fbc.RelatedImage {
	var images []fbc.RelatedImage
	for _, related := range b.CSV.Spec.RelatedImages {
		images = append(images, fbc.RelatedImage{Name: related.Name, Image: related.Image})
	}

	add := func(image string) {
		listed := func(r fbc.RelatedImage) bool { return r.Image == image }
		if image != "" && !slices.ContainsFunc(images, listed) {
			images = append(images, fbc.RelatedImage{Image: image})
		}
	}

	add(image)
	if install := b.CSV.Spec.InstallStrategy; install.StrategyName == v1alpha1.InstallStrategyDeployment {
		for _, deployment := range install.StrategySpec.DeploymentSpecs {
			pod := deployment.Spec.Template.Spec
			for _, containers := range [][]corev1.Container{pod.Containers, pod.InitContainers} {
				for _, container := range containers {
					add(container.Image)
				}
			}
		}
	}

	return images
}
