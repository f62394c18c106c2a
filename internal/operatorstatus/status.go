// Package operatorstatus writes ClusterOperators: by them the parts of a cluster report how they
// are, and whoever updates the cluster waits for what they say.
//
// It knows how such a report is kept: the object is made where it is missing, a condition keeps its
// time while its status stays, and what has not changed is not written. What is said, each part
// says for itself.
package operatorstatus

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// VersionName is the name of the version that updates of the cluster wait for.
const VersionName = "operator"

// Set puts a condition into its place. Its time changes with its status alone; conditions of other
// types stay.
func Set(conditions *[]configv1.ClusterOperatorStatusCondition, c configv1.ClusterOperatorStatusCondition, now metav1.Time) {
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

// Find returns the condition of a type; nil when there is none.
func Find(conditions []configv1.ClusterOperatorStatusCondition, conditionType string) *configv1.ClusterOperatorStatusCondition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// VersionOf returns the version of a name, which is empty when none is reported.
func VersionOf(status *configv1.ClusterOperatorStatus, name string) string {
	for _, v := range status.Versions {
		if v.Name == name {
			return v.Version
		}
	}
	return ""
}
