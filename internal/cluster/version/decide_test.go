package version

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// pass completes the facts as gatherFacts does, and decides.
func pass(f *facts, state *acceptance.State) *decision {
	if f.cv != nil && f.err == nil {
		f.plan = planTarget(f)
		if f.plan.hasTarget {
			if f.plan.needsAcceptance {
				f.acceptance = state
			}
			f.next = acceptRelease(f, Settings{})
		}
	}
	return decidePass(f, Settings{})
}

func TestDecideAbsence(t *testing.T) {
	for name, test := range map[string]struct {
		last time.Time
		want bool
	}{
		"never":      {want: true},
		"just now":   {last: start.Add(-time.Minute)},
		"long since": {last: start.Add(-logAbsenceInterval), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := pass(&facts{now: start, memory: memory{absenceLoggedAt: test.last}}, nil)
			if d.logAbsence != test.want || d.requeueAfter != logAbsenceInterval || d.work != nil {
				t.Errorf("got %+v, want a log message: %t", d, test.want)
			}
		})
	}
}

func TestDecidePass(t *testing.T) {
	first, second := configv1.Release{Version: "1.0.0", Image: "first"}, configv1.Release{Version: "1.1.0", Image: "second"}
	accepted := func(r configv1.Release) *acceptance.State {
		return &acceptance.State{Target: r, Accepted: &acceptance.Accepted{Release: r, Payload: &release.Payload{}}}
	}
	applied := &appliedRelease{Accepted: accepted(first).Accepted, mode: release.Updating}
	entry := func(state configv1.UpdateState) []configv1.UpdateHistory {
		return []configv1.UpdateHistory{{State: state, Version: first.Version, Image: first.Image}}
	}

	for name, test := range map[string]struct {
		own     configv1.Release
		applied *appliedRelease
		spec    *configv1.Update
		history []configv1.UpdateHistory
		state   *acceptance.State
		worker  worker.Status
		// work is the image of the worker's work; empty for none.
		work string
		// progressing is the message of Progressing.
		progressing                   string
		isAccepted, cancels, isWaited bool
		after                         time.Duration
	}{
		"no release is known": {progressing: "No configured operator version", after: progressingResyncInterval},
		"a release is requested": {
			own: first, state: &acceptance.State{Target: first}, isWaited: true, after: steadyResyncInterval,
		},
		"it is accepted": {
			own: first, state: accepted(first), work: "first", isAccepted: true, cancels: true,
			progressing: "Working towards 1.0.0", after: progressingResyncInterval,
		},
		"it is applied": {
			own: first, applied: applied, history: entry(configv1.PartialUpdate), worker: worker.Status{Actual: first, Completed: 1, Reconciling: true},
			work: "first", cancels: true, progressing: "Cluster version is 1.0.0", after: immediateRequeueInterval,
		},
		"an update during the installation": {
			own: first, applied: applied, history: entry(configv1.PartialUpdate), spec: &configv1.Update{Version: "1.1.0", Image: "second"},
			state: accepted(second), worker: worker.Status{Actual: first},
			work: "first", cancels: true, progressing: "Working towards 1.0.0", after: progressingResyncInterval,
		},
		"an update is requested": {
			own: first, applied: applied, history: entry(configv1.CompletedUpdate), spec: &configv1.Update{Version: "1.1.0", Image: "second"},
			state: &acceptance.State{Target: second}, worker: worker.Status{Actual: first, Completed: 1, Reconciling: true},
			work: "first", isWaited: true, progressing: "Cluster version is 1.0.0", after: steadyResyncInterval,
		},
		"an update is accepted": {
			own: first, applied: applied, history: entry(configv1.CompletedUpdate), spec: &configv1.Update{Version: "1.1.0", Image: "second"},
			state: accepted(second), worker: worker.Status{Actual: first, Completed: 1, Reconciling: true},
			work: "second", isAccepted: true, cancels: true, progressing: "Working towards 1.1.0", after: progressingResyncInterval,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: configv1.ClusterVersionSpec{ClusterID: clusterID, DesiredUpdate: test.spec}}
			cv.Status.History = test.history
			cv.Status.ObservedGeneration = 3
			f := &facts{now: start, cv: cv, worker: test.worker, memory: memory{releases: releases{own: test.own, applied: test.applied}}}
			d := pass(f, test.state)
			work := ""
			if d.work != nil {
				work = d.work.Desired.Image
			}

			progressing, _ := (&conditionSet{all: d.after.Status.Conditions}).get(configv1.OperatorProgressing)
			if work != test.work || (d.accepted != nil) != test.isAccepted || d.cancelAcceptance != test.cancels || f.isAwaitingAcceptance() != test.isWaited {
				t.Errorf("got work %q, accepted %t, canceled %t, waiting %t; want %q, %t, %t, %t", work, d.accepted != nil, d.cancelAcceptance, f.isAwaitingAcceptance(),
					test.work, test.isAccepted, test.cancels, test.isWaited)
			}
			if progressing.Message != test.progressing || d.requeueAfter != test.after {
				t.Errorf("got Progressing %q and a requeue after %s, want %q and %s", progressing.Message, d.requeueAfter, test.progressing, test.after)
			}
			if f.memory.releases.applied != test.applied {
				t.Error("got facts changed by the decision, want them unchanged")
			}
		})
	}
}

// Facts that could not be read lead to no decision.
func TestDecideWithoutFacts(t *testing.T) {
	d := pass(&facts{now: start, cv: &configv1.ClusterVersion{}, err: errors.New("away")}, nil)
	if d.after != nil || d.work != nil || d.requeueAfter != 0 {
		t.Errorf("got %+v, want nothing", d)
	}
}
