package render

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

const kindCRD = "CustomResourceDefinition"

// kindNamespaced lists the kinds that a bundle may ship in addition to its CSV, and whether they
// are namespaced. Only the kind counts, not the group: for example, several groups have a
// ServiceMonitor.
var kindNamespaced = map[string]bool{
	"ClusterRole":           false,
	"ClusterRoleBinding":    false,
	"ConfigMap":             true,
	"ConsoleCLIDownload":    false,
	"ConsoleLink":           false,
	"ConsolePlugin":         false,
	"ConsoleQuickStart":     false,
	"ConsoleYAMLSample":     false,
	kindCRD:                 false,
	"NetworkPolicy":         true,
	"PodDisruptionBudget":   true,
	"PodMonitor":            true,
	"PriorityClass":         false,
	"PrometheusRule":        true,
	"Role":                  true,
	"RoleBinding":           true,
	"Secret":                true,
	"Service":               true,
	kindServiceAccount:      true,
	"ServiceMonitor":        true,
	"VerticalPodAutoscaler": true,
}

// versionedKind is a version of a kind.
type versionedKind struct{ apiVersion, kind string }

// renamedAPIs maps versions that no supported cluster serves any more to versions with identical
// fields. Their objects are rendered in the mapped version.
var renamedAPIs = map[versionedKind]string{
	{"rbac.authorization.k8s.io/v1beta1", "ClusterRole"}:        "rbac.authorization.k8s.io/v1",
	{"rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding"}: "rbac.authorization.k8s.io/v1",
	{"rbac.authorization.k8s.io/v1beta1", "Role"}:               "rbac.authorization.k8s.io/v1",
	{"rbac.authorization.k8s.io/v1beta1", "RoleBinding"}:        "rbac.authorization.k8s.io/v1",
	{"scheduling.k8s.io/v1beta1", "PriorityClass"}:              "scheduling.k8s.io/v1",
}

// removedAPI is a version that no supported cluster serves any more and that only the author can
// replace: the new version requires more fields or has other semantics.
type removedAPI struct {
	versionedKind
	kubernetes  string // the first version without it
	replacement string
}

var removedAPIs = []removedAPI{
	{versionedKind{"apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"}, "1.22", "apiextensions.k8s.io/v1"},
	{versionedKind{"extensions/v1beta1", "NetworkPolicy"}, "1.16", "networking.k8s.io/v1"},
	{versionedKind{"policy/v1beta1", "PodDisruptionBudget"}, "1.25", "policy/v1"},
	{versionedKind{"rbac.authorization.k8s.io/v1alpha1", "ClusterRole"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{versionedKind{"rbac.authorization.k8s.io/v1alpha1", "ClusterRoleBinding"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{versionedKind{"rbac.authorization.k8s.io/v1alpha1", "Role"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{versionedKind{"rbac.authorization.k8s.io/v1alpha1", "RoleBinding"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{versionedKind{"scheduling.k8s.io/v1alpha1", "PriorityClass"}, "1.23", "scheduling.k8s.io/v1"},
}

// serverFields are the fields of metadata that an API server writes. Manifests exported from a
// cluster contain them.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// shippedObjects returns the objects in a bundle's manifests, except its CSV, ready to apply.
// Namespaced ones are in the install namespace.
func shippedObjects(b *bundle.Bundle, installNamespace string) []unstructured.Unstructured {
	var objects []unstructured.Unstructured
	for _, object := range slices.Concat(b.CRDs, b.Objects) {
		object = *object.DeepCopy()
		if renamed, ok := renamedAPIs[versionedKind{object.GetAPIVersion(), object.GetKind()}]; ok {
			object.SetAPIVersion(renamed)
		}

		delete(object.Object, "status")
		for _, field := range serverFields {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}

		if kindNamespaced[object.GetKind()] {
			object.SetNamespace(installNamespace)
		} else {
			unstructured.RemoveNestedField(object.Object, "metadata", "namespace")
		}

		DropPlaceholderCA(&object)
		objects = append(objects, object)
	}

	return objects
}

// DropPlaceholderCA removes a caBundle without a certificate from the conversion webhook of a CRD.
// Scaffolds of operators contain such a placeholder ("Cg==", a line feed) for a tool to fill in.
// The API server does not serve a CRD that has it.
func DropPlaceholderCA(object *unstructured.Unstructured) {
	field := []string{"spec", "conversion", "webhook", "clientConfig", "caBundle"}
	value, ok, err := unstructured.NestedString(object.Object, field...)
	if object.GetKind() != kindCRD || !ok || err != nil {
		return
	}

	text, err := base64.StdEncoding.DecodeString(value)
	if block, _ := pem.Decode(text); err != nil || block == nil {
		unstructured.RemoveNestedField(object.Object, field...)
	}
}

// checkSupportedKinds returns a reason for each object of a kind that a bundle may not ship.
func checkSupportedKinds(b *bundle.Bundle) []string {
	var reasons []string
	for _, object := range b.Objects {
		if _, ok := kindNamespaced[object.GetKind()]; !ok {
			reasons = append(reasons, fmt.Sprintf("unsupported resource %q of kind %q", object.GetName(), object.GetKind()))
		}
	}

	slices.Sort(reasons)
	return reasons
}

// checkRemovedAPIs returns a reason for each kind in a version that no supported cluster serves.
func checkRemovedAPIs(b *bundle.Bundle) []string {
	objects := slices.Concat(b.CRDs, b.Objects)
	var reasons []string
	for _, removed := range removedAPIs {
		var names []string
		for _, object := range objects {
			if object.GetAPIVersion() == removed.apiVersion && object.GetKind() == removed.kind {
				names = append(names, object.GetName())
			}
		}
		if len(names) > 0 {
			reasons = append(reasons, fmt.Sprintf("%s %s uses %s, which was removed in Kubernetes %s; its author must move to %s",
				removed.kind, quoteNames(names), removed.apiVersion, removed.kubernetes, removed.replacement))
		}
	}

	return reasons
}

// checkDuplicates returns a reason for objects, including CRDs, that a bundle ships more than once.
func checkDuplicates(b *bundle.Bundle) []string {
	byKind := map[string][]string{}
	for _, object := range slices.Concat(b.CRDs, b.Objects) {
		kind := object.GroupVersionKind().GroupKind().String()
		byKind[kind] = append(byKind[kind], object.GetName())
	}

	var reasons []string
	for kind, names := range byKind {
		if repeated := findDuplicates(names); len(repeated) > 0 {
			kind, _, _ = strings.Cut(kind, ".")
			reasons = append(reasons, fmt.Sprintf("duplicate %s %s", kind, quoteNames(repeated)))
		}
	}

	slices.Sort(reasons)
	return reasons
}

// findDuplicates returns the names that occur more than once, sorted, without duplicates.
func findDuplicates(names []string) []string {
	seen := map[string]int{}
	var repeated []string
	for _, name := range names {
		if seen[name]++; seen[name] == 2 {
			repeated = append(repeated, name)
		}
	}

	slices.Sort(repeated)
	return repeated
}

// quoteNames returns the quoted names, sorted, without duplicates.
func quoteNames(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	var list []string
	for _, name := range slices.Compact(names) {
		list = append(list, fmt.Sprintf("%q", name))
	}
	return strings.Join(list, ", ")
}
