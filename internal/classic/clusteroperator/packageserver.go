package clusteroperator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

// LabelName is the label of the ClusterServiceVersion that a ClusterOperator reports of. Its value is the
// name of the ClusterOperator.
const LabelName = "olm.clusteroperator.name"

const (
	reasonSucceeded    = "ClusterServiceVersionSucceeded"
	reasonNotSucceeded = "ClusterServiceVersionNotSucceeded"
	reasonDeleted      = "ClusterServiceVersionDeleted"
)

// current chooses the ClusterServiceVersion to report of: the newest one that no other is replacing.
// It is nil when there is none.
func current(list []v1alpha1.ClusterServiceVersion) *v1alpha1.ClusterServiceVersion {
	rank := func(csv *v1alpha1.ClusterServiceVersion) int {
		if !csv.DeletionTimestamp.IsZero() || csv.Status.Phase == v1alpha1.CSVPhaseReplacing || csv.Status.Phase == v1alpha1.CSVPhaseDeleting {
			return 0
		}
		return 1
	}

	var candidates []*v1alpha1.ClusterServiceVersion
	for i := range list {
		candidates = append(candidates, &list[i])
	}

	if len(candidates) == 0 {
		return nil
	}

	return slices.MaxFunc(candidates, func(a, b *v1alpha1.ClusterServiceVersion) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// settle is how long a ClusterServiceVersion that has been changed is not believed to have succeeded, unless it
// did something else before: its controller may have yet to see the change.
const settle = 10 * time.Second

// change remembers the change of a ClusterServiceVersion from the version that is reported to another.
type change struct {
	to    string
	since time.Time
	// isSeen reports whether the phase shows that its controller saw it.
	isSeen bool
}

// isEarly reports whether a ClusterServiceVersion that says that it succeeded may say so of the release before: it
// is still that of the release which was reported last, or has only just been changed. again is how long to
// wait then, unless something changes.
func (c *change) isEarly(csv *v1alpha1.ClusterServiceVersion, last *configv1.ClusterOperatorStatus, release string, now time.Time) (is bool, again time.Duration) {
	if csv == nil {
		return false, 0
	}

	version, reported := string(csv.Spec.Version), operatorstatus.VersionOf(last, csv.Name)
	if reported == "" || reported == version {
		*c = change{}
		return reported != "" && release != version && operatorstatus.VersionOf(last, operatorstatus.VersionName) == version, 0
	}
	if c.to != version {
		*c = change{to: version, since: now}
	}

	c.isSeen = c.isSeen || csv.Status.Phase != v1alpha1.CSVPhaseSucceeded
	left := c.since.Add(settle).Sub(now)
	if c.isSeen || left <= 0 {
		return false, 0
	}

	return true, left
}

// installed is what a ClusterOperator says of what a ClusterServiceVersion installs.
type installed struct {
	// csv is nil when there is none.
	csv *v1alpha1.ClusterServiceVersion
	// release is the version of the platform.
	release string
	// isEarly: that it succeeded is not about this release.
	isEarly bool
	now     metav1.Time
}

// fill writes the report into a status, which holds the last one.
func (r *installed) fill(status *configv1.ClusterOperatorStatus) {
	set := func(conditionType string, is metav1.ConditionStatus, reason, message string) {
		operatorstatus.Set(&status.Conditions, configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: is, Reason: reason, Message: message}, r.now)
	}
	set(configv1.OperatorDegraded, metav1.ConditionFalse, configv1.ReasonAsExpected, "")
	set(configv1.OperatorUpgradeable, metav1.ConditionTrue, configv1.ReasonAsExpected, "Safe to upgrade")
	if r.csv == nil {
		r.fillDeleted(status, set)
		return
	}

	group := v1alpha1.GroupVersion.Group
	status.RelatedObjects = []configv1.ObjectReference{
		{Resource: "namespaces", Name: r.csv.Namespace},
		{Group: group, Resource: "clusterserviceversions", Namespace: r.csv.Namespace, Name: r.csv.Name},
	}
	version := string(r.csv.Spec.Version)
	observed := fmt.Sprintf("ClusterServiceVersion %s/%s observed in phase %s", r.csv.Namespace, r.csv.Name, cmp.Or(r.csv.Status.Phase, "None"))
	why := fmt.Sprintf("%s with reason: %s, message: %s", observed, r.csv.Status.Reason, r.csv.Status.Message)
	phase := r.csv.Status.Phase
	if r.isEarly && phase == v1alpha1.CSVPhaseSucceeded {
		phase, version = v1alpha1.CSVPhasePending, r.release
	}

	switch phase {
	case v1alpha1.CSVPhaseSucceeded:
		status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: r.release}, {Name: r.csv.Name, Version: version}}
		set(configv1.OperatorAvailable, metav1.ConditionTrue, reasonSucceeded, observed)
		set(configv1.OperatorProgressing, metav1.ConditionFalse, configv1.ReasonAsExpected, "Deployed version "+version)
	case v1alpha1.CSVPhaseFailed:
		set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonNotSucceeded, why)
		set(configv1.OperatorProgressing, metav1.ConditionFalse, reasonNotSucceeded, "Failed to deploy "+version)
	default:
		// What runs goes on running while the installation of another version is under way: an update
		// of the cluster is no outage.
		if operatorstatus.Find(status.Conditions, configv1.OperatorAvailable) == nil {
			set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonNotSucceeded, why)
		}
		set(configv1.OperatorProgressing, metav1.ConditionTrue, reasonNotSucceeded, "Working toward "+version)
	}
}

// fillDeleted says that there is no ClusterServiceVersion: it was removed, or is yet to come.
func (r *installed) fillDeleted(status *configv1.ClusterOperatorStatus, set func(string, metav1.ConditionStatus, string, string)) {
	status.RelatedObjects = nil
	if len(status.Versions) == 0 {
		set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonNotSucceeded, "No ClusterServiceVersion is there yet")
		set(configv1.OperatorProgressing, metav1.ConditionTrue, reasonNotSucceeded, "Working toward "+r.release)
		return
	}

	last := ""
	for _, v := range status.Versions {
		if v.Name != operatorstatus.VersionName {
			last = v.Name + " " + v.Version
		}
	}

	set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonDeleted, "Uninstalled version "+last)
	set(configv1.OperatorProgressing, metav1.ConditionFalse, reasonDeleted, "The ClusterServiceVersion of "+last+" was deleted")
}
