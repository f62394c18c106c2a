// Package operatorstatus writes ClusterOperators. The components of a cluster report their status by
// them, and an update of the cluster waits for it.
//
// The package is the only one that writes them. It creates a missing object, keeps the transition time of a
// condition while its status stays, and writes only changes. Each component decides what to report, and passes
// the Reporter a pure function that sets the report in a status.
package operatorstatus

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// VersionName is the name of the version that an update of the cluster waits for.
const VersionName = "operator"

// SetCondition sets a condition in a list. It changes the transition time only if the condition's status changes.
func SetCondition(conditions *[]configv1.ClusterOperatorStatusCondition, c configv1.ClusterOperatorStatusCondition, now metav1.Time) {
	c.LastTransitionTime = now.Rfc3339Copy()
	i := slices.IndexFunc(*conditions, func(o configv1.ClusterOperatorStatusCondition) bool { return o.Type == c.Type })
	if i < 0 {
		*conditions = append(*conditions, c)
		return
	}
	if (*conditions)[i].Status == c.Status {
		c.LastTransitionTime = (*conditions)[i].LastTransitionTime
	}

	(*conditions)[i] = c
}

// VersionOf returns the reported version with a name; empty when there is none.
func VersionOf(status *configv1.ClusterOperatorStatus, name string) string {
	for _, v := range status.Versions {
		if v.Name == name {
			return v.Version
		}
	}
	return ""
}
