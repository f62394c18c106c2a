package updatestatus

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

var testNow = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// newHistoryEntry returns an update that completed, or was superseded, after a duration.
func newHistoryEntry(state configv1.UpdateState, d time.Duration) configv1.UpdateHistory {
	ended := metav1.NewTime(testNow.Add(d))
	return configv1.UpdateHistory{State: state, StartedTime: metav1.NewTime(testNow), CompletionTime: &ended}
}

func TestPreviousUpdateDuration(t *testing.T) {
	running := configv1.UpdateHistory{State: configv1.PartialUpdate, StartedTime: metav1.NewTime(testNow)}
	installed := newHistoryEntry(configv1.CompletedUpdate, 40*time.Minute)
	for name, test := range map[string]struct {
		history []configv1.UpdateHistory
		want    time.Duration
	}{
		"installing":                        {[]configv1.UpdateHistory{running}, time.Hour},
		"the first update":                  {[]configv1.UpdateHistory{running, installed}, time.Hour},
		"the second":                        {[]configv1.UpdateHistory{running, newHistoryEntry(configv1.CompletedUpdate, 90*time.Minute), installed}, 90 * time.Minute},
		"one in between was superseded":     {[]configv1.UpdateHistory{running, newHistoryEntry(configv1.PartialUpdate, 5*time.Minute), newHistoryEntry(configv1.CompletedUpdate, 70*time.Minute), installed}, 70 * time.Minute},
		"all in between were superseded":    {[]configv1.UpdateHistory{running, newHistoryEntry(configv1.PartialUpdate, 5*time.Minute), installed}, time.Hour},
		"the newest complete one is chosen": {[]configv1.UpdateHistory{running, newHistoryEntry(configv1.CompletedUpdate, 30*time.Minute), newHistoryEntry(configv1.CompletedUpdate, 70*time.Minute), installed}, 30 * time.Minute},
	} {
		if got := previousUpdateDuration(test.history); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestEstimateUpdateDuration(t *testing.T) {
	for _, test := range []struct {
		elapsed, observed time.Duration
		completion        float64
		want              time.Duration
	}{
		// The previous update is the estimate until there is progress.
		{4 * time.Minute, 4 * time.Minute, 0.97, time.Hour},
		{30 * time.Minute, 30 * time.Minute, 0, time.Hour},
		{30 * time.Minute, 30 * time.Minute, 0.01, time.Hour},
		{50 * time.Minute, 42 * time.Minute, 0.97, time.Hour},
		{30 * time.Minute, 12 * time.Minute, 0.1, 62 * time.Minute},
		{30 * time.Minute, 20 * time.Minute, 0.5, 51 * time.Minute},
		// The end is near.
		{30 * time.Minute, 10 * time.Minute, 1, 30 * time.Minute},
	} {
		got := estimateUpdateDuration(time.Hour, test.elapsed, test.observed, test.completion)
		if math.Abs(float64(got-test.want)) > float64(time.Minute) {
			t.Errorf("%s after %s with %.0f%% updated: got %s, want about %s", test.observed, test.elapsed, 100*test.completion, got, test.want)
		}
	}
}

// A quarter of the operators is updated quickly, most of the others at once, and the last
// ones take longest. With 97 of 100 updated, about two thirds of the time have elapsed.
func TestElapsedTimeFraction(t *testing.T) {
	for percent, want := range map[int]float64{
		5: 0.091, 10: 0.194, 20: 0.342, 25: 0.382, 30: 0.389, 40: 0.391, 50: 0.390, 60: 0.394, 70: 0.408, 80: 0.433, 89: 0.459, 90: 0.479, 95: 0.689, 97: 0.698, 99: 0.832,
	} {
		if got := elapsedTimeFraction(float64(percent) / 100); math.Abs(got-want) > 0.001 {
			t.Errorf("with %d%% of the operators updated: got %.4f of the time, want %.3f", percent, got, want)
		}
	}

	for percent := 2; percent < 100; percent++ {
		if a, b := elapsedTimeFraction(float64(percent)/100), elapsedTimeFraction(float64(percent+1)/100); b < a-0.01 || a <= 0 {
			t.Errorf("from %d to %d percent of the operators: got a time from %f to %f", percent, percent+1, a, b)
		}
	}
}

// While only the nodes remain, the start of their update counts as progress.
func TestEstimateWithOnlyNodesLeft(t *testing.T) {
	operators := func(others ...configv1.ClusterOperator) []configv1.ClusterOperator {
		for i := range others {
			others[i].Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: "1.1.0"}}
		}
		return append(others, newOperator("machine-config", newCondition("Progressing", "True", 20)))
	}

	waiting := newOperator("other")
	for name, test := range map[string]struct {
		operators []configv1.ClusterOperator
		want      time.Duration
	}{
		// Half of the operators take 0.3895 of the time: 40 minutes, or 10 without the nodes.
		"nodes alone":       {operators(newOperator("dns", newCondition("Progressing", "False", 50))), 103 * time.Minute},
		"another one waits": {append(operators(newOperator("dns", newCondition("Progressing", "False", 50)), newOperator("etcd", newCondition("Progressing", "False", 50))), waiting), 26 * time.Minute},
	} {
		status := Assess(Input{ClusterVersion: newUpdatingClusterVersion(), Operators: test.operators, Now: testNow})
		if got := status.ControlPlane.Estimate.Round(time.Minute); got != test.want {
			t.Errorf("%s: got an estimate of %s, want %s", name, got, test.want)
		}
	}
}

func TestAssessRemainingTime(t *testing.T) {
	for _, test := range []struct {
		left      time.Duration
		remaining time.Duration
		want      Assessment
	}{
		{time.Hour, 72 * time.Minute, Progressing},
		{5 * time.Minute, 6 * time.Minute, Progressing},
		{0, 0, Progressing},
		{-6 * time.Minute, -5 * time.Minute, Slow},
		{-12 * time.Minute, -10 * time.Minute, Slow},
		{-24 * time.Minute, -20 * time.Minute, Stalled},
	} {
		remaining := stretchEstimate(test.left)
		if got := assessRemainingTime(remaining); got != test.want || remaining != test.remaining {
			t.Errorf("%s left: got %s, %s; want %s, %s", test.left, remaining, got, test.remaining, test.want)
		}
	}
}

// The first reason that applies determines the text about the end of an update.
func TestOutlook(t *testing.T) {
	for _, test := range []struct {
		assessment Assessment
		multiArch  bool
		remaining  time.Duration
		want       Outlook
	}{
		{Completed, true, time.Hour, OutlookDone},
		{Stalled, true, -time.Hour, OutlookUnknown},
		{Stalled, false, -time.Hour, OutlookExceeded},
		{Slow, false, -time.Minute, OutlookSoon},
		{Progressing, false, 9 * time.Minute, OutlookSoon},
		{Progressing, false, 10 * time.Minute, OutlookEstimated},
	} {
		c := &ControlPlane{Assessment: test.assessment, MultiArch: test.multiArch, Remaining: metav1.Duration{Duration: test.remaining}}
		if got := c.Outlook(); got != test.want {
			t.Errorf("%s, multi-arch %v, %s remaining: got %s, want %s", test.assessment, test.multiArch, test.remaining, got, test.want)
		}
	}
}
