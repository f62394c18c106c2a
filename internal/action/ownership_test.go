package action

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

func newRevision(number int64, uid string, state olmv1.LifecycleState) olmv1.ClusterObjectSet {
	set := olmv1.ClusterObjectSet{ObjectMeta: metav1.ObjectMeta{Name: "kettle-" + uid, UID: types.UID(uid)}}
	set.Spec.Revision, set.Spec.LifecycleState = number, state
	return set
}

// A ready object does not count while another owner controls it.
func TestRevisionOwner(t *testing.T) {
	siblings := []olmv1.ClusterObjectSet{
		newRevision(1, "old", olmv1.LifecycleStateActive), newRevision(2, "own", olmv1.LifecycleStateActive),
		newRevision(3, "new", olmv1.LifecycleStateActive), newRevision(4, "given-up", olmv1.LifecycleStateArchived),
	}
	revision := revisionOwner{set: &siblings[1], siblings: siblings}
	for _, test := range []struct {
		controller string
		want       string
		refused    bool
	}{
		{"own", "", false},
		{"new", "", false},
		{"old", "revision kettle-old still owns it", false},
		{"given-up", "revision kettle-given-up still owns it", false},
		{"", "it exists, but the extension does not own it yet", false},
		{"teapot", `it belongs to Deployment "teapot"`, true},
	} {
		live := &corev1.ServiceAccount{}
		if test.controller != "" {
			yes := true
			live.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", Name: test.controller, UID: types.UID(test.controller), Controller: &yes}}
		}
		if got := revision.describeForeignOwner(live); got != test.want {
			t.Errorf("controlled by %q: got %q, want %q", test.controller, got, test.want)
		}
		if got := revision.isOwnedByOthers(live); got != test.refused {
			t.Errorf("controlled by %q: got owned by others %t, want %t", test.controller, got, test.refused)
		}
	}
}

// A failed phase is never shown as done, regardless of its objects.
func TestFailedPhases(t *testing.T) {
	ready, foreign := ObjectState{Ready: true}, ObjectState{Message: "it belongs to another owner", foreign: true}
	for name, test := range map[string]struct {
		condition metav1.Condition
		phases    map[string]ObjectState
		want      []report.State
	}{
		"an object could not be written": {
			newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, `phase "deploy" (2 of 3): Deployment "kitchen/kettle": admission webhook "no" denied the request`, 1),
			map[string]ObjectState{"crds": ready, "deploy": ready, "publish": ready},
			[]report.State{report.StateDone, report.StateFailed, report.StateWaiting},
		},
		"an object has another owner": {
			newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut, "", 1),
			map[string]ObjectState{"crds": ready, "deploy": foreign, "publish": ready},
			[]report.State{report.StateDone, report.StateFailed, report.StateWaiting},
		},
		"a phase is awaited": {
			newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRollingOut, `phase "deploy" (2 of 3) waits for Deployment "kitchen/kettle": 0 of 1 replica is available`, 1),
			map[string]ObjectState{"crds": ready, "deploy": {}, "publish": {}},
			[]report.State{report.StateDone, report.StateCurrent, report.StateWaiting},
		},
		"one failed, another is awaited": {
			newCondition(olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, `phase "crds" (1 of 3): x: no; phase "deploy" (2 of 3) waits for y: z`, 1),
			map[string]ObjectState{"crds": ready, "deploy": {}, "publish": {}},
			[]report.State{report.StateFailed, report.StateWaiting, report.StateWaiting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := &olmv1.ClusterObjectSet{Status: olmv1.ClusterObjectSetStatus{Conditions: []metav1.Condition{test.condition}}}
			var phases []PhaseState
			for _, phase := range []string{"crds", "deploy", "publish"} {
				phases = append(phases, PhaseState{Name: phase, Message: findPhaseFailure(set, phase), Objects: []ObjectState{test.phases[phase]}})
			}

			setPhaseStates(phases, false)
			var got []report.State
			for _, phase := range phases {
				got = append(got, phase.State)
			}

			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}
