package action

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// outcomeSequence returns outcomes one after the other. It advances the clock with each
// one, so that the wait polls again.
type outcomeSequence struct {
	clock    *testingclock.FakeClock
	step     time.Duration
	outcomes []any // waitOutcome or error
	calls    int
}

func (l *outcomeSequence) next(context.Context) (Outcome, error) {
	next := l.outcomes[min(l.calls, len(l.outcomes)-1)]
	l.calls++
	l.clock.Step(l.step)
	if err, ok := next.(error); ok {
		return Outcome{}, err
	}
	return next.(Outcome), nil
}

// warningRecorder records warnings.
type warningRecorder struct {
	report.Quiet
	got []string
}

func (w *warningRecorder) Warn(message string) { w.got = append(w.got, message) }

func TestWait(t *testing.T) {
	resource := schema.GroupResource{Resource: "things"}
	cases := map[string]struct {
		outcomes []any
		step     time.Duration
		want     string // part of the error; "" for none
		advice   string
		seen     int
		warnings int
	}{
		"done at once":  {outcomes: []any{Outcome{Done: true}}, step: pollInterval, seen: 1},
		"done later":    {outcomes: []any{Outcome{Pending: "x"}, Outcome{Pending: "y"}, Outcome{Done: true}}, step: pollInterval, seen: 3},
		"failed":        {outcomes: []any{Outcome{}, Outcome{Failed: errors.New("no"), Advice: "do"}}, step: pollInterval, want: `thing "a": no`, advice: "do", seen: 2},
		"time is up":    {outcomes: []any{Outcome{Pending: "the cat", Advice: "feed it"}}, step: time.Hour, want: `thing "a": timed out after 1m0s: the cat`, advice: "feed it", seen: 1},
		"it vanished":   {outcomes: []any{Outcome{}, apierrors.NewNotFound(resource, "a")}, step: pollInterval, want: "not found", advice: "create the missing object first", seen: 2},
		"server errors": {outcomes: []any{errors.New("connection refused"), errors.New("connection refused"), apierrors.NewTooManyRequests("busy", 1), Outcome{Done: true}}, step: pollInterval, seen: 4, warnings: 2},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakeClock(time.Time{})
			l := &outcomeSequence{clock: clock, step: c.step, outcomes: c.outcomes}
			recorder := &warningRecorder{}
			wait := &Wait{Timeout: time.Minute, Clock: clock}
			err := wait.Poll(t.Context(), `thing "a"`, recorder, l.next)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if got := report.AdviceOf(err); got != c.advice {
				t.Errorf("advice %q, want %q", got, c.advice)
			}
			if l.calls < c.seen {
				t.Errorf("got %d polls, want %d", l.calls, c.seen)
			}
			if len(recorder.got) != c.warnings {
				t.Errorf("warnings %q, want %d", recorder.got, c.warnings)
			}
		})
	}
}

func TestWaitContextCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := (&Wait{}).Poll(ctx, "thing", nil, func(context.Context) (Outcome, error) {
		cancel()
		return Outcome{}, nil
	})
	if !errors.Is(err, context.Canceled) || report.AdviceOf(err) != "the cluster continues with it" {
		t.Errorf("got error %v, advice %q", err, report.AdviceOf(err))
	}
}

func newCondition(conditionType string, status metav1.ConditionStatus, reason, message string, generation int64) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
}

func TestExtensionWaitOutcome(t *testing.T) {
	installed := newCondition(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded, "", 2)
	rolledOut := newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded, "", 2)
	inPlace := RevisionState{Name: "k-1", Conditions: []metav1.Condition{newCondition(olmv1.TypeSucceeded, metav1.ConditionTrue, olmv1.ReasonSucceeded, "", 1)}}
	revision := RevisionState{Name: "k-2", Bundle: "k.v2", Phases: []PhaseState{
		{Name: "crds", State: report.StateDone, Objects: []ObjectState{{Ready: true}}},
		{Name: "deploy", State: report.StateCurrent, Objects: []ObjectState{{Kind: "Deployment", Name: "a", Message: "not there"}, {Kind: "Deployment", Name: "b"}, {Ready: true}}},
		{Name: "publish", State: report.StateWaiting, Objects: []ObjectState{{}}},
	}}
	cases := map[string]struct {
		state  ExtensionState
		done   bool
		failed string
		advice string // a part of it
		// rollback is the command of the awaited rollback.
		rollback string
		parts    []report.Part
		pending  string
	}{
		"not reconciled": {
			parts:   []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: "operator-controller has not reconciled it yet"}},
			pending: "operator-controller has not reconciled it yet", advice: "check that it runs",
		},
		"reconciled before the change": {
			state: ExtensionState{Conditions: []metav1.Condition{
				newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonSucceeded, "", 1), newCondition(olmv1.TypeInstalled, metav1.ConditionTrue, olmv1.ReasonSucceeded, "", 1),
			}},
			parts:   []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: "operator-controller has not reconciled it yet"}},
			pending: "operator-controller has not reconciled it yet", advice: "check that it runs",
		},
		"retrying next to an old revision": {
			state:   ExtensionState{Conditions: []metav1.Condition{newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "no bundles found for package", 2), installed}, Revisions: []RevisionState{inPlace}},
			parts:   []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: "Retrying: no bundles found for package"}},
			pending: "Retrying: no bundles found for package", advice: "--self-certified",
		},
		"rolling out": {
			state: ExtensionState{Name: "k", Conditions: []metav1.Condition{newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut, "applying", 2), installed}, Revisions: []RevisionState{inPlace, revision}},
			parts: []report.Part{
				{Name: "resolve", State: report.StateDone, Detail: "k.v2"}, {Name: "crds", State: report.StateDone, Detail: "1/1"},
				{Name: "deploy", State: report.StateCurrent, Detail: "1/3 Deployment a: not there (and 1 more)"}, {Name: "publish", State: report.StateWaiting},
			},
			pending: "RollingOut: applying", advice: "mainstay extension status k",
		},
		"retrying within a roll-out": {
			state: ExtensionState{Name: "k", Conditions: []metav1.Condition{newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "a field is immutable", 2), installed}, Revisions: []RevisionState{inPlace, {Name: "k-2", Bundle: "k.v2"}}},
			parts: []report.Part{{Name: "resolve", State: report.StateDone, Detail: "k.v2"}, {Name: "roll-out", State: report.StateCurrent, Detail: "Retrying: a field is immutable"}}, pending: "Retrying: a field is immutable", advice: "mainstay extension status k",
		},
		"blocked": {
			state:  ExtensionState{Conditions: []metav1.Condition{newCondition(olmv1.TypeProgressing, metav1.ConditionFalse, olmv1.ReasonBlocked, "pre-authorization failed: x", 2)}},
			failed: "Blocked: pre-authorization failed: x", pending: "Blocked: pre-authorization failed: x", advice: "grant the service account of operator-controller the listed permissions",
			parts: []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: "Blocked: pre-authorization failed: x"}},
		},
		"refused as unsafe": {
			state: ExtensionState{Conditions: []metav1.Condition{
				newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, `validating upgrade for CRD "a.b.c" failed: x`, 2), installed,
			}, Revisions: []RevisionState{inPlace}},
			failed: `Retrying: validating upgrade for CRD "a.b.c" failed: x`, pending: `Retrying: validating upgrade for CRD "a.b.c" failed: x`, advice: "--crd-upgrade-safety None",
			parts: []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: `Retrying: validating upgrade for CRD "a.b.c" failed: x`}},
		},
		"a rollback, refused as unsafe": {
			state: ExtensionState{Conditions: []metav1.Condition{
				newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, `validating upgrade for CRD "a.b.c" failed: x`, 2), installed,
			}, Revisions: []RevisionState{inPlace}},
			rollback: "mainstay extension rollback k",
			failed:   `Retrying: validating upgrade for CRD "a.b.c" failed: x`, pending: `Retrying: validating upgrade for CRD "a.b.c" failed: x`,
			advice: "'mainstay extension rollback k --crd-upgrade-safety None'",
			parts:  []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: `Retrying: validating upgrade for CRD "a.b.c" failed: x`}},
		},
		"rolled out, but not installed": {
			state: ExtensionState{Conditions: []metav1.Condition{rolledOut}}, pending: "Succeeded", advice: "status",
			parts: []report.Part{{Name: "resolve", State: report.StateCurrent, Detail: "Succeeded"}},
		},
		"installed": {
			state: ExtensionState{Conditions: []metav1.Condition{rolledOut, installed}, Revisions: []RevisionState{{Name: "k-2", Bundle: "k.v2"}}}, done: true, pending: "Succeeded", advice: "status",
			parts: []report.Part{{Name: "resolve", State: report.StateDone, Detail: "k.v2"}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := extensionWaitOutcome(&c.state, 2, c.rollback)
			failed := ""
			if got.Failed != nil {
				failed = got.Failed.Error()
			}
			if got.Done != c.done || failed != c.failed || got.Pending != c.pending || !strings.Contains(got.Advice, c.advice) {
				t.Errorf("got %+v", got)
			}
			if diff := cmp.Diff(c.parts, got.Parts); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetPhaseStates(t *testing.T) {
	ready, lacking, untrusted := ObjectState{Ready: true}, ObjectState{}, ObjectState{mayComeLater: true}
	cases := map[string]struct {
		objects   [][]ObjectState
		rolledOut bool
		want      []report.State
	}{
		"all ready":               {objects: [][]ObjectState{{ready}, {ready, ready}, {}}, want: []report.State{report.StateDone, report.StateDone, report.StateDone}},
		"the second is blocked":   {objects: [][]ObjectState{{ready}, {ready, lacking}, {ready}}, want: []report.State{report.StateDone, report.StateCurrent, report.StateWaiting}},
		"later phases":            {objects: [][]ObjectState{{ready, untrusted}, {ready}, {lacking}, {ready}}, want: []report.State{report.StateCurrent, report.StateDone, report.StateCurrent, report.StateWaiting}},
		"another problem, too":    {objects: [][]ObjectState{{lacking, untrusted}, {ready}}, want: []report.State{report.StateCurrent, report.StateWaiting}},
		"after it was rolled out": {objects: [][]ObjectState{{lacking}, {ready}, {lacking}}, rolledOut: true, want: []report.State{report.StateCurrent, report.StateDone, report.StateCurrent}},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var phases []PhaseState
			for _, objects := range c.objects {
				phases = append(phases, PhaseState{Objects: objects})
			}

			setPhaseStates(phases, c.rolledOut)
			var got []report.State
			for _, phase := range phases {
				got = append(got, phase.State)
			}

			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewServerError(t *testing.T) {
	resource := schema.GroupResource{Group: "olm.operatorframework.io", Resource: "clustercatalogs"}
	if NewServerError("x", nil) != nil {
		t.Error("got an error for nil, want nil")
	}

	cases := map[string]struct {
		err    error
		want   string
		advice string
	}{
		"forbidden":       {apierrors.NewForbidden(resource, "x", errors.New("no")), "forbidden", "ask an administrator"},
		"unauthorized":    {apierrors.NewUnauthorized("who"), "who", "log in"},
		"conflict":        {apierrors.NewConflict(resource, "x", errors.New("changed")), "changed", "run the command again"},
		"kind is unknown": {apierrors.NewGenericServerResponse(404, "list", resource, "", "", 0, true), "does not know the kind", "mainstay install"},
		"kind of OLM Classic": {
			&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "operators.coreos.com", Kind: "Subscription"}}, "does not know the kind", "mainstay install --with classic",
		},
		"removed kind of OLM Classic": {
			apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Group: "operators.coreos.com", Resource: "subscriptions"}, "", "", 0, true), "does not know the kind", "mainstay install --with classic",
		},
		"object missing": {apierrors.NewNotFound(resource, "x"), "not found", "create"},
		"anything else":  {errors.New("it rains"), "it rains", ""},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := NewServerError("thing", c.err)
			if !errors.Is(err, c.err) || !strings.HasPrefix(err.Error(), "thing: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
			if got := report.AdviceOf(err); !strings.Contains(got, c.advice) || (c.advice == "") != (got == "") {
				t.Errorf("advice %q", got)
			}
		})
	}
}
