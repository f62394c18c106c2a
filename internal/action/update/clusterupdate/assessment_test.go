package clusterupdate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
)

// The assessment of an update counts the issues that are not accepted, and distinguishes the issues of its release from those
// that the cluster reports.
func TestAssessment(t *testing.T) {
	cv := &configv1.ClusterVersion{}
	cv.Status.Desired.Version = "1.4.2"
	cv.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.OperatorUpgradeable, Status: metav1.ConditionFalse, Message: "Agree first."}}
	cv.Status.AvailableUpdates = []configv1.Release{{Version: "1.4.3"}, {Version: "1.5.0"}}
	conditional := func(version string, status metav1.ConditionStatus, reason string) configv1.ConditionalUpdate {
		return configv1.ConditionalUpdate{
			Release:    configv1.Release{Version: version},
			Conditions: []metav1.Condition{{Type: configv1.ConditionalUpdateRecommended, Status: status, Reason: reason}},
		}
	}
	cv.Status.ConditionalUpdates = []configv1.ConditionalUpdate{
		conditional("1.4.4", metav1.ConditionFalse, "SlowDisks"), conditional("1.4.5", metav1.ConditionUnknown, "NoAnswer"), conditional("1.4.6", metav1.ConditionFalse, "Accepted"),
	}

	type assessed struct {
		Assessment  clusterupdate.Assessment
		KnownIssues bool
	}
	got := map[string]assessed{}
	for _, option := range clusterupdate.Options(cv, []string{"Accepted"}) {
		got[option.Release.Version] = assessed{option.Assessment, option.KnownIssues}
	}
	want := map[string]assessed{
		"1.4.3": {clusterupdate.AssessmentRecommended, false},
		"1.4.4": {clusterupdate.AssessmentNotRecommended, true},
		"1.4.5": {clusterupdate.AssessmentUnknown, true},
		"1.4.6": {clusterupdate.AssessmentRecommended, true},
		"1.5.0": {clusterupdate.AssessmentBlocked, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("assessments (-want +got):\n%s", diff)
	}
}
