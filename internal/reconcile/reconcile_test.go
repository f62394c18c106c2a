package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

var order = reconcile.Conditions{olmv1.TypeProgressing, olmv1.TypeServing}

// catalogReconciler is a reconciler of ClusterCatalogs without facts and decisions.
type catalogReconciler = reconcile.ObjectReconciler[*olmv1.ClusterCatalog, struct{}, struct{}]

// newReconciler returns a reconciler whose execution is configured by a test. Its condition reports the error.
func newReconciler(c client.Client, execute func(context.Context, *olmv1.ClusterCatalog) error) *catalogReconciler {
	report := func(catalog *olmv1.ClusterCatalog, err error) {
		condition := metav1.Condition{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded}
		if err != nil {
			condition.Reason, condition.Message = reconcile.ReasonOf(err, olmv1.ReasonRetrying), err.Error()
		}
		order.Set(&catalog.Status.Conditions, catalog.Generation, condition)
	}

	return &catalogReconciler{
		Client:     c,
		New:        func() *olmv1.ClusterCatalog { return &olmv1.ClusterCatalog{} },
		Finalizers: []string{olmv1.FinalizerDeleteServerCache},
		Decide:     func(*olmv1.ClusterCatalog, struct{}) struct{} { return struct{}{} },
		Execute: func(ctx context.Context, catalog *olmv1.ClusterCatalog, _, _ struct{}) error {
			if execute == nil {
				return nil
			}
			return execute(ctx, catalog)
		},
		Report: func(catalog *olmv1.ClusterCatalog, _, _ struct{}, err error) []reconcile.Event {
			report(catalog, err)
			return nil
		},
		ReportDeletion: report,
		ResyncAfter:    func(*olmv1.ClusterCatalog, struct{}, struct{}) time.Duration { return time.Hour },
	}
}

func TestOutcomes(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	cause := errors.New("the registry does not answer")
	for _, tc := range []struct {
		name     string
		err      error
		after    time.Duration
		retries  bool
		terminal bool
		want     string
	}{
		{name: "success", after: time.Hour, want: "Succeeded "},
		{name: "plain", err: cause, retries: true, want: "Retrying the registry does not answer"},
		{name: "retry", err: reconcile.Retry("Unreachable", cause), retries: true, want: "Unreachable the registry does not answer"},
		{name: "wait", err: reconcile.Wait("Waiting", time.Minute, cause), after: time.Minute, want: "Waiting the registry does not answer"},
		{name: "stop", err: reconcile.Stop("Blocked", cause), retries: true, terminal: true, want: "Blocked the registry does not answer"},
		{name: "wrapped", err: fmt.Errorf("catalog %q: %w", "a", reconcile.Stop("Blocked", cause)), retries: true, terminal: true, want: `Blocked catalog "a": the registry does not answer`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			catalog := create(t, c, "outcome-"+tc.name)
			result, err := newReconciler(c, func(context.Context, *olmv1.ClusterCatalog) error { return tc.err }).Reconcile(t.Context(), request(catalog))
			if (err != nil) != tc.retries || errors.Is(err, ctrlreconcile.TerminalError(nil)) != tc.terminal {
				t.Errorf("got error %v", err)
			}
			if tc.retries && !errors.Is(err, cause) {
				t.Errorf("the cause is lost: %v", err)
			}
			if result.RequeueAfter != tc.after {
				t.Errorf("got a requeue after %s, want %s", result.RequeueAfter, tc.after)
			}

			get(t, c, catalog)
			got := catalog.Status.Conditions[0]
			if s := got.Reason + " " + got.Message; s != tc.want || got.ObservedGeneration != catalog.Generation {
				t.Errorf("got condition %q, observed at %d; want %q at %d", s, got.ObservedGeneration, tc.want, catalog.Generation)
			}
		})
	}
}

func TestAnUnchangedStatusIsNotWritten(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	catalog := create(t, c, "unchanged")
	r := newReconciler(c, nil)
	reconcileOnce(t, r, catalog)
	get(t, c, catalog)
	before := catalog.ResourceVersion
	reconcileOnce(t, r, catalog)
	get(t, c, catalog)
	if catalog.ResourceVersion != before {
		t.Error("the second reconciliation wrote the object")
	}
}

func TestFinalizersHoldTheObjectUntilFinalizeSucceeds(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	catalog := create(t, c, "finalizers")
	r := newReconciler(c, nil)
	ready := false
	r.Finalize = func(context.Context, *olmv1.ClusterCatalog) error {
		if !ready {
			return reconcile.Wait("Removing", time.Second, errors.New("content is in use"))
		}
		return nil
	}

	reconcileOnce(t, r, catalog)
	get(t, c, catalog)
	if diff := cmp.Diff([]string{olmv1.FinalizerDeleteServerCache}, catalog.Finalizers); diff != "" {
		t.Fatalf("finalizers (-want +got):\n%s", diff)
	}
	if err := c.Delete(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	reconcileOnce(t, r, catalog)
	get(t, c, catalog)
	if got := catalog.Status.Conditions[0]; got.Reason != "Removing" || got.Message != "content is in use" {
		t.Errorf("a removal that waits is not reported: %+v", got)
	}

	ready = true
	reconcileOnce(t, r, catalog)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(catalog), catalog); !apierrors.IsNotFound(err) {
		t.Errorf("the object still exists: %v", err)
	}
}

// Two controllers both act as the leader: the one that has read the
// older object writes nothing.
func TestAStaleStatusIsNotWritten(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	catalog := create(t, c, "stale")
	r := newReconciler(c, func(ctx context.Context, seen *olmv1.ClusterCatalog) error {
		other := seen.DeepCopy()
		order.Set(&other.Status.Conditions, other.Generation, metav1.Condition{
			Type: olmv1.TypeServing, Status: metav1.ConditionTrue, Reason: "Other",
		})
		return c.Status().Update(ctx, other)
	})
	if _, err := r.Reconcile(t.Context(), request(catalog)); err != nil && !apierrors.IsConflict(err) {
		t.Fatal(err)
	}

	get(t, c, catalog)
	if n := len(catalog.Status.Conditions); n != 1 || catalog.Status.Conditions[0].Reason != "Other" {
		t.Errorf("the status of the other controller was overwritten: %+v", catalog.Status.Conditions)
	}
}

func TestConditions(t *testing.T) {
	var conditions []metav1.Condition
	order.Set(&conditions, 1, metav1.Condition{Type: olmv1.TypeServing, Status: metav1.ConditionTrue, Reason: "A"})
	order.Set(&conditions, 1, metav1.Condition{Type: "Other", Status: metav1.ConditionTrue, Reason: "A"})
	order.Set(&conditions, 2, metav1.Condition{
		Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: "A", Message: "start " + strings.Repeat("é", 10000) + " end",
	})
	var types []string
	for _, c := range conditions {
		types = append(types, c.Type)
	}

	if diff := cmp.Diff([]string{"Progressing", "Serving", "Other"}, types); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}

	message := conditions[0].Message
	if len(message) > 4096 || !strings.HasPrefix(message, "start ") || !strings.HasSuffix(message, " end") || !strings.Contains(message, "bytes left out") {
		t.Errorf("a message of %d bytes: got %d bytes: %.60q", 20010, len(message), message)
	}
	if strings.Contains(message, "�") || strings.ToValidUTF8(message, "") != message {
		t.Error("a character was split")
	}
}

func create(t *testing.T, c client.Client, name string) *olmv1.ClusterCatalog {
	t.Helper()
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}
	catalog.Spec.Source = olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: "quay.io/example/catalog:v1"}}
	if err := c.Create(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	return catalog
}

func get(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

func request(object client.Object) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

func reconcileOnce(t *testing.T, r *catalogReconciler, object client.Object) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), request(object)); err != nil {
		t.Fatal(err)
	}
}

// TestAPassingStatusIsWrittenLater: a temporary status is written only if it still applies after a delay.
func TestAPassingStatusIsWrittenLater(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	outcome := reconcile.Wait("Waiting", time.Minute, errors.New("first"))
	r := newReconciler(c, func(context.Context, *olmv1.ClusterCatalog) error { return outcome })
	r.IsTransient = func(_ *olmv1.ClusterCatalog, err error) bool { return reconcile.IsWait(err) }
	r.StatusDelays = &reconcile.StatusDelays{Clock: clock}
	catalog := create(t, c, "passing")
	// step advances the clock and reconciles. It returns the requeue interval and the
	// condition's message.
	step := func(later time.Duration) (time.Duration, string) {
		t.Helper()
		clock.SetTime(clock.Now().Add(later))
		result, err := r.Reconcile(t.Context(), request(catalog))
		if err != nil {
			t.Fatal(err)
		}

		get(t, c, catalog)
		if len(catalog.Status.Conditions) == 0 {
			return result.RequeueAfter, ""
		}

		return result.RequeueAfter, catalog.Status.Conditions[0].Message
	}

	expect := func(what string, later, wantAfter time.Duration, wantMessage string) {
		t.Helper()
		if after, message := step(later); after != wantAfter || message != wantMessage {
			t.Errorf("%s: got a requeue after %s with message %q, want %s and %q", what, after, message, wantAfter, wantMessage)
		}
	}

	expect("first", 0, 500*time.Millisecond, "")
	outcome = reconcile.Wait("Waiting", time.Minute, errors.New("second"))
	expect("another one before the delay", 200*time.Millisecond, 300*time.Millisecond, "")
	expect("after the delay", 300*time.Millisecond, time.Minute, "second")
	expect("unchanged", time.Second, time.Minute, "second")
	outcome = reconcile.Wait("Waiting", time.Minute, errors.New("third"))
	expect("the next one", 0, 500*time.Millisecond, "second")
	expect("the clock set back", -time.Hour, time.Minute, "third")
	outcome = reconcile.Wait("Waiting", time.Minute, errors.New("fourth"))
	expect("another one", 0, 500*time.Millisecond, "third")
	outcome = nil
	expect("a permanent status", 0, time.Hour, "")

	removal := reconcile.Wait("Removing", time.Minute, errors.New("fifth"))
	r.Finalize = func(context.Context, *olmv1.ClusterCatalog) error { return removal }
	if err := c.Delete(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	expect("a removal", 0, 500*time.Millisecond, "")
	expect("a removal that takes longer", 500*time.Millisecond, time.Minute, "fifth")
	removal = nil
	if _, err := r.Reconcile(t.Context(), request(catalog)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), request(catalog).NamespacedName, catalog); !apierrors.IsNotFound(err) {
		t.Errorf("the removal does not end: %v", err)
	}
}
