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

// Bundle is what a plan installs of one bundle.
type Bundle struct {
	// CSV is the ClusterServiceVersion, as it is written.
	CSV unstructured.Unstructured
	// Objects are all others, as they are written, in the order of the files.
	Objects []unstructured.Unstructured
	// Replaces is the name of the ClusterServiceVersion that the resolution has it replace, whatever
	// the bundle says; empty is none.
	Replaces string
	// Properties are those of the bundle in its catalog, as the annotation has them; empty leaves
	// the annotation as it is.
	Properties string
	// Digest is that of the files of an unpacked bundle; empty for any other bundle.
	Digest string
}

// FromBundle makes the steps of a bundle, in the order in which they are executed. Its errors are of
// type [*InvalidError].
func FromBundle(b Bundle, place Place) ([]*v1alpha1.Step, error) {
	csv, err := b.csv(place.Namespace)
	if err != nil {
		return nil, err
	}

	var typed v1alpha1.ClusterServiceVersion
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(csv.Object, &typed); err != nil {
		return nil, invalid("bundle CSV %s is none: %v", csv.GetName(), err)
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
		if isAccount(&object) && slices.ContainsFunc(permissions, same) {
			// The bundle has a manifest of an account that would be made anyhow.
			permissions = slices.DeleteFunc(permissions, same)
			object = *object.DeepCopy()
			object.SetOwnerReferences([]metav1.OwnerReference{csvinfo.OwnerReference(&typed)})
		}

		step, err := Of(&object, csv.GetName(), place)
		if err != nil {
			return nil, err
		}

		all = append(all, step)
	}

	all = append(all, permissions...)
	Sort(all)
	return all, nil
}

func isAccount(object *unstructured.Unstructured) bool {
	return object.GetKind() == kindServiceAccount && object.GetAPIVersion() == corev1.SchemeGroupVersion.String()
}

// csv is the ClusterServiceVersion as it is installed.
func (b *Bundle) csv(namespace string) (*unstructured.Unstructured, error) {
	csv := b.CSV.DeepCopy()
	switch {
	case csv.Object == nil || csv.GetName() == "":
		return nil, invalid("the bundle has no ClusterServiceVersion with a name")
	case csv.GetAPIVersion() == "":
		return nil, invalid("bundle CSV %s missing APIVersion", csv.GetName())
	case csv.GetKind() == "":
		return nil, invalid("bundle CSV %s missing Kind", csv.GetName())
	}

	// The kind decides, as for the loader of bundles: some authors write another group.
	csv.SetAPIVersion(v1alpha1.GroupVersion.String())
	csv.SetKind(v1alpha1.ClusterServiceVersionKind)
	csv.SetNamespace(namespace)
	delete(csv.Object, "status")
	if _, ok := csv.Object["spec"].(map[string]any); !ok {
		return nil, invalid("bundle CSV %s has no spec", csv.GetName())
	}

	unstructured.RemoveNestedField(csv.Object, "spec", "replaces")
	if b.Replaces != "" {
		_ = unstructured.SetNestedField(csv.Object, b.Replaces, "spec", "replaces") // spec is a map
	}
	if b.Properties != "" {
		annotations := csvinfo.With(csv.GetAnnotations(), map[string]string{csvinfo.AnnotationProperties: b.Properties})
		csv.SetAnnotations(annotations)
	}

	return csv, nil
}
