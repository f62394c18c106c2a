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
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

const (
	// maxRecordedCRDBytes limits the names of CRDs that are recorded on a revision. With the other
	// annotations they stay below the 256 KiB that an object may have.
	maxRecordedCRDBytes = 32 << 10
	// maxNamedCRDs is how many CRDs a condition names. It states only the number of the others.
	maxNamedCRDs = 10
)

// recordCRDNames adds the names of the CRDs among the objects to the annotations of their
// revision, up to maxRecordedCRDBytes.
func recordCRDNames(annotations map[string]string, objects []unstructured.Unstructured) {
	var names []string
	size := 0
	for i := range objects {
		if key := apply.KeyOf(&objects[i]); key.IsCRD() && size+len(key.Name) < maxRecordedCRDBytes {
			names = append(names, key.Name)
			size += len(key.Name) + len(",")
		}
	}

	if len(names) > 0 {
		slices.Sort(names)
		annotations[olmv1.AnnotationCRDs] = strings.Join(names, ",")
	}
}

// keepsCRDs reports whether the CRDs of an extension are kept when it is deleted.
func keepsCRDs(ext *olmv1.ClusterExtension) bool {
	return ext.Annotations[olmv1.AnnotationKeepCRDs] == "true"
}

// reportCRDDeletion sets the condition that states whether the deletion of the extension would
// delete its CRDs. An extension without CRDs does not have the condition.
func reportCRDDeletion(ext *olmv1.ClusterExtension, revs revisions) {
	var names []string
	active := revs.active()
	for i := range active {
		names = append(names, recordedCRDNames(&active[i])...)
	}

	if len(names) == 0 {
		meta.RemoveStatusCondition(&ext.Status.Conditions, olmv1.TypeDeletesCRDs)
		return
	}

	slices.Sort(names)
	setCondition(ext, newDeletesCRDsCondition(slices.Compact(names), keepsCRDs(ext)))
}

// recordedCRDNames returns the names of the CRDs of a revision from its annotation. A revision
// from before the annotation existed is searched for CRDs among its inline objects.
func recordedCRDNames(set *olmv1.ClusterObjectSet) []string {
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

// newDeletesCRDsCondition returns the condition DeletesCRDs. It is True if the deletion of the
// extension would delete its CRDs.
func newDeletesCRDsCondition(names []string, kept bool) metav1.Condition {
	listed := excerpt.Join(names, maxNamedCRDs, ", ", " and ")
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
