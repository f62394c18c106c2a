package install

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
)

const (
	// maxCRDs bounds the names of CRDs that are recorded on a revision, in bytes. With the
	// other annotations they stay below the 256 KiB that an object may have.
	maxCRDs = 32 << 10
	// namedCRDs is how many CRDs a condition names; of the others it gives the number.
	namedCRDs = 10
)

// recordCRDs adds the names of the CRDs among the objects to the annotations of their
// revision, as many as may be recorded.
func recordCRDs(annotations map[string]string, objects []unstructured.Unstructured) {
	var names []string
	size := 0
	for i := range objects {
		if key := apply.KeyOf(&objects[i]); key.IsCRD() && size+len(key.Name) < maxCRDs {
			names = append(names, key.Name)
			size += len(key.Name) + len(",")
		}
	}

	if len(names) > 0 {
		slices.Sort(names)
		annotations[olmv1.AnnotationCRDs] = strings.Join(names, ",")
	}
}

// keepsCRDs reports whether the CRDs of an extension stay when it is deleted.
func keepsCRDs(ext *olmv1.ClusterExtension) bool {
	return ext.Annotations[olmv1.AnnotationKeepCRDs] == "true"
}

// reportCRDs sets the condition that says, before anybody asks for the deletion of the
// extension, what would become of its CRDs. An extension without CRDs has no such condition.
func reportCRDs(ext *olmv1.ClusterExtension, revs revisions) {
	var names []string
	active := revs.active()
	for i := range active {
		names = append(names, crdsOf(&active[i])...)
	}

	if len(names) == 0 {
		meta.RemoveStatusCondition(&ext.Status.Conditions, olmv1.TypeDeletesCRDs)
		return
	}

	slices.Sort(names)
	setCondition(ext, deletesCRDs(slices.Compact(names), keepsCRDs(ext)))
}

// crdsOf returns the names of the CRDs of a revision: those that are recorded on it, or, on one
// that was made before they were recorded, those among the objects that it holds in place.
func crdsOf(set *olmv1.ClusterObjectSet) []string {
	if recorded := set.Annotations[olmv1.AnnotationCRDs]; recorded != "" {
		return strings.Split(recorded, ",")
	}

	var names []string
	for _, phase := range set.Spec.Phases {
		for _, object := range phase.Objects {
			if object.Object == nil {
				continue
			}
			if key := apply.KeyOf(object.Object); key.IsCRD() {
				names = append(names, key.Name)
			}
		}
	}

	return names
}

// deletesCRDs is True while the deletion of an extension would delete its CRDs.
func deletesCRDs(names []string, kept bool) metav1.Condition {
	listed := strings.Join(names[:min(len(names), namedCRDs)], ", ")
	if more := len(names) - namedCRDs; more > 0 {
		listed += fmt.Sprintf(" and %d more", more)
	}

	if kept {
		return metav1.Condition{
			Type: olmv1.TypeDeletesCRDs, Status: metav1.ConditionFalse, Reason: olmv1.ReasonCRDsKept,
			Message: fmt.Sprintf("When this extension is deleted, its CRDs stay, and so do all custom resources: %s", listed),
		}
	}

	return metav1.Condition{
		Type: olmv1.TypeDeletesCRDs, Status: metav1.ConditionTrue, Reason: olmv1.ReasonCRDsOwned,
		Message: fmt.Sprintf("When this extension is deleted, its CRDs are deleted, and with them every custom resource of their kinds: %s. To keep them, set the annotation %s: \"true\" first",
			listed, olmv1.AnnotationKeepCRDs),
	}
}
