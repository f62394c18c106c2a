package pools

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// old and target are the names of the previous and the desired configuration.
const old, target = "rendered-worker-old", "rendered-worker-new"

// now is the current time in the tests.
var now = metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))

// edit changes a node.
type edit func(*corev1.Node)

// node returns a ready node with the old configuration.
func node(name string, edits ...edit) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, CreationTimestamp: now}}
	n.Annotations = map[string]string{}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
	}
	at(old, old, mcfgv1.NodeDone)(n)
	for _, e := range edits {
		e(n)
	}

	return n
}

func at(current, desired string, state mcfgv1.NodeState) edit {
	return func(n *corev1.Node) {
		n.Annotations[mcfgv1.AnnotationCurrentConfig], n.Annotations[mcfgv1.AnnotationDesiredConfig] = current, desired
		n.Annotations[mcfgv1.AnnotationState] = string(state)
	}
}

func labelled(keys ...string) edit {
	return func(n *corev1.Node) {
		for _, key := range keys {
			key, value, _ := strings.Cut(key, "=")
			n.Labels[key] = value
		}
	}
}

func aged(days int) edit {
	return func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(now.AddDate(0, 0, -days)) }
}

func zone(name string) edit { return labelled(corev1.LabelTopologyZone + "=" + name) }

func condition(conditionType corev1.NodeConditionType, status corev1.ConditionStatus) edit {
	return func(n *corev1.Node) {
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == conditionType })
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: conditionType, Status: status})
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func because(reason string) edit {
	return func(n *corev1.Node) { n.Annotations[mcfgv1.AnnotationReason] = reason }
}

// draining makes a node one whose daemon has requested a drain that is not completed.
func draining(n *corev1.Node) {
	n.Annotations[mcfgv1.AnnotationDesiredDrain] = mcfgv1.DrainPrefix + n.Annotations[mcfgv1.AnnotationDesiredConfig]
}

var (
	notReady  = condition(corev1.NodeReady, corev1.ConditionUnknown)
	updating  = at(old, target, mcfgv1.NodeWorking)
	updated   = at(target, target, mcfgv1.NodeDone)
	failing   = at(old, target, mcfgv1.NodeDegraded)
	unmanaged = func(n *corev1.Node) { n.Annotations = map[string]string{} }
)

func pool(name string, edits ...func(*mcfgv1.MachineConfigPool)) *mcfgv1.MachineConfigPool {
	p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}}
	p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role/" + name: ""}}
	p.Spec.Configuration.Name = target
	for _, e := range edits {
		e(p)
	}
	return p
}

func most(value string) func(*mcfgv1.MachineConfigPool) {
	return func(p *mcfgv1.MachineConfigPool) {
		v := intstr.Parse(value)
		p.Spec.MaxUnavailable = &v
	}
}

func paused(p *mcfgv1.MachineConfigPool) { p.Spec.Paused = true }

func names(nodes []*corev1.Node) string {
	var b []string
	for _, n := range nodes {
		b = append(b, n.Name)
	}
	return strings.Join(b, " ")
}

func TestAssign(t *testing.T) {
	all := []*mcfgv1.MachineConfigPool{pool("worker"), pool("master"), pool("arbiter"), pool("gpu"), pool("infra"),
		pool("none", func(p *mcfgv1.MachineConfigPool) { p.Spec.NodeSelector = nil }),
		pool("broken", func(p *mcfgv1.MachineConfigPool) {
			p.Spec.NodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}),
	}

	m := Assign(all, []*corev1.Node{
		node("z", labelled("role/worker")), node("a", labelled("role/worker")),
		node("both", labelled("role/worker", "role/master", "role/gpu", "role/infra")),
		node("vote", labelled("role/worker", "role/arbiter", "role/gpu")),
		node("gpu", labelled("role/worker", "role/gpu")), node("only", labelled("role/gpu")),
		node("two", labelled("role/worker", "role/gpu", "role/infra")), node("nobody"),
	})

	got := map[string]string{}
	for name, nodes := range m.Nodes {
		got[name] = names(nodes)
	}

	want := map[string]string{"worker": "a z", "master": "both", "arbiter": "vote", "gpu": "gpu only"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if len(m.Contested) != 1 || m.Contested[0].Node.Name != "two" || !strings.Contains(m.Contested[0].Error(), "gpu, infra") {
		t.Errorf("got contested nodes %+v, want two of the pools gpu and infra", m.Contested)
	}
	if len(m.Invalid) != 1 || m.Invalid["broken"] == nil {
		t.Errorf("got invalid pools %v, want broken", m.Invalid)
	}
}

func TestMaxUnavailable(t *testing.T) {
	for _, c := range []struct {
		pool  *mcfgv1.MachineConfigPool
		nodes int
		want  int
	}{
		{pool("worker"), 5, 1}, {pool("worker", most("3")), 5, 3}, {pool("worker", most("0")), 5, 1},
		{pool("worker", most("10%")), 5, 1}, {pool("worker", most("50%")), 5, 2}, {pool("worker", most("100%")), 5, 5},
		{pool("worker", most("0%")), 5, 1}, {pool("worker", most("50%")), 0, 1}, {pool("arbiter", most("3")), 5, 1},
		{pool("worker", most("12%")), 2000, 240},
	} {
		got, err := MaxUnavailable(c.pool, c.nodes)
		if err != nil || got != c.want {
			t.Errorf("maxUnavailable %v of %d nodes: got %d (error %v), want %d", c.pool.Spec.MaxUnavailable, c.nodes, got, err, c.want)
		}
	}

	if _, err := MaxUnavailable(pool("worker", most("many")), 5); err == nil {
		t.Error("got no error for maxUnavailable many, want one")
	}
}

func TestChoose(t *testing.T) {
	cases := map[string]struct {
		pool     *mcfgv1.MachineConfigPool
		nodes    []*corev1.Node
		self     string
		want     string
		deferred string
		outdated string
	}{
		"the default is one": {pool: pool("worker"), nodes: []*corev1.Node{node("a"), node("b")}, want: "a", outdated: "b"},
		"three of five":      {pool: pool("worker", most("3")), nodes: []*corev1.Node{node("a"), node("b"), node("c"), node("d"), node("e")}, want: "a b c", outdated: "d e"},
		"one returned":       {pool: pool("worker", most("3")), nodes: []*corev1.Node{node("a", updating), node("b", updated), node("c", updating, cordoned), node("d"), node("e")}, want: "d", outdated: "e"},
		"full":               {pool: pool("worker", most("2")), nodes: []*corev1.Node{node("a", updating), node("b", updating), node("c")}, outdated: "c"},
		"done, but cordoned": {pool: pool("worker"), nodes: []*corev1.Node{node("a", updated, cordoned), node("b")}, outdated: "b"},
		"done, not ready":    {pool: pool("worker"), nodes: []*corev1.Node{node("a", updated, notReady), node("b")}, outdated: "b"},
		"not ready":          {pool: pool("worker", most("2")), nodes: []*corev1.Node{node("a", notReady), node("b"), node("c")}, want: "b", outdated: "a c"},
		"a full disk":        {pool: pool("worker"), nodes: []*corev1.Node{node("a", condition(corev1.NodeDiskPressure, corev1.ConditionTrue)), node("b")}, outdated: "a b"},
		"no network":         {pool: pool("worker"), nodes: []*corev1.Node{node("a", condition(corev1.NodeNetworkUnavailable, corev1.ConditionUnknown)), node("b")}, outdated: "a b"},
		"a failing one":      {pool: pool("worker"), nodes: []*corev1.Node{node("a", failing), node("b")}, outdated: "b"},
		"failing and away":   {pool: pool("worker", most("2")), nodes: []*corev1.Node{node("a", failing, cordoned), node("b"), node("c")}, want: "b", outdated: "c"},
		"failing at another": {pool: pool("worker"), nodes: []*corev1.Node{node("a", at(old, "bad", mcfgv1.NodeUnreconcilable), cordoned), node("b")}, want: "a", outdated: "b"},
		"failing and gone":   {pool: pool("worker"), nodes: []*corev1.Node{node("a", at(old, "bad", mcfgv1.NodeDegraded), notReady), node("b")}, outdated: "b"},
		"drifted":            {pool: pool("worker"), nodes: []*corev1.Node{node("a", at(old, old, mcfgv1.NodeDegraded)), node("b")}, want: "b", outdated: "a"},
		"no daemon":          {pool: pool("worker"), nodes: []*corev1.Node{node("a", unmanaged), node("b")}, outdated: "a b"},
		"a new node":         {pool: pool("worker"), nodes: []*corev1.Node{node("a", at("", "", mcfgv1.NodeDone))}, want: "a"},
		"paused":             {pool: pool("worker", paused), nodes: []*corev1.Node{node("a")}},
		"nothing rendered":   {pool: pool("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Configuration.Name = "" }), nodes: []*corev1.Node{node("a")}},
		"zones, then age": {
			pool:  pool("worker", most("10")),
			nodes: []*corev1.Node{node("a", aged(9)), node("b", zone("2"), aged(9)), node("c", zone("1"), aged(1)), node("d", zone("1"), aged(2)), node("e", aged(9))},
			want:  "d c b a e",
		},
		"itself last":     {pool: pool("master"), nodes: []*corev1.Node{node("a"), node("b"), node("c")}, self: "a", want: "b", deferred: "a", outdated: "a c"},
		"itself":          {pool: pool("master"), nodes: []*corev1.Node{node("a"), node("b", updated)}, self: "a", want: "a"},
		"itself, no room": {pool: pool("master"), nodes: []*corev1.Node{node("a"), node("b"), node("c", updating)}, self: "a", outdated: "a b"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			choice, err := Choose(c.pool, c.nodes, c.self)
			if err != nil {
				t.Fatal(err)
			}

			deferred := ""
			if choice.Deferred != nil {
				deferred = choice.Deferred.Name
			}
			if got := names(choice.Targets); got != c.want || deferred != c.deferred || names(choice.Outdated) != c.outdated {
				t.Errorf("chosen %q, deferred %q, outdated %q; want %q, %q, %q", got, deferred, names(choice.Outdated), c.want, c.deferred, c.outdated)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	many := func(n int, edits ...edit) []*corev1.Node {
		var nodes []*corev1.Node
		for i := range n {
			nodes = append(nodes, node(fmt.Sprintf("n%02d", i), edits...))
		}
		return nodes
	}

	cases := map[string]struct {
		pool     *mcfgv1.MachineConfigPool
		nodes    []*corev1.Node
		err      error
		want     string
		messages []string
	}{
		"updated":  {pool: pool("worker"), nodes: many(3, updated), want: "3 3 3 0 0 new: Updated", messages: []string{"All nodes are updated with MachineConfig " + target}},
		"empty":    {pool: pool("worker"), want: "0 0 0 0 0 new: Updated"},
		"updating": {pool: pool("worker"), nodes: []*corev1.Node{node("a", updated), node("b", updating, cordoned), node("c")}, want: "3 1 1 1 0 : Updating", messages: []string{"All nodes are updating to MachineConfig " + target}},
		"paused":   {pool: pool("worker", paused), nodes: many(2), want: "2 0 0 0 0 :", messages: []string{"Pool is paused; will not update to MachineConfig " + target}},
		// A paused pool without outdated nodes is reported as paused and updated.
		"paused and updated": {pool: pool("worker", paused), nodes: many(2, updated), want: "2 2 2 0 0 new: Updated"},
		"not back":           {pool: pool("worker"), nodes: []*corev1.Node{node("a", updated, notReady)}, want: "1 1 0 1 0 : Updating"},
		"draining": {
			pool: pool("worker"), nodes: []*corev1.Node{node("b", updating, cordoned, draining, because("Draining since noon: pod x/y")), node("a", updating, draining), node("c", failing, draining, because("disks"))},
			want:     "3 0 0 2 1 : Updating NodeDegraded Degraded",
			messages: []string{"All nodes are updating to MachineConfig " + target + ". Node b is not drained: Draining since noon: pod x/y\n", `Node c is reporting: "disks"`},
		},
		"draining and paused": {
			pool: pool("worker", paused), nodes: []*corev1.Node{node("b", updating, cordoned, draining, because("Draining since noon: pod x/y"))},
			want: "1 0 0 1 0 :", messages: []string{"Pool is paused; will not update to MachineConfig " + target + ". Node b is not drained: Draining since noon: pod x/y"},
		},
		"many draining": {pool: pool("worker"), nodes: many(30, updating, draining, because("pods")), want: "30 0 0 30 0 : Updating", messages: []string{"Node n19 is not drained: pods. 10 more nodes are not drained"}},
		"degraded": {
			pool: pool("worker"), nodes: []*corev1.Node{node("a", failing, because(`no "space"`)), node("b", at(old, target, mcfgv1.NodeUnreconcilable), because("disks"))},
			want:     "2 0 0 0 2 : Updating NodeDegraded Degraded",
			messages: []string{`Node a is reporting: "no \"space\"", Node b is reporting: "disks"`, "2 nodes are reporting degraded status on sync"},
		},
		"many degraded":   {pool: pool("worker"), nodes: many(30, failing), want: "30 0 0 0 30 : Updating NodeDegraded Degraded", messages: []string{"and 10 more"}},
		"not rendered":    {pool: pool("worker"), nodes: many(1, updated), err: errors.New("no"), want: "1 1 1 0 0 new: Updated RenderDegraded Degraded", messages: []string{"Failed to render configuration for pool worker: no"}},
		"never rendered":  {pool: pool("worker", func(p *mcfgv1.MachineConfigPool) { p.Spec.Configuration.Name = "" }), nodes: many(1), want: "1 0 0 0 0 :"},
		"without daemons": {pool: pool("worker"), nodes: many(2, unmanaged), want: "2 0 0 2 0 : Updating"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Status(c.pool, c.nodes, c.err, now)
			var is, messages []string
			for _, condition := range s.Conditions {
				if condition.Status == metav1.ConditionTrue {
					is = append(is, condition.Type)
				}
				messages = append(messages, condition.Reason, condition.Message)
			}

			got := strings.TrimSpace(fmt.Sprintf("%d %d %d %d %d %s: %s", s.MachineCount, s.UpdatedMachineCount, s.ReadyMachineCount, s.UnavailableMachineCount,
				s.DegradedMachineCount, strings.TrimPrefix(s.Configuration.Name, "rendered-worker-"), strings.Join(is, " ")))
			if got != c.want {
				t.Errorf("status is %q, want %q", got, c.want)
			}

			for _, text := range c.messages {
				if !strings.Contains(strings.Join(messages, "\n"), text) {
					t.Errorf("got the messages\n%s\nwant %q", strings.Join(messages, "\n"), text)
				}
			}

			if len(s.Conditions) != 5 || s.ObservedGeneration != 3 {
				t.Errorf("got conditions %v and observed generation %d, want 5 conditions and generation 3", s.Conditions, s.ObservedGeneration)
			}
		})
	}
}

// The status keeps the old configuration until all nodes are updated, and the transition time of each condition that
// does not change.
func TestStatusKeeps(t *testing.T) {
	p := pool("worker")
	p.Spec.Configuration.Name = old
	p.Status = Status(p, []*corev1.Node{node("a")}, nil, now)
	p.Spec.Configuration.Name = target
	later := metav1.NewTime(now.Add(time.Hour))
	p.Status = Status(p, []*corev1.Node{node("a", updating)}, nil, later)
	if p.Status.Configuration.Name != old {
		t.Errorf("got status.configuration %s while nodes are updating, want %s", p.Status.Configuration.Name, old)
	}

	for _, c := range p.Status.Conditions {
		isChanged := c.Type == mcfgv1.PoolUpdated || c.Type == mcfgv1.PoolUpdating
		if got := c.LastTransitionTime; isChanged != got.Equal(&later) {
			t.Errorf("%s %s: got transition time %s, want a new one only if the status changed: %v", c.Type, c.Status, got, isChanged)
		}
	}

	p.Status = Unreadable(p, errors.New("no"), later)
	if !Is(p, mcfgv1.PoolDegraded) || !Is(p, mcfgv1.PoolUpdating) || p.Status.MachineCount != 1 {
		t.Errorf("got status %+v of an unreadable pool, want it degraded with its previous counts", p.Status)
	}
}

// A new machine gets a configuration that a node has applied successfully.
func TestJoining(t *testing.T) {
	for _, c := range []struct {
		wanted, last string
		updated      int32
		want         string
	}{
		{wanted: target, last: old, updated: 1, want: target}, {wanted: target, last: old, want: old},
		{wanted: target, want: target}, {want: ""}, {wanted: target, last: target, updated: 3, want: target},
	} {
		p := pool("worker")
		p.Spec.Configuration.Name, p.Status.Configuration.Name, p.Status.UpdatedMachineCount = c.wanted, c.last, c.updated
		if got := Joining(p); got != c.want {
			t.Errorf("%+v: got configuration %q of a new machine, want %q", c, got, c.want)
		}
	}
}

func TestPhases(t *testing.T) {
	drains := func(applied string) edit {
		return func(n *corev1.Node) {
			n.Annotations[mcfgv1.AnnotationDesiredDrain] = mcfgv1.DrainPrefix + target
			n.Annotations[mcfgv1.AnnotationLastAppliedDrain] = applied
		}
	}

	for _, c := range []struct {
		node   *corev1.Node
		paused bool
		want   Phase
	}{
		{node: node("a"), want: PhasePending}, {node: node("a"), paused: true, want: PhasePaused}, {node: node("a", updated), want: PhaseUpdated},
		{node: node("a", updating), want: PhaseUpdating}, {node: node("a", updating, drains("")), want: PhaseDraining},
		{node: node("a", updating, drains(mcfgv1.DrainPrefix+target)), paused: true, want: PhaseUpdating},
		{node: node("a", at(old, target, mcfgv1.NodeRebooting), drains(mcfgv1.DrainPrefix+target)), want: PhaseRebooting},
	} {
		if got := PhaseOf(c.node, target, c.paused); got != c.want {
			t.Errorf("%v: got phase %s, want %s", c.node.Annotations, got, c.want)
		}
	}
}

// The chosen nodes never exceed the allowed number of unavailable nodes, for any states of the nodes.
func FuzzChoose(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, uint8(3))
	f.Fuzz(func(t *testing.T, states []byte, allowed uint8) {
		if len(states) > 64 {
			t.Skip("the input exceeds the size that this test covers")
		}

		kinds := [][]edit{
			{}, {updated}, {updating}, {failing}, {notReady}, {cordoned}, {unmanaged}, {failing, cordoned},
			{at(old, "bad", mcfgv1.NodeDegraded)}, {at(old, "bad", mcfgv1.NodeDegraded), cordoned}, {at(old, old, mcfgv1.NodeDegraded)}, {updated, cordoned},
		}
		var nodes []*corev1.Node
		before := 0
		for i, s := range states {
			n := node(fmt.Sprintf("n%02d", i), kinds[int(s)%len(kinds)]...)
			nodes = append(nodes, n)
			if IsUnavailable(n) || (IsFailing(n) && Desired(n) != Current(n)) {
				before++
			}
		}

		p := pool("worker", most(strconv.Itoa(int(allowed))))
		choice, err := Choose(p, nodes, "n01")
		if err != nil {
			t.Fatal(err)
		}

		after := 0
		for _, n := range nodes {
			isTarget := slices.Contains(choice.Targets, n)
			if isTarget && Desired(n) == target {
				t.Errorf("got target %s, whose desired configuration is already set", n.Name)
			}
			if isTarget || IsUnavailable(n) || (IsFailing(n) && Desired(n) != Current(n)) {
				after++
			}
		}

		if limit := max(int(allowed), 1); after > max(limit, before) {
			t.Errorf("got %d unavailable nodes with %d before, want at most %d", after, before, max(limit, before))
		}
	})
}
