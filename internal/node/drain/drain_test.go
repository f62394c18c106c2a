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

// fixture is a node to drain, and a clock.
type fixture struct {
	*env.Fixture
	r      *reconcile.ObjectReconciler[*corev1.Node, facts, *decision]
	clock  *clocktesting.FakePassiveClock
	events chan string
	// recorder writes to events.
	recorder events.EventRecorder
	node     string
}

func newFixture(t *testing.T, node string) *fixture {
	t.Helper()
	c := env.NewFixture(t, corev1.AddToScheme, policyv1.AddToScheme)
	recorder := events.NewFakeRecorder(1000)
	f := &fixture{Fixture: c, node: node, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)), events: recorder.Events}
	f.recorder = recorder
	f.startController()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	f.Must(c.Create(t.Context(), n))
	t.Cleanup(func() {
		ctx := context.Background()
		_ = c.Delete(ctx, n) // If the deletion fails, creating the node in the next test fails.
		_ = c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default"), client.GracePeriodSeconds(0))
		_ = c.DeleteAllOf(ctx, &policyv1.PodDisruptionBudget{}, client.InNamespace("default"))
	})

	return f
}

// startController starts a controller, as after a restart of the program.
func (f *fixture) startController() {
	r := &reconciler{client: f.Client, reader: f.Client, events: f.recorder, clock: f.clock, drains: drainTracker{nodes: map[string]drainProgress{}}}
	f.r = r.newObjectReconciler()
}

func (f *fixture) get() *corev1.Node {
	f.T.Helper()
	n := &corev1.Node{}
	f.Must(f.Get(f.T.Context(), client.ObjectKey{Name: f.node}, n))
	return n
}

func (f *fixture) setDesiredDrain(what string) {
	f.T.Helper()
	n := f.get()
	f.PatchObject(n, func() { n.Annotations = map[string]string{mcfgv1.AnnotationDesiredDrain: what} })
}

// reconcileNode runs one pass and returns the time until the next one.
func (f *fixture) reconcileNode() time.Duration {
	f.T.Helper()
	result, err := f.r.Reconcile(f.T.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: f.node}})
	f.Must(err)
	return result.RequeueAfter
}

func (f *fixture) pod(name string, grace int64, labels map[string]string) {
	f.T.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}}
	p.Spec = corev1.PodSpec{NodeName: f.node, TerminationGracePeriodSeconds: ptr.To(grace), Containers: []corev1.Container{{Name: "a", Image: "a"}}}
	f.Must(f.Create(f.T.Context(), p))
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	f.Must(f.Status().Update(f.T.Context(), p))
}

// receivedEvents returns the reasons of the events since the last call, and their complete text.
func (f *fixture) receivedEvents() (reasons []string, text string) {
	for {
		select {
		case e := <-f.events:
			reasons = append(reasons, strings.Fields(e)[1])
			text += e + "\n"
		default:
			return reasons, text
		}
	}
}

func (f *fixture) isDone(what string) bool {
	return f.get().Annotations[mcfgv1.AnnotationLastAppliedDrain] == what
}

// hasReason checks that the node reports what blocks its drain, from some seconds after the drain began, and that the drain is
// reported as failed after an hour.
func (f *fixture) hasReason(blocker string, since time.Duration) {
	f.T.Helper()
	reason, want := f.get().Annotations[mcfgv1.AnnotationReason], ""
	switch {
	case since >= failedAfter:
		want = "failed to drain node: " + f.node + " after 1 hour. " + blocker
	case since >= blockedAfter:
		want = blocker
	}

	// A pass is due within the longest interval.
	isDue := since >= failedAfter && since < failedAfter+slowDrainRetryInterval+attemptTimeout && reason == blocker
	if reason != want && !isDue {
		f.T.Fatalf("after %s the node's reason is %q, want %q", since, reason, want)
	}
}

// failures returns the number of nodes that the metric counts.
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
	f := newFixture(t, "plain")
	f.pod("a", 0, nil)
	f.setDesiredDrain("drain-x")
	if again := f.reconcileNode(); again != 0 || !f.isDone("drain-x") || !f.get().Spec.Unschedulable {
		t.Errorf("after a drain: got requeue after %s and annotations %v, want no requeue and a completed drain", again, f.get().Annotations)
	}

	f.setDesiredDrain("uncordon-x")
	if again := f.reconcileNode(); again != 0 || !f.isDone("uncordon-x") || f.get().Spec.Unschedulable {
		t.Errorf("after an uncordon: got requeue after %s and annotations %v, want no requeue and a completed uncordon", again, f.get().Annotations)
	}
	if reasons, _ := f.receivedEvents(); !slices.Equal(reasons, []string{"Cordon", "Drain", "Uncordon"}) {
		t.Errorf("got events %v, want Cordon, Drain and Uncordon", reasons)
	}

	f.setDesiredDrain("explode-x")
	if again := f.reconcileNode(); again != 0 || f.isDone("explode-x") {
		t.Errorf("an unknown request is completed, or retried after %s; want it to be ignored", again)
	}
}

// The drain waits for a pod that terminates slowly, and evicts it once.
func TestSlowPod(t *testing.T) {
	f := newFixture(t, "slow")
	f.pod("a", 30, nil)
	f.setDesiredDrain("drain-x")
	if again := f.reconcileNode(); again != initialCheckInterval || f.isDone("drain-x") {
		t.Errorf("got requeue after %s, want %s and an incomplete drain", again, initialCheckInterval)
	}

	f.clock.SetTime(f.clock.Now().Add(initialCheckPeriod))
	if again := f.reconcileNode(); again != checkInterval {
		t.Errorf("after %s: got requeue after %s, want %s", initialCheckPeriod, again, checkInterval)
	}

	f.Must(f.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}, client.GracePeriodSeconds(0)))
	if again := f.reconcileNode(); again != 0 || !f.isDone("drain-x") {
		t.Errorf("after the pod has ended: got requeue after %s, want none and a completed drain", again)
	}
}

// Pods that do not terminate are reported from the end of the first attempt.
func TestReasonOfSlowPods(t *testing.T) {
	f := newFixture(t, "slower")
	f.pod("a", 300, nil)
	f.setDesiredDrain("drain-x")
	f.reconcileNode()
	f.clock.SetTime(f.clock.Now().Add(attemptTimeout - time.Second))
	f.reconcileNode()
	if got := f.get().Annotations[mcfgv1.AnnotationReason]; got != "" {
		t.Errorf("during the first attempt: got reason %q of the node, want none", got)
	}

	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.reconcileNode()
	if got, want := f.get().Annotations[mcfgv1.AnnotationReason], "Draining since 2026-05-01T12:00:00Z: 1 pods have not ended yet"; got != want {
		t.Errorf("after the first attempt: got reason %q of the node, want %q", got, want)
	}
}

// A budget that never allows an eviction is reported.
func TestForbidden(t *testing.T) {
	f := newFixture(t, "held")
	labels := map[string]string{"app": "held"}
	f.pod("held", 0, labels)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "held"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MaxUnavailable: &intstr.IntOrString{}}
	f.Must(f.Create(t.Context(), budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	f.Must(f.Status().Update(t.Context(), budget))
	f.setDesiredDrain("drain-x")
	var pauses []string
	seen := map[string]time.Duration{}
	begun := f.clock.Now()
	const blocker = "Draining since 2026-05-01T12:00:00Z: pod default/held cannot be evicted: The disruption budget held needs 1 healthy pods and has 1 currently"
	for f.clock.Since(begun) <= 70*time.Minute {
		again := f.reconcileNode()
		reasons, text := f.receivedEvents()
		for _, reason := range reasons {
			seen[reason] = cmp.Or(seen[reason], f.clock.Since(begun))
		}

		if slices.Contains(reasons, "FailedToDrain") {
			pauses = append(pauses, again.String())
			if want := "pod default/held cannot be evicted: The disruption budget held needs 1 healthy pods and has 1 currently"; !strings.Contains(text, want) {
				t.Fatalf("got events %q, want %q", text, want)
			}
		}
		f.hasReason(blocker, f.clock.Since(begun))
		f.clock.SetTime(f.clock.Now().Add(max(again, time.Second)))
	}

	// After a restart, the program knows the start time of the drain.
	f.startController()
	f.reconcileNode()
	f.clock.SetTime(f.clock.Now().Add(time.Minute))
	f.reconcileNode()
	f.hasReason(blocker, f.clock.Since(begun))
	if f.isDone("drain-x") {
		t.Error("the drain is completed while a pod remains, want it to wait")
	}
	// An attempt takes 90 s, with a pause of one minute; after ten minutes the pause is five minutes.
	if got := fmt.Sprint(pauses[:6]); got != "[1m0s 1m0s 1m0s 1m0s 5m0s 5m0s]" {
		t.Errorf("got pauses %s, want four of one minute and two of five minutes", got)
	}
	if at := seen["DrainThresholdExceeded"]; at < slowAfter || at > slowAfter+attemptTimeout+attemptRetryInterval {
		t.Errorf("got DrainThresholdExceeded after %s, want it in the first attempt after %s", at, slowAfter)
	}
	if at := seen["DrainFailed"]; at < failedAfter || at > failedAfter+attemptTimeout+slowDrainRetryInterval {
		t.Errorf("got DrainFailed after %s, want it in the first attempt after %s", at, failedAfter)
	}
	if got := failures(t); got != 1 {
		t.Errorf("got %v failed drains in the metric, want 1", got)
	}

	// Between attempts, a node that a user uncordons is cordoned again.
	n := f.get()
	f.PatchObject(n, func() { n.Spec.Unschedulable = false })
	f.reconcileNode()
	if !f.get().Spec.Unschedulable {
		t.Error("the node remains uncordoned, want it to be cordoned again")
	}

	budget.Status.DisruptionsAllowed = 1
	f.Must(f.Status().Update(t.Context(), budget))
	f.clock.SetTime(f.clock.Now().Add(slowDrainRetryInterval))
	if f.reconcileNode(); !f.isDone("drain-x") {
		t.Error("the drain is not completed, want it completed when the budget allows evictions")
	}

	for _, name := range []string{mcfgv1.AnnotationDrainStarted, mcfgv1.AnnotationReason} {
		if value := f.get().Annotations[name]; value != "" {
			t.Errorf("after the drain: got %s %q, want none", name, value)
		}
	}

	if got := failures(t); got != 0 {
		t.Errorf("got %v failed drains in the metric after the drain, want 0", got)
	}
}
