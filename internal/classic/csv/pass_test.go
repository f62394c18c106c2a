package csv

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/requirements"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// One pass writes the labels first, then the changes that the OperatorGroup requires, then the phase.
func TestDecidePass(t *testing.T) {
	newCSV := func(edit ...func(*v1alpha1.ClusterServiceVersion)) *v1alpha1.ClusterServiceVersion {
		csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "home", Name: "op", Labels: map[string]string{"kept": "x"}}}
		for _, e := range edit {
			e(csv)
		}
		return csv
	}
	provides := func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.CustomResourceDefinitions.Owned = []v1alpha1.CRDDescription{{Name: "things.example.com", Version: "v1", Kind: "Thing"}}
	}
	isCopy := func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Labels = map[string]string{csvinfo.LabelCopiedFrom: "other"}
	}
	deploys := func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
	}
	lacksRights := func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Status.Reason = v1alpha1.CSVReasonComponentFailedNoRetry
	}
	apis := "Thing.v1.example.com"
	refused := transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonNoOperatorGroup, "none")
	pending := transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsUnknown, "requirements not yet checked")
	unmet := transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonRequirementsNotMet, "one or more requirements couldn't be found")
	unmet.RequeueAfter = requirementsResyncInterval
	ready := transitionTo(v1alpha1.CSVPhaseInstallReady, v1alpha1.CSVReasonRequirementsMet, "all requirements found, attempting install")
	for name, c := range map[string]struct {
		csv   *v1alpha1.ClusterServiceVersion
		facts facts
		want  decision
		// labels is true when the labels of the APIs are set.
		labels bool
	}{
		"a new one with requirements that are not met": {
			csv: newCSV(), facts: facts{phase: &Facts{Requirements: &requirements.Result{}}}, want: decision{passed: []Outcome{pending}, Outcome: unmet},
		},
		"a new one": {
			csv: newCSV(deploys), facts: facts{phase: &Facts{Requirements: &requirements.Result{Met: true}}},
			want: decision{passed: []Outcome{pending, ready}, Outcome: Outcome{Action: DoInstall}},
		},
		"the labels of its APIs":     {csv: newCSV(provides), labels: true},
		"a copied CSV":               {csv: newCSV(provides, isCopy)},
		"a CSV without permissions":  {csv: newCSV(lacksRights)},
		"labels without permissions": {csv: newCSV(lacksRights, provides), labels: true},
		"refused":                    {csv: newCSV(), facts: facts{admission: Admission{Stop: true, Outcome: refused}}, want: decision{Outcome: refused}},
		"annotations of the group": {
			csv: newCSV(), facts: facts{admission: Admission{Stop: true, Annotations: map[string]string{"a": "b"}}},
			want: decision{annotations: map[string]string{"a": "b"}},
		},
		"APIs of the group": {csv: newCSV(), facts: facts{admission: Admission{Stop: true, ProvidedAPIs: &apis}}, want: decision{providedAPIs: &apis}},
		"APIs of another group": {
			csv: newCSV(), facts: facts{admission: Admission{Stop: true, Outcome: refused, DeleteDeployments: true}},
			want: decision{Outcome: refused, deleteDeployments: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := *decide(c.csv, &c.facts)
			if (got.labels != nil) != c.labels || c.labels && (got.labels["kept"] != "x" || len(got.labels) < 2) {
				t.Errorf("labels %v, want labels of APIs: %t", got.labels, c.labels)
			}
			got.labels = nil
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(decision{}, certificateTimes{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A pass that failed changes no status. One that succeeded reports a change of phase or reason.
func TestReport(t *testing.T) {
	r := &csvController{clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))}
	csv := &v1alpha1.ClusterServiceVersion{}
	failed := &decision{Outcome: transitionTo(v1alpha1.CSVPhaseFailed, v1alpha1.CSVReasonOwnerConflict, "taken")}
	if events := r.report(csv, nil, failed, errors.New("no answer")); len(events) > 0 || csv.Status.Phase != "" {
		t.Errorf("a failed pass: got the events %v and the phase %q", events, csv.Status.Phase)
	}
	if events := r.report(csv, nil, failed, nil); len(events) != 1 || !events[0].Warning || events[0].Note != "taken" || csv.Status.Phase != v1alpha1.CSVPhaseFailed {
		t.Errorf("a successful pass: got the events %v and the phase %q", events, csv.Status.Phase)
	}

	csv.Status = v1alpha1.ClusterServiceVersionStatus{}
	interrupted := &decision{passed: []Outcome{transitionTo(v1alpha1.CSVPhaseInstallReady, v1alpha1.CSVReasonRequirementsMet, "ready")}, Outcome: failed.Outcome}
	if events := r.report(csv, nil, interrupted, errors.New("no answer")); len(events) != 1 || csv.Status.Phase != v1alpha1.CSVPhaseInstallReady {
		t.Errorf("a pass that failed after a phase: got the events %v and the phase %q", events, csv.Status.Phase)
	}
	if events := r.report(csv, nil, failed, nil); len(events) != 1 || csv.Status.Phase != v1alpha1.CSVPhaseFailed {
		t.Errorf("the next pass: got the events %v and the phase %q", events, csv.Status.Phase)
	}

	csv.Status = v1alpha1.ClusterServiceVersionStatus{}
	if events := r.report(csv, nil, interrupted, nil); len(events) != 2 || events[0].Reason != v1alpha1.CSVReasonRequirementsMet || len(csv.Status.Conditions) != 2 {
		t.Errorf("a pass with two phases: got the events %v and the conditions %+v, want an event and a condition for each", events, csv.Status.Conditions)
	}

	failed.Message = "still taken"
	if events := r.report(csv, nil, failed, nil); len(events) > 0 || csv.Status.Message != "still taken" {
		t.Errorf("another message: got the events %v and the message %q", events, csv.Status.Message)
	}
}
