package steps

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Bundle is the content of a bundle that an InstallPlan installs.
type Bundle struct {
	// CSV is the ClusterServiceVersion as in the bundle.
	CSV unstructured.Unstructured
	// Objects are all other objects as in the bundle, in the order of the files.
	Objects []unstructured.Unstructured
	// Replaces is the name of the ClusterServiceVersion that it replaces according to the resolution,
	// regardless of the bundle; empty for none.
	Replaces string
	// Properties are the properties of the bundle in its catalog, in the format of the annotation.
	// Empty keeps the annotation.
	Properties string
	// Digest is the digest of an unpacked bundle's files; empty for any other bundle.
	Digest string
}

// FromBundle returns the steps of a bundle in the order of execution. Its errors are of type [*InvalidError].
func FromBundle(b Bundle, place Place) ([]*v1alpha1.Step, error) {
	csv, err := b.installedCSV(place.Namespace)
	if err != nil {
		return nil, err
	}

	var typed v1alpha1.ClusterServiceVersion
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(csv.Object, &typed); err != nil {
		return nil, newInvalidError("bundle CSV %s is none: %v", csv.GetName(), err)
	}

	permissions, err := FromCSV(&typed, place)
	if err != nil {
		return nil, err
	}

	all := make([]*v1alpha1.Step, 0, len(b.Objects)+1)
	for _, object := range slices.Concat([]unstructured.Unstructured{*csv}, b.Objects) {
		same := func(s *v1alpha1.Step) bool {
			return s.Resource.Kind == kindServiceAccount && s.Resource.Name == object.GetName()
		}
		if isServiceAccount(&object) && slices.ContainsFunc(permissions, same) {
			// The bundle has a manifest for an account that the permissions create too.
			permissions = slices.DeleteFunc(permissions, same)
			object = *object.DeepCopy()
			object.SetOwnerReferences([]metav1.OwnerReference{csvinfo.OwnerReference(&typed)})
		}

		step, err := NewStep(&object, csv.GetName(), place)
		if err != nil {
			return nil, err
		}

		all = append(all, step)
	}

	all = append(all, permissions...)
	Sort(all)
	return all, nil
}

func isServiceAccount(object *unstructured.Unstructured) bool {
	return object.GetKind() == kindServiceAccount && object.GetAPIVersion() == corev1.SchemeGroupVersion.String()
}

// installedCSV returns the ClusterServiceVersion as it is installed.
func (b *Bundle) installedCSV(namespace string) (*unstructured.Unstructured, error) {
	csv := b.CSV.DeepCopy()
	switch {
	case csv.Object == nil || csv.GetName() == "":
		return nil, newInvalidError("the bundle has no ClusterServiceVersion with a name")
	case csv.GetAPIVersion() == "":
		return nil, newInvalidError("bundle CSV %s missing APIVersion", csv.GetName())
	case csv.GetKind() == "":
		return nil, newInvalidError("bundle CSV %s missing Kind", csv.GetName())
	}

	// Only the kind is checked, as in the bundle loader: some authors write another group.
	csv.SetAPIVersion(v1alpha1.GroupVersion.String())
	csv.SetKind(v1alpha1.ClusterServiceVersionKind)
	csv.SetNamespace(namespace)
	delete(csv.Object, "status")
	if _, ok := csv.Object["spec"].(map[string]any); !ok {
		return nil, newInvalidError("bundle CSV %s has no spec", csv.GetName())
	}

	unstructured.RemoveNestedField(csv.Object, "spec", "replaces")
	if b.Replaces != "" {
		_ = unstructured.SetNestedField(csv.Object, b.Replaces, "spec", "replaces") // spec is a map
	}
	if b.Properties != "" {
		annotations := csvinfo.MergeLabels(csv.GetAnnotations(), map[string]string{csvinfo.AnnotationProperties: b.Properties})
		csv.SetAnnotations(annotations)
	}

	return csv, nil
}
