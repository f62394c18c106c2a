package apply

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

// scripted returns fixed results for the objects of a test by name.
type scripted struct {
	results  map[string]ObjectResult
	removals map[string]RemovalState
}

func (s scripted) apply(_ context.Context, _ *Revision, object Object) ObjectResult {
	result := s.results[object.Manifest.GetName()]
	result.Object = KeyOf(object.Manifest)
	return result
}

func (s scripted) remove(_ context.Context, _ *Removal, object Object) ObjectRemoval {
	state := s.removals[object.Manifest.GetName()]
	result := ObjectRemoval{Object: KeyOf(object.Manifest), State: state}
	switch state {
	case RemovalPending:
		result.Message = "it is being deleted"
	case RemovalFailed:
		result.Err = newInvalidError(result.Object, "no right")
	}

	return result
}

func testPhase(name string, objects ...string) Phase {
	p := Phase{Name: name}
	for _, object := range objects {
		p.Objects = append(p.Objects, Object{Manifest: builder.FromYAML(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: ns, name: %s}", object))})
	}
	return p
}

func TestRevisionGoesPhaseByPhase(t *testing.T) {
	good := ObjectResult{Action: ActionUnchanged, Probe: readyProbe()}
	slow := ObjectResult{Action: ActionCreated, Probe: notReadyProbe("0 of 1 replica is available")}
	taken := ObjectResult{Action: ActionSuperseded, Probe: readyProbe()}
	bad := ObjectResult{Action: ActionFailed, Err: newObjectError(Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "ns", Name: "bad"}, context.DeadlineExceeded)}
	collides := ObjectResult{Action: ActionFailed, Err: newCollisionError(Key{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Namespace: "ns", Name: "taken"}, "controlled by X \"x\"", "remove it from its owner first")}
	stated := ObjectResult{Action: ActionCreated, Probe: Probe{Message: `its field status.phase is "Pending", not "Bound"`, Failure: "Object Claim.v1 ns/slow: value"}}
	rollout := func(first ...string) []Phase {
		return []Phase{testPhase("one", first...), testPhase("two", "good"), testPhase("three", "slow")}
	}
	cases := []struct {
		name    string
		first   []string
		ungated bool
		begun   int
		waiting string
		err     string
	}{
		{name: "first phase ready", first: []string{"good"}, begun: 3,
			waiting: `phase "three" (3 of 3) waits for ConfigMap "ns/slow": 0 of 1 replica is available`},
		{name: "first phase not ready", first: []string{"good", "slow"}, begun: 1,
			waiting: `phase "one" (1 of 3) waits for ConfigMap "ns/slow": 0 of 1 replica is available`},
		{name: "an object failed", first: []string{"bad", "good"}, begun: 1, err: `phase "one" (1 of 3): ConfigMap "ns/bad": context deadline exceeded`},
		{name: "an object has another owner", first: []string{"bad", "collides"}, begun: 1,
			err: `revision object collisions: phase "one" (1 of 3): ConfigMap "ns/bad": context deadline exceeded; ` +
				`ConfigMap 'taken' already exists in namespace 'ns' and cannot be managed by operator-controller: it is controlled by X "x"; remove it from its owner first`},
		{name: "a probe of the revision fails", first: []string{"slow", "stated"}, begun: 1,
			waiting: `Object Claim.v1 ns/slow: value; phase "one" (1 of 3) waits for ConfigMap "ns/slow": 0 of 1 replica is available; ` +
				`ConfigMap "ns/stated": its field status.phase is "Pending", not "Bound"`},
		{name: "an object was taken over", first: []string{"taken"}, begun: 1},
		{name: "ungated", first: []string{"slow", "bad"}, ungated: true, begun: 3,
			waiting: `phase "one" (1 of 3) waits for ConfigMap "ns/slow": 0 of 1 replica is available; phase "three" (3 of 3) waits for ConfigMap "ns/slow": 0 of 1 replica is available`,
			err:     `phase "one" (1 of 3): ConfigMap "ns/bad": context deadline exceeded`},
		{name: "many are awaited", first: []string{"slow", "slow", "slow", "slow", "slow"}, begun: 1,
			waiting: `phase "one" (1 of 3) waits for ConfigMap "ns/slow": 0 of 1 replica is available; ConfigMap "ns/slow": 0 of 1 replica is available; ConfigMap "ns/slow": 0 of 1 replica is available; and 2 more`},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			engine := &Engine{phases: &phaseEngine{scripted{results: map[string]ObjectResult{"good": good, "slow": slow, "taken": taken, "bad": bad, "collides": collides, "stated": stated}}}}
			result := engine.Apply(t.Context(), &Revision{Phases: rollout(test.first...), Ungated: test.ungated})
			text := ""
			if err := result.Err(); err != nil {
				text = err.Error()
			}
			if len(result.Phases) != test.begun || result.Waiting() != test.waiting || text != test.err || result.Done() {
				t.Errorf("got %d phases begun, done %t\nwaiting %s\nerror %s", len(result.Phases), result.Done(), result.Waiting(), text)
			}
		})
	}
}

func TestRevisionIsRemovedInReverse(t *testing.T) {
	cases := []struct {
		name string
		// known is how many phases are known to be removed.
		known   int
		states  map[string]RemovalState
		begun   int
		gone    int
		waiting string
		err     string
	}{
		{"all removed", 0, map[string]RemovalState{"a": RemovalGone, "b": RemovalLeft, "c": RemovalGone}, 3, 3, "", ""},
		{"last pending", 0, map[string]RemovalState{"a": RemovalGone, "b": RemovalGone, "c": RemovalPending}, 1, 0,
			`removing phase "three" (3 of 3) waits for ConfigMap "ns/c": it is being deleted`, ""},
		{"second failed", 0, map[string]RemovalState{"a": RemovalGone, "b": RemovalFailed, "c": RemovalGone}, 2, 1, "",
			`removing phase "two" (2 of 3): ConfigMap "ns/b": no right`},
		{"the last is known to be removed", 1, map[string]RemovalState{"a": RemovalPending, "b": RemovalGone, "c": RemovalFailed}, 2, 2,
			`removing phase "one" (1 of 3) waits for ConfigMap "ns/a": it is being deleted`, ""},
		{"all are known to be removed", 3, map[string]RemovalState{"a": RemovalFailed, "b": RemovalFailed, "c": RemovalFailed}, 0, 3, "", ""},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			engine := &Engine{phases: &phaseEngine{scripted{removals: test.states}}}
			removal := engine.Remove(t.Context(), &Removal{
				Owner: &Owner{}, Phases: []Phase{testPhase("one", "a"), testPhase("two", "b"), testPhase("three", "c")}, RemovedPhases: test.known,
			})
			text := ""
			if err := removal.Err(); err != nil {
				text = err.Error()
			}
			if len(removal.Phases) != test.begun || removal.RemovedPhases != test.gone || removal.Done() != (test.gone == 3) || removal.Waiting() != test.waiting || text != test.err {
				t.Errorf("got %d phases begun, %d removed, done %t\nwaiting %s\nerror %s", len(removal.Phases), removal.RemovedPhases, removal.Done(), removal.Waiting(), text)
			}
		})
	}

	if removal := (&Engine{}).Remove(t.Context(), &Removal{}); !removal.Done() {
		t.Error("a revision without phases is not removed")
	}
}
