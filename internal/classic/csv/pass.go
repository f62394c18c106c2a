package csv

import (
	"maps"
	"time"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// decision is what one pass does for a ClusterServiceVersion.
type decision struct {
	// Outcome is recorded in the status. The result of an installation replaces it.
	Outcome
	// passed are the outcomes that are recorded before it, in phases that need no further facts.
	passed []Outcome
	// labels and annotations, if not nil, replace those of the ClusterServiceVersion. The update triggers the next pass.
	labels, annotations map[string]string
	// providedAPIs, if not nil, is the list of APIs to set in the annotation of the group.
	providedAPIs *string
	// deleteDeployments has the Deployments deleted, since other operators provide the APIs.
	deleteDeployments bool
	// certificates are the times of the installed certificates. The installation sets them if they are new.
	certificates *certificateTimes
}

// certificateTimes are the times at which certificates were issued and must be renewed.
type certificateTimes struct{ updated, rotateAt time.Time }

// hasPhaseDecision reports whether the phase of a ClusterServiceVersion is decided. The phase of a copied CSV follows
// that of its source, and the one of an installation that lacks rights stays until the rights change. A
// ClusterServiceVersion gets the labels of its APIs first, and none if the APIs are invalid.
func hasPhaseDecision(csv *v1alpha1.ClusterServiceVersion) bool {
	if csvinfo.IsCopied(csv) || csv.Status.Reason == v1alpha1.CSVReasonComponentFailedNoRetry {
		return false
	}
	_, changed, err := withAPILabels(csv)
	return err == nil && !changed
}

// withAPILabels returns the labels of a ClusterServiceVersion with those of its APIs. changed is true when they differ
// from the present ones.
func withAPILabels(csv *v1alpha1.ClusterServiceVersion) (labels map[string]string, changed bool, err error) {
	wanted, err := csvinfo.APILabels(csv)
	if err != nil {
		return nil, false, err
	}

	others := maps.Clone(csv.Labels)
	maps.DeleteFunc(others, func(key, _ string) bool { return csvinfo.IsAPILabel(key) })
	labels = csvinfo.MergeLabels(others, wanted)
	return labels, !maps.Equal(labels, csv.Labels), nil
}

// decide returns what one pass does for a ClusterServiceVersion.
func decide(csv *v1alpha1.ClusterServiceVersion, f *facts) *decision {
	d := &decision{}
	if labels, changed, err := withAPILabels(csv); err == nil && changed && !csvinfo.IsCopied(csv) {
		d.labels = labels
		return d
	}
	if !hasPhaseDecision(csv) {
		return d
	}

	if f.admission.Stop {
		d.Outcome, d.annotations = f.admission.Outcome, f.admission.Annotations
		d.providedAPIs, d.deleteDeployments = f.admission.ProvidedAPIs, f.admission.DeleteDeployments
		return d
	}

	d.passed, d.Outcome = decidePhases(csv, f.phase)
	return d
}

// decidePhases decides one phase after the other, up to one that has to be reported or carried out before the next. passed
// are the outcomes before the last one. A new ClusterServiceVersion whose requirements are met is installed in its first
// pass.
func decidePhases(csv *v1alpha1.ClusterServiceVersion, f *Facts) (passed []Outcome, last Outcome) {
	next := &v1alpha1.ClusterServiceVersion{ObjectMeta: csv.ObjectMeta, Spec: csv.Spec}
	csv.Status.DeepCopyInto(&next.Status)
	for {
		o := Decide(next, f)
		isNext := next.Status.Phase == v1alpha1.CSVPhaseNone && o.Phase == v1alpha1.CSVPhasePending ||
			next.Status.Phase == v1alpha1.CSVPhasePending && o.Phase == v1alpha1.CSVPhaseInstallReady
		if !isNext {
			return passed, o
		}

		passed = append(passed, o)
		RecordOutcome(&next.Status, o, f.Now)
	}
}
