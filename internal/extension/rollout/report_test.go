package rollout

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

func newResult(objects ...apply.ObjectResult) *apply.RevisionResult {
	for i := range objects {
		objects[i].Object = apply.Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "ns", Name: "x"}
	}
	return &apply.RevisionResult{Total: 1, Phases: []apply.PhaseResult{{Name: "only", Objects: objects}}}
}

func TestReport(t *testing.T) {
	const (
		active, archived = olmv1.LifecycleStateActive, olmv1.LifecycleStateArchived
		waiting          = `phase "only" (1 of 1) waits for ConfigMap "ns/x": not yet`
	)
	good := apply.ObjectResult{Action: apply.ActionUnchanged, Probe: apply.Probe{Ready: true}}
	slow := apply.ObjectResult{Action: apply.ActionCreated, Probe: apply.Probe{Message: "not yet"}}
	taken := apply.ObjectResult{Action: apply.ActionSuperseded, Probe: apply.Probe{Ready: true}}
	wait := reconcile.Wait(olmv1.ReasonRollingOut, 0, errors.New(waiting))
	retry := reconcile.Retry(olmv1.ReasonRetrying, errors.New("no connection"))
	stop := reconcile.Stop(olmv1.ReasonBlocked, errors.New("content changed"))
	cases := []struct {
		name      string
		state     olmv1.LifecycleState
		succeeded bool
		deleting  bool
		outcome   outcome
		// want are status, reason and message of Progressing and Available.
		progressing, available [3]string
		succeeds               bool
	}{
		{name: "first success", state: active, outcome: outcome{applied: newResult(good, good)}, succeeds: true,
			progressing: [3]string{"True", "Succeeded", "All objects are rolled out: 2 objects in 1 phase"},
			available:   [3]string{"True", "ProbesSucceeded", "All objects pass their probes: 2 objects"}},
		{name: "rolling out", state: active, outcome: outcome{err: wait, applied: newResult(slow)},
			progressing: [3]string{"True", "RollingOut", waiting}, available: [3]string{"False", "ProbeFailure", waiting}},
		{name: "late", state: active, outcome: outcome{err: wait, applied: newResult(slow), deadlineExceeded: true},
			progressing: [3]string{"False", "ProgressDeadlineExceeded", "Revision has not rolled out for 10 minute(s). Last status: " + waiting},
			available:   [3]string{"False", "ProbeFailure", waiting}},
		{name: "late and blocked", state: active, outcome: outcome{err: stop, deadlineExceeded: true},
			progressing: [3]string{"False", "Blocked", "content changed"},
			available:   [3]string{"Unknown", "Reconciling", "The objects were not looked at: content changed"}},
		{name: "late and failing", state: active, outcome: outcome{err: retry, deadlineExceeded: true},
			progressing: [3]string{"False", "ProgressDeadlineExceeded", "Revision has not rolled out for 10 minute(s). Last status: no connection"},
			available:   [3]string{"Unknown", "Reconciling", "The objects were not looked at: no connection"}},
		{name: "failing", state: active, outcome: outcome{err: retry},
			progressing: [3]string{"True", "Retrying", "no connection"},
			available:   [3]string{"Unknown", "Reconciling", "The objects were not looked at: no connection"}},
		{name: "in trouble after success", state: active, succeeded: true, outcome: outcome{err: wait, applied: newResult(good, slow)}, succeeds: true,
			progressing: [3]string{"True", "Succeeded", "All objects are rolled out: 2 objects in 1 phase"}, available: [3]string{"False", "ProbeFailure", waiting}},
		{name: "failing after success", state: active, succeeded: true, outcome: outcome{err: retry, applied: newResult(good)}, succeeds: true,
			progressing: [3]string{"True", "Retrying", "no connection"}, available: [3]string{"True", "ProbesSucceeded", "All objects pass their probes: 1 object"}},
		{name: "superseded after success", state: active, succeeded: true, outcome: outcome{applied: newResult(good, taken)}, succeeds: true,
			progressing: [3]string{"True", "Succeeded", "All objects are rolled out: 2 objects in 1 phase, of which a later revision has taken over 1"},
			available:   [3]string{"True", "ProbesSucceeded", "All objects pass their probes: 2 objects"}},
		{name: "being archived", state: archived, succeeded: true, outcome: outcome{err: wait}, succeeds: true,
			progressing: [3]string{"True", "RollingOut", waiting}, available: [3]string{"Unknown", "Archived", "The revision is archived"}},
		{name: "archived", state: archived, succeeded: true, succeeds: true,
			progressing: [3]string{"False", "Archived", "The revision is archived: its objects are removed, except those that a later revision has taken over"},
			available:   [3]string{"Unknown", "Archived", "The revision is archived"}},
		{name: "late but archived", state: archived, outcome: outcome{err: retry, deadlineExceeded: true},
			progressing: [3]string{"True", "Retrying", "no connection"}, available: [3]string{"Unknown", "Archived", "The revision is archived"}},
		{name: "being deleted", state: active, deleting: true, succeeded: true, outcome: outcome{err: wait}, succeeds: true,
			progressing: [3]string{"True", "RollingOut", waiting}, available: [3]string{"Unknown", "Reconciling", "The revision is being removed"}},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			minutes := int32(10)
			set := &olmv1.ClusterObjectSet{Spec: olmv1.ClusterObjectSetSpec{LifecycleState: test.state, ProgressDeadlineMinutes: &minutes}}
			set.Generation = 3
			if test.succeeded {
				setCondition(set, metav1.Condition{Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded})
			}
			if test.deleting {
				set.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}

			reportStatus(set, test.outcome)
			for name, want := range map[string][3]string{olmv1.TypeProgressing: test.progressing, olmv1.TypeAvailable: test.available} {
				c := meta.FindStatusCondition(set.Status.Conditions, name)
				if diff := cmp.Diff(want, [3]string{string(c.Status), c.Reason, c.Message}); diff != "" || c.ObservedGeneration != 3 {
					t.Errorf("%s, observed at %d: %s", name, c.ObservedGeneration, diff)
				}
			}
			if hasSucceeded(set) != test.succeeds {
				t.Errorf("got Succeeded %t", hasSucceeded(set))
			}
		})
	}
}

func TestChangedPhases(t *testing.T) {
	a, b := olmv1.ObservedPhase{Name: "a", Digest: "1"}, olmv1.ObservedPhase{Name: "b", Digest: "2"}
	other := olmv1.ObservedPhase{Name: "b", Digest: "3"}
	cases := []struct {
		name          string
		observed, now []olmv1.ObservedPhase
		want          []string
	}{
		{"before the first success", nil, []olmv1.ObservedPhase{a, b}, nil},
		{"the same", []olmv1.ObservedPhase{a, b}, []olmv1.ObservedPhase{a, b}, nil},
		{"one differs", []olmv1.ObservedPhase{a, b}, []olmv1.ObservedPhase{a, other}, []string{`"b"`}},
	}

	for _, test := range cases {
		if diff := cmp.Diff(test.want, findChangedPhases(test.observed, test.now)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}
