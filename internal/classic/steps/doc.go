// Package steps makes the steps of InstallPlans: of a bundle, the ClusterServiceVersion as it is to be
// installed, its definitions, the other manifests and the accounts and roles that the
// ClusterServiceVersion asks for.
//
// It is pure. Which bundles a plan installs is decided by the resolution, executing the steps is the
// installplan room's work, and bundles come out of their images by the unpack room.
package steps

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

const (
	kindSecret = "Secret"
	kindCRD    = "CustomResourceDefinition"
)

// InvalidError says that a bundle, as it is, can become no steps. Trying again does not help.
type InvalidError struct{ text string }

func (e *InvalidError) Error() string { return e.text }

func invalid(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// Place is where the objects of a bundle come from, and where they go to.
type Place struct {
	// Namespace is that of the plan.
	Namespace string
	// Catalog and CatalogNamespace are the CatalogSource.
	Catalog, CatalogNamespace string
}

// Of makes a step of an object, whose apiVersion, kind and name are set. resolving is the name of the
// ClusterServiceVersion that it belongs to.
func Of(object runtime.Object, resolving string, place Place) (*v1alpha1.Step, error) {
	manifest, err := json.Marshal(object)
	if err != nil {
		return nil, invalid("an object of %q cannot be encoded: %v", resolving, err)
	}

	var meta struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(manifest, &meta); err != nil {
		return nil, invalid("an object of %q cannot be decoded: %v", resolving, err)
	}

	kind := object.GetObjectKind().GroupVersionKind()
	if kind.Kind == "" || kind.Version == "" || meta.Metadata.Name == "" {
		return nil, invalid("an object of %q has no kind, apiVersion or name: it is %s %q", resolving, kind, meta.Metadata.Name)
	}

	return &v1alpha1.Step{
		Resolving: resolving,
		Resource: v1alpha1.StepResource{
			CatalogSource: place.Catalog, CatalogSourceNamespace: place.CatalogNamespace,
			Group: kind.Group, Version: kind.Version, Kind: stepKind(kind.GroupKind()), Name: meta.Metadata.Name,
			Manifest: string(manifest),
		},
		Status: v1alpha1.StepStatusUnknown,
	}, nil
}

// stepKind is the kind by which steps name objects of a bundle.
func stepKind(kind schema.GroupKind) string {
	if kind == (schema.GroupKind{Kind: kindSecret}) {
		return v1alpha1.KindBundleSecret
	}
	return kind.Kind
}

// Sort puts steps into the order in which they are executed: ClusterServiceVersions, then definitions,
// then everything else, each as they were.
func Sort(steps []*v1alpha1.Step) {
	rank := func(s *v1alpha1.Step) int {
		switch s.Resource.Kind {
		case v1alpha1.ClusterServiceVersionKind:
			return 0
		case kindCRD:
			return 1
		default:
			return 2
		}
	}

	slices.SortStableFunc(steps, func(a, b *v1alpha1.Step) int { return rank(a) - rank(b) })
}
