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

// LabelName is the label of the CSV that a ClusterOperator reports about. Its value is the name
// of the ClusterOperator.
const LabelName = "olm.clusteroperator.name"

const (
	reasonSucceeded    = "ClusterServiceVersionSucceeded"
	reasonNotSucceeded = "ClusterServiceVersionNotSucceeded"
	reasonDeleted      = "ClusterServiceVersionDeleted"
)

// selectReportedCSV returns the CSV to report about: the newest one that is not being replaced
// or deleted. It returns nil if the list is empty.
func selectReportedCSV(list []v1alpha1.ClusterServiceVersion) *v1alpha1.ClusterServiceVersion {
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

// staleSuccessTimeout is how long the phase Succeeded of a changed CSV is ignored, unless it
// was in another phase since the change: its controller may not have observed the change yet.
const staleSuccessTimeout = 10 * time.Second

// versionChange is a change of a CSV from the reported version to another.
type versionChange struct {
	version string
	since   time.Time
	// isObserved is set if the phase shows that the controller has observed the change.
	isObserved bool
}

// checkStaleSuccess updates the change and reports whether a succeeded CSV may still describe
// the previous release: it has the version reported last, or was changed only recently.
// requeueAfter is how long to wait then unless something changes.
func (c *versionChange) checkStaleSuccess(csv *v1alpha1.ClusterServiceVersion, last *configv1.ClusterOperatorStatus, release string, now time.Time) (isStale bool, requeueAfter time.Duration) {
	if csv == nil {
		return false, 0
	}

	version, reported := string(csv.Spec.Version), operatorstatus.VersionOf(last, csv.Name)
	if reported == "" || reported == version {
		*c = versionChange{}
		return reported != "" && release != version && operatorstatus.VersionOf(last, operatorstatus.VersionName) == version, 0
	}
	if c.version != version {
		*c = versionChange{version: version, since: now}
	}

	c.isObserved = c.isObserved || csv.Status.Phase != v1alpha1.CSVPhaseSucceeded
	remaining := c.since.Add(staleSuccessTimeout).Sub(now)
	if c.isObserved || remaining <= 0 {
		return false, 0
	}

	return true, remaining
}

// csvReport is the content of a ClusterOperator about the operator that a CSV installs.
type csvReport struct {
	// csv is nil if there is none.
	csv *v1alpha1.ClusterServiceVersion
	// release is the version of the platform.
	release string
	// isSuccessStale is set if the phase Succeeded is about an earlier release.
	isSuccessStale bool
	now            metav1.Time
}

// applyToStatus writes the report into a status, which holds the previous one.
func (r *csvReport) applyToStatus(status *configv1.ClusterOperatorStatus) {
	set := func(conditionType string, is metav1.ConditionStatus, reason, message string) {
		operatorstatus.SetCondition(&status.Conditions, configv1.ClusterOperatorStatusCondition{Type: conditionType, Status: is, Reason: reason, Message: message}, r.now)
	}
	set(configv1.OperatorDegraded, metav1.ConditionFalse, configv1.ReasonAsExpected, "")
	set(configv1.OperatorUpgradeable, metav1.ConditionTrue, configv1.ReasonAsExpected, "Safe to upgrade")
	if r.csv == nil {
		r.applyDeletedTo(status, set)
		return
	}

	group := v1alpha1.GroupVersion.Group
	status.RelatedObjects = []configv1.ObjectReference{
		{Resource: "namespaces", Name: r.csv.Namespace},
		{Group: group, Resource: "clusterserviceversions", Namespace: r.csv.Namespace, Name: r.csv.Name},
	}
	version := string(r.csv.Spec.Version)
	observed := fmt.Sprintf("ClusterServiceVersion %s/%s observed in phase %s", r.csv.Namespace, r.csv.Name, cmp.Or(r.csv.Status.Phase, "None"))
	details := fmt.Sprintf("%s with reason: %s, message: %s", observed, r.csv.Status.Reason, r.csv.Status.Message)
	phase := r.csv.Status.Phase
	if r.isSuccessStale && phase == v1alpha1.CSVPhaseSucceeded {
		phase, version = v1alpha1.CSVPhasePending, r.release
	}

	switch phase {
	case v1alpha1.CSVPhaseSucceeded:
		status.Versions = []configv1.OperandVersion{{Name: operatorstatus.VersionName, Version: r.release}, {Name: r.csv.Name, Version: version}}
		set(configv1.OperatorAvailable, metav1.ConditionTrue, reasonSucceeded, observed)
		set(configv1.OperatorProgressing, metav1.ConditionFalse, configv1.ReasonAsExpected, "Deployed version "+version)
	case v1alpha1.CSVPhaseFailed:
		set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonNotSucceeded, details)
		set(configv1.OperatorProgressing, metav1.ConditionFalse, reasonNotSucceeded, "Failed to deploy "+version)
	default:
		// The operator keeps running while another version is installed, so an update of the
		// cluster is not an outage.
		if configv1.FindCondition(status.Conditions, configv1.OperatorAvailable) == nil {
			set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonNotSucceeded, details)
		}
		set(configv1.OperatorProgressing, metav1.ConditionTrue, reasonNotSucceeded, "Working toward "+version)
	}
}

// applyDeletedTo reports that there is no CSV: it was deleted, or does not exist yet.
func (r *csvReport) applyDeletedTo(status *configv1.ClusterOperatorStatus, set func(string, metav1.ConditionStatus, string, string)) {
	status.RelatedObjects = nil
	if len(status.Versions) == 0 {
		set(configv1.OperatorAvailable, metav1.ConditionFalse, reasonNotSucceeded, "The ClusterServiceVersion does not exist yet")
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
