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

// Trust names the namespaces in which nobody can write but those who may change the cluster anyway.
// Unpacked content is read from these namespaces and from no other: whoever edits any other namespace
// can write its ConfigMaps, and can act as every account in it.
type Trust struct {
	// Operator is the namespace of the program.
	Operator string
	// Global is the namespace of the catalogs that every namespace may use. Empty means none.
	Global string
}

// Has reports whether a namespace is trusted.
func (t Trust) Has(namespace string) bool {
	return namespace != "" && (namespace == t.Operator || namespace == t.Global)
}

// RefusedError is about a reference of a step to content that must not be installed by it.
type RefusedError struct {
	ref    steps.Reference
	reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the content of a bundle in ConfigMap %s/%s is refused: %s; delete the InstallPlan to have another made", e.ref.Namespace, e.ref.Name, e.reason)
}

// StepsOf makes the steps of an unpacked bundle once more, from a reference in a step of a plan of a
// namespace. An error of type [*RefusedError] says that the reference leads to content that this plan
// must not install.
func StepsOf(ctx context.Context, reader client.Reader, trust Trust, namespace string, ref steps.Reference) ([]*v1alpha1.Step, error) {
	if err := checkReference(trust, namespace, ref); err != nil {
		return nil, err
	}

	var configMap corev1.ConfigMap
	if err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &configMap); err != nil {
		return nil, fmt.Errorf("reading the bundle that was unpacked into ConfigMap %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	if err := checkOrigin(&configMap, ref); err != nil {
		return nil, err
	}

	made, digest, err := stepsOf(namespace, ref, &configMap)
	if err != nil {
		return nil, err
	}
	if ref.Digest != "" && ref.Digest != digest {
		return nil, &RefusedError{ref, fmt.Sprintf("it has changed since the plan was made: its digest is %s, that of the plan is %s", digest, ref.Digest)}
	}

	return made, nil
}

// checkReference refuses a reference to a namespace that is not trusted, and one to content of a
// catalog that the namespace of the plan may not use. Both can stand in plans that somebody wrote, or
// that another version made.
func checkReference(trust Trust, namespace string, ref steps.Reference) error {
	if !trust.Has(ref.Namespace) {
		return &RefusedError{ref, fmt.Sprintf("the editors of namespace %s can have written it", ref.Namespace)}
	}
	if ref.CatalogSourceNamespace != namespace && (trust.Global == "" || ref.CatalogSourceNamespace != trust.Global) {
		return &RefusedError{ref, fmt.Sprintf("it is said to be of a catalog of namespace %s, which namespace %s may not use", ref.CatalogSourceNamespace, namespace)}
	}
	return nil
}

// checkOrigin refuses a ConfigMap that does not hold what was unpacked for the catalog of a reference.
func checkOrigin(configMap *corev1.ConfigMap, ref steps.Reference) error {
	catalog := ref.CatalogSourceNamespace + "/" + ref.CatalogSourceName
	if configMap.Annotations[AnnotationCatalog] == catalog {
		return nil
	}

	owns := func(o metav1.OwnerReference) bool {
		return o.Kind == v1alpha1.CatalogSourceKind && o.Name == ref.CatalogSourceName
	}
	if ref.Namespace == ref.CatalogSourceNamespace && slices.ContainsFunc(configMap.OwnerReferences, owns) {
		return nil
	}

	return &RefusedError{ref, "it was not unpacked for CatalogSource " + catalog}
}

// stepsOf returns the steps of unpacked content, with manifests, and the digest of the content.
func stepsOf(namespace string, ref steps.Reference, configMap *corev1.ConfigMap) (made []*v1alpha1.Step, digest string, err error) {
	b, err := steps.DecodeConfigMap(configMap)
	if err != nil {
		return nil, "", err
	}
	b.Replaces, b.Properties = ref.Replaces, ref.Properties
	made, err = steps.FromBundle(b, steps.Place{Namespace: namespace, Catalog: ref.CatalogSourceName, CatalogNamespace: ref.CatalogSourceNamespace})
	return made, b.Digest, err
}
