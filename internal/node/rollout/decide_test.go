package rollout

import (
	"errors"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

func TestDecideRendering(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker", UID: "1"}}
	configs := []*mcfgv1.MachineConfig{{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 2}}}
	versions := sourceVersions(pool, configs)
	failure := errors.New("bad")
	for name, test := range map[string]struct {
		facts facts
		want  decision
	}{
		"unknown nodes":   {facts: facts{selectorError: failure}},
		"unknown configs": {facts: facts{configsError: failure}, want: decision{renderError: failure}},
		"new":             {want: decision{sources: poolSources{versions: versions, since: now}, requeueAfter: 5 * time.Second}},
		"changed": {
			facts: facts{known: poolSources{versions: "other", since: now.Add(-time.Hour), name: "rendered-old"}},
			want:  decision{sources: poolSources{versions: versions, since: now}, requeueAfter: 5 * time.Second},
		},
		"not settled": {
			facts: facts{known: poolSources{versions: versions, since: now.Add(-2 * time.Second)}},
			want:  decision{sources: poolSources{versions: versions, since: now.Add(-2 * time.Second)}, requeueAfter: 3 * time.Second},
		},
		"settled": {
			facts: facts{known: poolSources{versions: versions, since: now.Add(-5 * time.Second)}},
			want:  decision{sources: poolSources{versions: versions, since: now.Add(-5 * time.Second)}, render: true},
		},
		"the clock was set back": {
			facts: facts{known: poolSources{versions: versions, since: now.Add(24 * time.Hour)}},
			want:  decision{sources: poolSources{versions: versions, since: now}, requeueAfter: 5 * time.Second},
		},
		"rendered": {
			facts: facts{known: poolSources{versions: versions, name: "rendered-x"}},
			want:  decision{sources: poolSources{versions: versions, name: "rendered-x"}},
		},
		"failed before": {
			facts: facts{known: poolSources{versions: versions, err: failure}},
			want:  decision{sources: poolSources{versions: versions, err: failure}, renderError: failure},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.facts.now, test.facts.configs = now, configs
			got := decideRendering(pool, &test.facts, 5*time.Second)
			if got.sources != test.want.sources || got.render != test.want.render || got.requeueAfter != test.want.requeueAfter || !errors.Is(got.renderError, test.want.renderError) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestChangeTaints(t *testing.T) {
	node := func(name string, tainted bool) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if tainted {
			n.Spec.Taints = []corev1.Taint{{Key: mcfgv1.TaintUpdateInProgress}}
		}
		return n
	}

	outdated, marked, updated, target := node("outdated", false), node("marked", true), node("updated", true), node("target", true)
	choice := &pools.Choice{Targets: []*corev1.Node{target}, Outdated: []*corev1.Node{outdated, marked}}
	got := map[string]bool{}
	for _, change := range changeTaints([]*corev1.Node{outdated, marked, updated, target, node("done", false)}, choice) {
		got[change.node.Name] = change.outdated
	}
	if len(got) != 2 || !got["outdated"] || got["updated"] {
		t.Errorf("got changes %v, want the taint added to outdated and removed from updated", got)
	}
}

// The events of two nodes must differ in more than their notes. Otherwise the second counts as a repetition of the first.
func TestTargetEvents(t *testing.T) {
	first, second := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	if got := targetEvents(nil, "x"); got != nil {
		t.Errorf("got events %v without nodes, want none", got)
	}

	for _, node := range []*corev1.Node{first, second} {
		want := []reconcile.Event{{Related: node, Reason: "SetDesiredConfig", Action: "Target", Note: "Targeted node " + node.Name + " to MachineConfig: x"}}
		if got := targetEvents([]*corev1.Node{node}, "x"); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}

	want := []reconcile.Event{{Reason: "SetDesiredConfig", Action: "Target", Note: "Set target for 2 nodes to MachineConfig: x"}}
	if got := targetEvents([]*corev1.Node{first, second}, "x"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
