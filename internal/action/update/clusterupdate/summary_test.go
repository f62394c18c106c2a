package clusterupdate_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
)

// newClusterVersion returns a ClusterVersion at 1.4.2 with conditions, as TYPE=STATUS or TYPE=STATUS/REASON.
func newClusterVersion(conditions ...string) *configv1.ClusterVersion {
	cv := &configv1.ClusterVersion{}
	cv.Status.Desired.Version = "1.4.2"
	for _, text := range conditions {
		name, value, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(value, "/")
		cv.Status.Conditions = append(cv.Status.Conditions, configv1.ClusterOperatorStatusCondition{Type: name, Status: metav1.ConditionStatus(status), Reason: reason, Message: name + " message"})
	}
	return cv
}

// The first state that applies is shown, in the order of severity.
func TestSummarize(t *testing.T) {
	all := []string{"Invalid=True", "ReleaseAccepted=False", "Progressing=True", "Failing=True", "RetrievedUpdates=False"}
	for _, test := range []struct {
		conditions []string
		available  []string
		want       clusterupdate.State
		person     bool
	}{
		{all, nil, clusterupdate.StateInvalid, true},
		{all[1:], nil, clusterupdate.StateNotAccepted, true},
		{all[2:], nil, clusterupdate.StateUpdatingFailing, true},
		{all[3:], nil, clusterupdate.StateFailing, true},
		{[]string{"Progressing=True", "RetrievedUpdates=False"}, nil, clusterupdate.StateUpdating, false},
		{all[4:], []string{"1.4.3"}, clusterupdate.StateNotRetrieving, true},
		{[]string{"RetrievedUpdates=False/NoChannel"}, nil, clusterupdate.StateNoChannel, false},
		{nil, []string{"1.4.3", "1.4.10"}, clusterupdate.StateUpdatesAvailable, false},
		{[]string{"Failing=False"}, nil, clusterupdate.StateUpToDate, false},
	} {
		cv := newClusterVersion(test.conditions...)
		for _, version := range test.available {
			cv.Status.AvailableUpdates = append(cv.Status.AvailableUpdates, configv1.Release{Version: version})
		}
		got := clusterupdate.Summarize(cv)
		if got.State != test.want || got.NeedsPerson() != test.person || !strings.HasSuffix(got.Text, ".") {
			t.Errorf("%v: got %+v, needs attention %v; want %s, %v", test.conditions, got, got.NeedsPerson(), test.want, test.person)
		}
		if test.want == clusterupdate.StateUpdatesAvailable && !strings.Contains(got.Text, "1.4.10") {
			t.Errorf("got %q, want the newest update", got.Text)
		}
	}

	if got := clusterupdate.Summarize(&configv1.ClusterVersion{}); got.State != clusterupdate.StateNotReconciled || !got.NeedsPerson() {
		t.Errorf("got %+v for a new ClusterVersion, want that nothing reconciles it", got)
	}
}

func TestDescribeOperator(t *testing.T) {
	for _, test := range []struct {
		conditions []string
		want       clusterupdate.OperatorState
	}{
		{[]string{"Available=False", "Degraded=True", "Upgradeable=False"}, clusterupdate.OperatorCannotUpdate},
		{[]string{"Available=False", "Degraded=True"}, clusterupdate.OperatorUnavailable},
		{[]string{"Available=True", "Progressing=True", "Degraded=True"}, clusterupdate.OperatorDegraded},
		{[]string{"Available=True", "Progressing=True"}, clusterupdate.OperatorProgressing},
		{[]string{"Available=True", "Upgradeable=True"}, clusterupdate.OperatorAvailable},
		{[]string{"Available=Unknown"}, clusterupdate.OperatorUnknown},
	} {
		operator := &configv1.ClusterOperator{}
		operator.Status.Conditions = newClusterVersion(test.conditions...).Status.Conditions
		if got := clusterupdate.DescribeOperator(operator); got.State != test.want || got.Text == "" {
			t.Errorf("%v: got %+v, want %s", test.conditions, got, test.want)
		}
	}
}
