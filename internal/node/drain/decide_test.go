package drain

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

func TestDecideRequest(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		desired, done string
		attempt       time.Time
		want          decision
	}{
		"no request":          {want: decision{action: actionForget}},
		"done":                {desired: "drain-x", done: "drain-x", want: decision{action: actionForget}},
		"an uncordon":         {desired: "uncordon-x", done: "drain-x", want: decision{action: actionUncordon}},
		"a drain":             {desired: "drain-x", attempt: now, want: decision{action: actionDrain}},
		"a drain in progress": {desired: "drain-x", attempt: now.Add(-time.Second), want: decision{action: actionDrain}},
		"between attempts": {
			desired: "drain-x", attempt: now.Add(time.Minute),
			want: decision{action: actionDrain, requeueAfter: time.Minute},
		},
		"an unknown request": {desired: "explode-x", want: decision{action: actionIgnore}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				mcfgv1.AnnotationDesiredDrain: test.desired, mcfgv1.AnnotationLastAppliedDrain: test.done,
			}}}
			got := decideRequest(node, facts{now: now, progress: drainProgress{attempt: test.attempt}})
			if diff := cmp.Diff(&test.want, got, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("the decision differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAssessAttempt(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	refused := []refusedEviction{{pod: "a/b", why: "budget"}}
	for name, test := range map[string]struct {
		progress drainProgress
		refused  []refusedEviction
		after    time.Duration
		events   []string
		reason   bool
	}{
		"the first attempt":         {progress: drainProgress{begun: now, attempt: now}, refused: refused, after: initialCheckInterval},
		"refused for a while":       {progress: drainProgress{begun: now.Add(-blockedAfter), attempt: now.Add(-blockedAfter)}, refused: refused, after: checkInterval, reason: true},
		"slow pods":                 {progress: drainProgress{begun: now.Add(-blockedAfter), attempt: now.Add(-blockedAfter)}, after: checkInterval},
		"an attempt has ended":      {progress: drainProgress{begun: now.Add(-attemptTimeout), attempt: now.Add(-attemptTimeout)}, after: attemptRetryInterval, events: []string{"FailedToDrain"}, reason: true},
		"a slow drain":              {progress: drainProgress{begun: now.Add(-slowAfter), attempt: now.Add(-attemptTimeout)}, after: slowDrainRetryInterval, events: []string{"FailedToDrain", "DrainThresholdExceeded"}, reason: true},
		"a failed drain":            {progress: drainProgress{begun: now.Add(-failedAfter), attempt: now.Add(-attemptTimeout), slow: true}, after: slowDrainRetryInterval, events: []string{"FailedToDrain", "DrainFailed"}, reason: true},
		"a drain that stays failed": {progress: drainProgress{begun: now.Add(-failedAfter), attempt: now.Add(-attemptTimeout), slow: true, failed: true}, after: slowDrainRetryInterval, events: []string{"FailedToDrain"}, reason: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := assessAttempt("n", test.progress, now, 2, test.refused)
			var events []string
			for _, e := range got.events {
				events = append(events, e.Reason)
			}
			if diff := cmp.Diff(test.events, events); diff != "" {
				t.Errorf("the events differ (-want +got):\n%s", diff)
			}
			if got.requeueAfter != test.after || (got.progress.reason != "") != test.reason {
				t.Errorf("got requeue after %s and reason %q, want %s and a reason: %t", got.requeueAfter, got.progress.reason, test.after, test.reason)
			}
		})
	}
}

// If the clock was set back, so that the next attempt is further ahead than any retry interval, the drain starts again.
func TestProgressAfterTheClockWasSetBack(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for name, test := range map[string]struct{ known, want drainProgress }{
		"between attempts": {
			drainProgress{desired: "drain-x", begun: now.Add(-time.Hour), attempt: now.Add(slowDrainRetryInterval), slow: true},
			drainProgress{desired: "drain-x", begun: now.Add(-time.Hour), attempt: now.Add(slowDrainRetryInterval), slow: true},
		},
		"set back by a day": {
			drainProgress{desired: "drain-x", begun: now.Add(23 * time.Hour), attempt: now.Add(24 * time.Hour), slow: true, reason: "a pod"},
			drainProgress{desired: "drain-x", begun: now, attempt: now, slow: true, reason: "a pod"},
		},
		"another request": {
			drainProgress{desired: "drain-w", begun: now.Add(23 * time.Hour), attempt: now.Add(24 * time.Hour)},
			drainProgress{desired: "drain-x", begun: now, attempt: now},
		},
	} {
		t.Run(name, func(t *testing.T) {
			drains := drainTracker{nodes: map[string]drainProgress{node.Name: test.known}}
			got := drains.progressOf(node, "drain-x", now)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(drainProgress{})); diff != "" {
				t.Errorf("the progress differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribeRemainingPods(t *testing.T) {
	for _, tc := range []struct {
		going, refused int
		want           string
	}{
		{2, 0, "2 pods have not ended yet"},
		{1, 1, "pod p1 cannot be evicted: budget"},
		{9, 7, "pod p1 cannot be evicted: budget; pod p2 cannot be evicted: budget; pod p3 cannot be evicted: budget; " +
			"pod p4 cannot be evicted: budget; pod p5 cannot be evicted: budget; and 2 more; 2 pods have not ended yet"},
	} {
		var refused []refusedEviction
		for i := range tc.refused {
			refused = append(refused, refusedEviction{pod: fmt.Sprint("p", i+1), why: "budget"})
		}
		if got := describeRemainingPods(tc.going, refused); got != tc.want {
			t.Errorf("%d pods remain, %d of them refused: got %q, want %q", tc.going, tc.refused, got, tc.want)
		}
	}
}
