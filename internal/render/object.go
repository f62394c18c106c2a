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

// kindNamespaced lists the kinds that a bundle may ship beside its CSV, and whether
// they are namespaced. Kinds alone decide, whatever their group: several groups have,
// for example, a ServiceMonitor.
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

// api is a version of a kind.
type api struct{ apiVersion, kind string }

// renamedAPIs are versions that no supported cluster serves any more, whose objects
// are in every field what they are in the version that is given here. They are
// rendered as that version.
var renamedAPIs = map[api]string{
	{"rbac.authorization.k8s.io/v1beta1", "ClusterRole"}:        "rbac.authorization.k8s.io/v1",
	{"rbac.authorization.k8s.io/v1beta1", "ClusterRoleBinding"}: "rbac.authorization.k8s.io/v1",
	{"rbac.authorization.k8s.io/v1beta1", "Role"}:               "rbac.authorization.k8s.io/v1",
	{"rbac.authorization.k8s.io/v1beta1", "RoleBinding"}:        "rbac.authorization.k8s.io/v1",
	{"scheduling.k8s.io/v1beta1", "PriorityClass"}:              "scheduling.k8s.io/v1",
}

// removedAPI is a version that no supported cluster serves any more and that only the
// author can replace: the new version wants more or means something else.
type removedAPI struct {
	api
	kubernetes  string // the first version without it
	replacement string
}

var removedAPIs = []removedAPI{
	{api{"apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"}, "1.22", "apiextensions.k8s.io/v1"},
	{api{"extensions/v1beta1", "NetworkPolicy"}, "1.16", "networking.k8s.io/v1"},
	{api{"policy/v1beta1", "PodDisruptionBudget"}, "1.25", "policy/v1"},
	{api{"rbac.authorization.k8s.io/v1alpha1", "ClusterRole"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{api{"rbac.authorization.k8s.io/v1alpha1", "ClusterRoleBinding"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{api{"rbac.authorization.k8s.io/v1alpha1", "Role"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{api{"rbac.authorization.k8s.io/v1alpha1", "RoleBinding"}, "1.23", "rbac.authorization.k8s.io/v1"},
	{api{"scheduling.k8s.io/v1alpha1", "PriorityClass"}, "1.23", "scheduling.k8s.io/v1"},
}

// serverFields are fields of metadata that an API server writes. Manifests that were
// exported from a cluster carry them.
var serverFields = []string{
	"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
	"managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
}

// shipped are the objects that a bundle's manifests hold, its CSV aside, as they are to
// be applied: namespaced ones in the install namespace.
func shipped(b *bundle.Bundle, installNamespace string) []unstructured.Unstructured {
	var objects []unstructured.Unstructured
	for _, object := range slices.Concat(b.CRDs, b.Objects) {
		object = *object.DeepCopy()
		if renamed, ok := renamedAPIs[api{object.GetAPIVersion(), object.GetKind()}]; ok {
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

// DropPlaceholderCA removes a caBundle without a certificate from the conversion
// webhook of a CRD. Scaffolds of operators leave one there ("Cg==", a line feed) for a
// tool to fill in; the API server does not serve a CRD that has it.
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

// checkKinds names the objects of kinds that a bundle may not ship.
func checkKinds(b *bundle.Bundle) []string {
	var reasons []string
	for _, object := range b.Objects {
		if _, ok := kindNamespaced[object.GetKind()]; !ok {
			reasons = append(reasons, fmt.Sprintf("unsupported resource %q of kind %q", object.GetName(), object.GetKind()))
		}
	}

	slices.Sort(reasons)
	return reasons
}

// checkRemovedAPIs names the objects of versions that no supported cluster serves.
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
				removed.kind, quoted(names), removed.apiVersion, removed.kubernetes, removed.replacement))
		}
	}

	return reasons
}

// checkDuplicates names objects, CRDs among them, that a bundle ships twice.
func checkDuplicates(b *bundle.Bundle) []string {
	byKind := map[string][]string{}
	for _, object := range slices.Concat(b.CRDs, b.Objects) {
		kind := object.GroupVersionKind().GroupKind().String()
		byKind[kind] = append(byKind[kind], object.GetName())
	}

	var reasons []string
	for kind, names := range byKind {
		if twice := duplicates(names); len(twice) > 0 {
			kind, _, _ = strings.Cut(kind, ".")
			reasons = append(reasons, fmt.Sprintf("duplicate %s %s", kind, quoted(twice)))
		}
	}

	slices.Sort(reasons)
	return reasons
}

// duplicates returns the names that occur more than once, sorted, each once.
func duplicates(names []string) []string {
	seen := map[string]int{}
	var twice []string
	for _, name := range names {
		if seen[name]++; seen[name] == 2 {
			twice = append(twice, name)
		}
	}

	slices.Sort(twice)
	return twice
}

// quoted lists names in order, each once.
func quoted(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	var list []string
	for _, name := range slices.Compact(names) {
		list = append(list, fmt.Sprintf("%q", name))
	}
	return strings.Join(list, ", ")
}
