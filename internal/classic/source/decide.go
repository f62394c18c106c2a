package source

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/inline"
)

// facts are what the objects and the image of a catalog depend on.
type facts struct {
	// serverVersion is the version of the cluster; empty when it is not known or not needed.
	serverVersion string
	// configMap is the ConfigMap of the catalog; nil when it has none. configMapErr is why it cannot be read.
	configMap    *metav1.PartialObjectMetadata
	configMapErr error
	// namespaceLabels are the labels of the namespace. namespaceErr is why they cannot be read.
	namespaceLabels map[string]string
	namespaceErr    error
}

// decision is what must be done for a catalog.
type decision struct {
	// catalog is a copy of the catalog, in whose status the decision and its execution are recorded.
	catalog *v1alpha1.CatalogSource
	// image is the image that results from the template; empty when it is in the spec already. It is set first.
	image string
	// invalid is why the spec is invalid. Then nothing is served.
	invalid error
	// inline is the state of a catalog that is served from within the process, after the execution; nil for others.
	inline *inline.State
}

// decide returns what must be done for a catalog: set its image, refuse its spec, or serve it. When a spec has become
// valid, it resets the status, which describes the old spec.
func decide(catalog *v1alpha1.CatalogSource, f *facts) *decision {
	d := &decision{catalog: catalog.DeepCopy()}
	status := &d.catalog.Status
	if !hasImageTemplate(catalog) {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.CatalogSourceTemplatesHaveResolved)
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.CatalogSourceResolvedImage)
	} else {
		result := resolveTemplate(catalog.Annotations[v1alpha1.AnnotationCatalogImageTemplate], f.serverVersion)
		if result.failureMessage() == "" && catalog.Spec.Image != result.image {
			d.image = result.image
			return d
		}
		setTemplateConditions(d.catalog, result)
	}

	d.invalid = validateSpec(&catalog.Spec)
	if d.invalid == nil && status.Reason == v1alpha1.CatalogSourceSpecInvalidError {
		*status = v1alpha1.CatalogSourceStatus{Conditions: status.Conditions}
	}

	return d
}
