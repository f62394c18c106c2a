package bundle

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// CSVMetadata is the value of an olm.csv.metadata property: what a catalog says of a
// CSV to people who choose a package. Its structs are always written, even when empty.
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

// FBC is the olm.bundle blob of the bundle: its properties, olm.csv.metadata as the
// last of them, and the images that it runs, that of the bundle itself among them.
// image is the reference of the bundle's image as the catalog is to give it; it may be
// empty.
func (b *Bundle) FBC(image string) (fbc.Bundle, error) {
	metadata, err := b.csvMetadata()
	if err != nil {
		return fbc.Bundle{}, err
	}
	return fbc.Bundle{
		Schema:        fbc.SchemaBundle,
		Package:       b.Package,
		Name:          b.Name(),
		Image:         image,
		Properties:    append(slices.Clone(b.Properties), metadata),
		RelatedImages: b.relatedImages(image),
	}, nil
}

func (b *Bundle) csvMetadata() (fbc.Property, error) {
	spec := b.CSV.Spec
	raw, err := encode(CSVMetadata{
		Annotations:               b.CSV.Annotations,
		APIServiceDefinitions:     spec.APIServiceDefinitions,
		CustomResourceDefinitions: spec.CustomResourceDefinitions,
		Description:               spec.Description,
		DisplayName:               spec.DisplayName,
		InstallModes:              spec.InstallModes,
		Keywords:                  spec.Keywords,
		Labels:                    b.CSV.Labels,
		Links:                     spec.Links,
		Maintainers:               spec.Maintainers,
		Maturity:                  spec.Maturity,
		MinKubeVersion:            spec.MinKubeVersion,
		NativeAPIs:                spec.NativeAPIs,
		Provider:                  spec.Provider,
	})
	if err != nil { // a descriptor's value is free JSON
		return fbc.Property{}, fmt.Errorf("property %s of ClusterServiceVersion %q: %w", fbc.PropertyCSVMetadata, b.CSV.Name, err)
	}
	return fbc.Property{Type: fbc.PropertyCSVMetadata, Value: raw}, nil
}

// relatedImages are the images that the CSV lists, the bundle's own, and those of the
// operator's containers, sorted by image.
func (b *Bundle) relatedImages(image string) []fbc.RelatedImage {
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
	slices.SortStableFunc(images, func(a, b fbc.RelatedImage) int { return cmp.Compare(a.Image, b.Image) })
	return images
}
