package drain

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// kit is a node to drain, and a clock.
type kit struct {
	*env.Fixture
	r      *reconcile.ObjectReconciler[*corev1.Node, facts, *decision]
	clock  *clocktesting.FakePassiveClock
	events chan string
	// recorder fills events.
	recorder events.EventRecorder
	node     string
}

func newKit(t *testing.T, node string) *kit {
	t.Helper()
	c := env.NewFixture(t, corev1.AddToScheme, policyv1.AddToScheme)
	recorder := events.NewFakeRecorder(1000)
	k := &kit{Fixture: c, node: node, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)), events: recorder.Events}
	k.recorder = recorder
	k.startController()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	k.Must(c.Create(t.Context(), n))
	t.Cleanup(func() {
		ctx := context.Background()
		_ = c.Delete(ctx, n) // the next test says so if it is still there
		_ = c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))
		_ = c.DeleteAllOf(ctx, &policyv1.PodDisruptionBudget{}, client.InNamespace("default"))
	})

	return k
}

// startController starts a controller that knows of no drain.
func (k *kit) startController() {
	r := &reconciler{client: k.Client, reader: k.Client, events: k.recorder, clock: k.clock, drains: drainTracker{nodes: map[string]drainProgress{}}}
	k.r = r.newObjectReconciler()
}

func (k *kit) get() *corev1.Node {
	k.T.Helper()
	n := &corev1.Node{}
	k.Must(k.Get(k.T.Context(), client.ObjectKey{Name: k.node}, n))
	return n
}

func (k *kit) ask(what string) {
	k.T.Helper()
	n := k.get()
	before := n.DeepCopy()
	n.Annotations = map[string]string{mcfgv1.AnnotationDesiredDrain: what}
	k.Must(k.Patch(k.T.Context(), n, client.MergeFrom(before)))
}

// look has the controller look once, and gives when it looks again.
func (k *kit) look() time.Duration {
	k.T.Helper()
	result, err := k.r.Reconcile(k.T.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: k.node}})
	k.Must(err)
	return result.RequeueAfter
}

func (k *kit) pod(name string, grace int64, labels map[string]string) {
	k.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
	p.Spec = corev1.PodSpec{NodeName: k.node, TerminationGracePeriodSeconds: ptr.To(grace), Containers: []corev1.Container{{Name: "a", Image: "a"}}}
	k.Must(k.Create(k.T.Context(), p))
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	k.Must(k.Status().Update(k.T.Context(), p))
}

// said returns the reasons of the events so far, and all of their text.
func (k *kit) said() (reasons []string, text string) {
	for {
		select {
		case e := <-k.events:
			reasons = append(reasons, strings.Fields(e)[1])
			text += e + "\n"
		default:
			return reasons, text
		}
	}
}

func (k *kit) done(what string) bool {
	return k.get().Annotations[mcfgv1.AnnotationLastAppliedDrain] == what
}

// hasReason expects that the node says what blocks its drain, from some seconds after the drain
// began, and that it failed after an hour.
func (k *kit) hasReason(blocker string, since time.Duration) {
	k.T.Helper()
	reason, want := k.get().Annotations[mcfgv1.AnnotationReason], ""
	switch {
	case since >= failedAfter:
		want = "failed to drain node: " + k.node + " after 1 hour. " + blocker
	case since >= blockedAfter:
		want = blocker
	}

	// A look is due within the longest pause.
	isDue := since >= failedAfter && since < failedAfter+slowDrainRetryInterval+attemptTimeout && reason == blocker
	if reason != want && !isDue {
		k.T.Fatalf("after %s the node's reason is %q, want %q", since, reason, want)
	}
}

// failures returns how many nodes the metric counts.
func failures(t *testing.T) float64 {
	t.Helper()
	registerMetrics()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "mcc_drain_err" {
				sum += m.GetGauge().GetValue()
			}
		}
	}

	return sum
}

func TestDrainAndUncordon(t *testing.T) {
	k := newKit(t, "plain")
	k.pod("a", 0, nil)
	k.ask("drain-x")
	if again := k.look(); again != 0 || !k.done("drain-x") || !k.get().Spec.Unschedulable {
		t.Errorf("after a drain: again in %s, %v", again, k.get().Annotations)
	}

	k.ask("uncordon-x")
	if again := k.look(); again != 0 || !k.done("uncordon-x") || k.get().Spec.Unschedulable {
		t.Errorf("after an uncordon: again in %s, %v", again, k.get().Annotations)
	}
	if reasons, _ := k.said(); !slices.Equal(reasons, []string{"Cordon", "Drain", "Uncordon"}) {
		t.Errorf("events are %v", reasons)
	}

	k.ask("explode-x")
	if again := k.look(); again != 0 || k.done("explode-x") {
		t.Errorf("what nobody knows is done, or tried again in %s", again)
	}
}

// A pod that ends slowly is waited for, and evicted once.
func TestSlowPod(t *testing.T) {
	k := newKit(t, "slow")
	k.pod("a", 30, nil)
	k.ask("drain-x")
	if again := k.look(); again != initialCheckInterval || k.done("drain-x") {
		t.Errorf("it is looked again in %s", again)
	}

	k.clock.SetTime(k.clock.Now().Add(initialCheckPeriod))
	if again := k.look(); again != checkInterval {
		t.Errorf("after some seconds it is looked again in %s", again)
	}

	k.Must(k.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}, client.GracePeriodSeconds(0)))
	if again := k.look(); again != 0 || !k.done("drain-x") {
		t.Errorf("after the pod has ended it is looked again in %s", again)
	}
}

// Pods that do not end are the reason from the end of the first attempt.
func TestReasonOfSlowPods(t *testing.T) {
	k := newKit(t, "slower")
	k.pod("a", 300, nil)
	k.ask("drain-x")
	k.look()
	k.clock.SetTime(k.clock.Now().Add(attemptTimeout - time.Second))
	k.look()
	if got := k.get().Annotations[mcfgv1.AnnotationReason]; got != "" {
		t.Errorf("during the first attempt the node's reason is %q, want none", got)
	}

	k.clock.SetTime(k.clock.Now().Add(time.Second))
	k.look()
	if got, want := k.get().Annotations[mcfgv1.AnnotationReason], "Draining since 2026-05-01T12:00:00Z: 1 pods have not ended yet"; got != want {
		t.Errorf("after the first attempt the node's reason is %q, want %q", got, want)
	}
}

// What is reported of a budget that never allows an eviction, and when.
func TestForbidden(t *testing.T) {
	k := newKit(t, "held")
	labels := map[string]string{"app": "held"}
	k.pod("held", 0, labels)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxUnavailable: &intstr.IntOrString{}}
	k.Must(k.Create(t.Context(), budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	k.Must(k.Status().Update(t.Context(), budget))
	k.ask("drain-x")
	var pauses []string
	seen := map[string]time.Duration{}
	begun := k.clock.Now()
	const blocker = "Draining since 2026-05-01T12:00:00Z: pod default/held cannot be evicted: The disruption budget held needs 1 healthy pods and has 1 currently"
	for k.clock.Since(begun) <= 70*time.Minute {
		again := k.look()
		reasons, text := k.said()
		for _, reason := range reasons {
			seen[reason] = cmp.Or(seen[reason], k.clock.Since(begun))
		}

		if slices.Contains(reasons, "FailedToDrain") {
			pauses = append(pauses, again.String())
			if want := "pod default/held cannot be evicted: The disruption budget held needs 1 healthy pods and has 1 currently"; !strings.Contains(text, want) {
				t.Fatalf("%q is not said in %q", want, text)
			}
		}
		k.hasReason(blocker, k.clock.Since(begun))
		k.clock.SetTime(k.clock.Now().Add(max(again, time.Second)))
	}

	// Another run of the program knows since when the node is drained.
	k.startController()
	k.look()
	k.clock.SetTime(k.clock.Now().Add(time.Minute))
	k.look()
	k.hasReason(blocker, k.clock.Since(begun))
	if k.done("drain-x") {
		t.Error("the drain is done though a pod is left")
	}
	// 90 s of an attempt and a minute; after ten minutes 90 s and five minutes.
	if got := fmt.Sprint(pauses[:6]); got != "[1m0s 1m0s 1m0s 1m0s 5m0s 5m0s]" {
		t.Errorf("pauses are %s", got)
	}
	if at := seen["DrainThresholdExceeded"]; at < slowAfter || at > slowAfter+attemptTimeout+attemptRetryInterval {
		t.Errorf("DrainThresholdExceeded comes after %s", at)
	}
	if at := seen["DrainFailed"]; at < failedAfter || at > failedAfter+attemptTimeout+slowDrainRetryInterval {
		t.Errorf("DrainFailed comes after %s", at)
	}
	if got := failures(t); got != 1 {
		t.Errorf("the metric is %v", got)
	}

	// Between attempts a node that somebody uncordons is cordoned again.
	n := k.get()
	before := n.DeepCopy()
	n.Spec.Unschedulable = false
	k.Must(k.Patch(t.Context(), n, client.MergeFrom(before)))
	k.look()
	if !k.get().Spec.Unschedulable {
		t.Error("the node is left uncordoned")
	}

	budget.Status.DisruptionsAllowed = 1
	k.Must(k.Status().Update(t.Context(), budget))
	k.clock.SetTime(k.clock.Now().Add(slowDrainRetryInterval))
	if k.look(); !k.done("drain-x") {
		t.Error("the drain is not done though the budget allows it")
	}

	for _, name := range []string{mcfgv1.AnnotationDrainStarted, mcfgv1.AnnotationReason} {
		if value := k.get().Annotations[name]; value != "" {
			t.Errorf("after the drain, %s is %q, want none", name, value)
		}
	}

	if got := failures(t); got != 0 {
		t.Errorf("the metric is still %v", got)
	}
}
