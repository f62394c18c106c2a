// Package steps creates the steps of InstallPlans. The steps of a bundle install its ClusterServiceVersion, CRDs
// and other manifests, and the service accounts and roles that the ClusterServiceVersion asks for.
//
// The package is pure. Package resolution chooses the bundles of a plan, package unpack unpacks their images, and
// package installplan executes the steps.
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

// InvalidError is the error for a bundle that cannot be converted to steps. A retry does not help.
type InvalidError struct{ text string }

func (e *InvalidError) Error() string { return e.text }

func newInvalidError(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// Place is the source and the destination of a bundle's objects.
type Place struct {
	// Namespace is the namespace of the plan.
	Namespace string
	// Catalog and CatalogNamespace are the CatalogSource.
	Catalog, CatalogNamespace string
}

// NewStep returns the step for an object, whose apiVersion, kind and name must be set. resolving is the name of the
// ClusterServiceVersion that it belongs to.
func NewStep(object runtime.Object, resolving string, place Place) (*v1alpha1.Step, error) {
	manifest, err := json.Marshal(object)
	if err != nil {
		return nil, newInvalidError("an object of %q cannot be encoded: %v", resolving, err)
	}

	var meta struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(manifest, &meta); err != nil {
		return nil, newInvalidError("an object of %q cannot be decoded: %v", resolving, err)
	}

	kind := object.GetObjectKind().GroupVersionKind()
	if kind.Kind == "" || kind.Version == "" || meta.Metadata.Name == "" {
		return nil, newInvalidError("an object of %q has no kind, apiVersion or name: it is %s %q", resolving, kind, meta.Metadata.Name)
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

// stepKind returns the kind that a step has for an object of a bundle.
func stepKind(kind schema.GroupKind) string {
	if kind == (schema.GroupKind{Kind: kindSecret}) {
		return v1alpha1.KindBundleSecret
	}
	return kind.Kind
}

// Sort sorts steps in the order of execution: ClusterServiceVersions, then CRDs, then all others. It is stable.
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
