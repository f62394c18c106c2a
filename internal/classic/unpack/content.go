package unpack

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/steps"
)

// Trust names the namespaces in which only administrators of the cluster can write. Unpacked
// content is read from these namespaces only. In any other namespace an editor can write
// ConfigMaps and use every service account.
type Trust struct {
	// Operator is the namespace of the program.
	Operator string
	// Global is the namespace of global catalogs. It may be empty.
	Global string
}

// Has reports whether a namespace is trusted.
func (t Trust) Has(namespace string) bool {
	return namespace != "" && (namespace == t.Operator || namespace == t.Global)
}

// RefusedError reports that a step refers to content that must not be installed.
type RefusedError struct {
	ref    steps.Reference
	reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the content of a bundle in ConfigMap %s/%s is refused: %s; delete the InstallPlan to create a new one", e.ref.Namespace, e.ref.Name, e.reason)
}

// StepsOf returns the steps of an unpacked bundle, from a reference in a step of a plan in a
// namespace. It returns a [*RefusedError] if the plan must not install the content.
func StepsOf(ctx context.Context, reader client.Reader, trust Trust, namespace string, ref steps.Reference) ([]*v1alpha1.Step, error) {
	if err := validateReference(trust, namespace, ref); err != nil {
		return nil, err
	}

	var configMap corev1.ConfigMap
	if err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &configMap); err != nil {
		return nil, fmt.Errorf("reading the unpacked bundle in ConfigMap %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if err := validateOrigin(&configMap, ref); err != nil {
		return nil, err
	}

	decoded, digest, err := decodeUnpackedSteps(namespace, ref, &configMap)
	if err != nil {
		return nil, err
	}
	if ref.Digest != "" && ref.Digest != digest {
		return nil, &RefusedError{ref, fmt.Sprintf("it has changed since the plan was made: its digest is %s, that of the plan is %s", digest, ref.Digest)}
	}

	return decoded, nil
}

// validateReference refuses references to untrusted namespaces, and to content of a catalog
// that the namespace of the plan may not use. Users or other versions can write such references
// into plans.
func validateReference(trust Trust, namespace string, ref steps.Reference) error {
	if !trust.Has(ref.Namespace) {
		return &RefusedError{ref, fmt.Sprintf("the editors of namespace %s can have written it", ref.Namespace)}
	}
	if ref.CatalogSourceNamespace != namespace && (trust.Global == "" || ref.CatalogSourceNamespace != trust.Global) {
		return &RefusedError{ref, fmt.Sprintf("it belongs to a catalog in namespace %s, which namespace %s may not use", ref.CatalogSourceNamespace, namespace)}
	}
	return nil
}

// validateOrigin refuses a ConfigMap that was not unpacked for the catalog of a reference.
func validateOrigin(configMap *corev1.ConfigMap, ref steps.Reference) error {
	catalog := ref.CatalogSourceNamespace + "/" + ref.CatalogSourceName
	if configMap.Annotations[AnnotationCatalog] == catalog {
		return nil
	}

	isCatalog := func(o metav1.OwnerReference) bool {
		return o.Kind == v1alpha1.CatalogSourceKind && o.Name == ref.CatalogSourceName
	}
	if ref.Namespace == ref.CatalogSourceNamespace && slices.ContainsFunc(configMap.OwnerReferences, isCatalog) {
		return nil
	}

	return &RefusedError{ref, "it was not unpacked for CatalogSource " + catalog}
}

// decodeUnpackedSteps returns the steps of unpacked content, with manifests, and the digest of the
// content.
func decodeUnpackedSteps(namespace string, ref steps.Reference, configMap *corev1.ConfigMap) (decoded []*v1alpha1.Step, digest string, err error) {
	b, err := steps.DecodeConfigMap(configMap)
	if err != nil {
		return nil, "", err
	}
	b.Replaces, b.Properties = ref.Replaces, ref.Properties
	decoded, err = steps.FromBundle(b, steps.Place{Namespace: namespace, Catalog: ref.CatalogSourceName, CatalogNamespace: ref.CatalogSourceNamespace})
	return decoded, b.Digest, err
}
