package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// catalogFacts and catalogDecision are the facts and the decision of newCatalogReconciler.
type (
	catalogFacts    struct{ priority int32 }
	catalogDecision struct{ serve bool }
)

// newCatalogReconciler returns a reconciler that serves the catalogs with a positive priority.
// A test configures whether execute fails.
func newCatalogReconciler(c client.Client, execute func() error) *reconcile.ObjectReconciler[*olmv1.ClusterCatalog, catalogFacts, catalogDecision] {
	return &reconcile.ObjectReconciler[*olmv1.ClusterCatalog, catalogFacts, catalogDecision]{
		Client:     c,
		New:        func() *olmv1.ClusterCatalog { return &olmv1.ClusterCatalog{} },
		Finalizers: []string{olmv1.FinalizerDeleteServerCache},
		Gather: func(_ context.Context, catalog *olmv1.ClusterCatalog) (catalogFacts, error) {
			return catalogFacts{priority: catalog.Spec.Priority}, nil
		},
		Decide: func(_ *olmv1.ClusterCatalog, f catalogFacts) catalogDecision {
			return catalogDecision{serve: f.priority > 0}
		},
		Execute: func(context.Context, *olmv1.ClusterCatalog, catalogFacts, catalogDecision) error { return execute() },
		Report: func(catalog *olmv1.ClusterCatalog, _ catalogFacts, d catalogDecision, err error) []reconcile.Event {
			condition := metav1.Condition{Type: olmv1.TypeServing, Status: metav1.ConditionFalse, Reason: olmv1.ReasonUnavailable}
			if err != nil {
				condition.Message = err.Error()
			} else if d.serve {
				condition.Status, condition.Reason = metav1.ConditionTrue, olmv1.ReasonAvailable
			}
			order.Set(&catalog.Status.Conditions, catalog.Generation, condition)
			return []reconcile.Event{{Reason: "Reported", Action: "Serve", Note: strings.Repeat("ä", 600), Warning: err != nil}}
		},
		ResyncAfter: func(*olmv1.ClusterCatalog, catalogFacts, catalogDecision) time.Duration { return time.Hour },
	}
}

func TestObjectReconcilerReportsItsDecision(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	catalog := create(t, c, "decision")
	catalog.Spec.Priority = 1
	if err := c.Update(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}

	var failure error
	recorder := events.NewFakeRecorder(10)
	r := newCatalogReconciler(c, func() error { return failure })
	r.Events = recorder
	var observed []error
	r.Observe = func(err error) { observed = append(observed, err) }

	result, err := r.Reconcile(t.Context(), request(catalog))
	if err != nil || result.RequeueAfter != time.Hour {
		t.Fatalf("the first pass: got %v, error %v", result, err)
	}
	get(t, c, catalog)
	if got := catalog.Status.Conditions[0]; got.Status != metav1.ConditionTrue || !slices.Contains(catalog.Finalizers, olmv1.FinalizerDeleteServerCache) {
		t.Errorf("got condition %v, finalizers %v", got, catalog.Finalizers)
	}
	if note := <-recorder.Events; len(note) > len("Normal Reported ")+1024 || !strings.HasSuffix(note, "…") {
		t.Errorf("got an event of %d bytes, want it truncated", len(note))
	}

	failure = reconcile.Stop("Blocked", errors.New("a person must act"))
	if _, err := r.Reconcile(t.Context(), request(catalog)); !errors.Is(err, ctrlreconcile.TerminalError(nil)) {
		t.Errorf("got an error that is retried: %v", err)
	}
	get(t, c, catalog)
	if got := catalog.Status.Conditions[0]; got.Message != "a person must act" {
		t.Errorf("got the condition %v", got)
	}
	if note := <-recorder.Events; !strings.HasPrefix(note, "Warning Reported") {
		t.Errorf("got the event %q", note)
	}
	if len(observed) != 2 || observed[0] != nil || observed[1] == nil {
		t.Errorf("got the observed errors %v", observed)
	}
}

// A status that was computed from an outdated object is not written, and the pass is repeated.
func TestObjectReconcilerRepeatsAfterAConflict(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	catalog := create(t, c, "conflict")
	other := catalog.DeepCopy()
	r := newCatalogReconciler(c, func() error {
		get(t, c, other)
		other.Spec.Priority = 7
		return errors.Join(c.Update(t.Context(), other), errors.New("the outdated pass"))
	})
	r.Events = events.NewFakeRecorder(1)
	var observed error
	r.Observe = func(err error) { observed = err }

	result, err := r.Reconcile(t.Context(), request(catalog))
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute || observed != nil {
		t.Errorf("after a conflict: got %v, error %v, observed %v", result, err, observed)
	}
	get(t, c, catalog)
	if len(catalog.Status.Conditions) != 0 {
		t.Errorf("the outdated status was written: %v", catalog.Status.Conditions)
	}
}

// With a live reader, the status is written although only the metadata has changed. Another change still repeats the pass.
func TestObjectReconcilerWritesDespiteChangedMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*olmv1.ClusterCatalog)
		written bool
	}{
		"a label":  {edit: func(catalog *olmv1.ClusterCatalog) { catalog.Labels = map[string]string{"other": "yes"} }, written: true},
		"the spec": {edit: func(catalog *olmv1.ClusterCatalog) { catalog.Spec.Priority = 7 }},
		"a deletion": {edit: func(catalog *olmv1.ClusterCatalog) {
			catalog.Finalizers = append(catalog.Finalizers, "example.com/kept")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			api := env.Client(t, olmv1.AddToScheme)
			catalog := create(t, api, "metadata-"+strings.ReplaceAll(name, " ", "-"))
			other := catalog.DeepCopy()
			r := newCatalogReconciler(api, func() error {
				get(t, api, other)
				c.edit(other)
				err := api.Update(t.Context(), other)
				if name == "a deletion" {
					err = errors.Join(err, api.Delete(t.Context(), other))
				}
				return err
			})
			r.Live, r.Events = api, events.NewFakeRecorder(1)

			result, err := r.Reconcile(t.Context(), request(catalog))
			get(t, api, catalog)
			if written := len(catalog.Status.Conditions) > 0; err != nil || written != c.written {
				t.Errorf("after a change of %s: got status written %t, %v, %v, want written %t", name, written, result, err, c.written)
			}
			if c.written && catalog.Labels["other"] != "yes" {
				t.Errorf("got labels %v, want the label of the other writer", catalog.Labels)
			}
		})
	}
}

func TestObjectReconcilerFinalizesAndForgets(t *testing.T) {
	c := env.Client(t, olmv1.AddToScheme)
	catalog := create(t, c, "forgotten")
	r := newCatalogReconciler(c, func() error { return nil })
	r.Events = events.NewFakeRecorder(10)
	blocked := errors.New("content is in use")
	r.Finalize = func(context.Context, *olmv1.ClusterCatalog) error { return blocked }
	r.ReportDeletion = func(catalog *olmv1.ClusterCatalog, err error) {
		order.Set(&catalog.Status.Conditions, catalog.Generation, metav1.Condition{Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: "Removing", Message: err.Error()})
	}
	var forgotten []string
	r.Forget = func(_ context.Context, name types.NamespacedName) error {
		forgotten = append(forgotten, name.Name)
		return nil
	}

	reconcileKey := func() (ctrl.Result, error) { return r.Reconcile(t.Context(), request(catalog)) }
	if _, err := reconcileKey(); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), catalog); err != nil {
		t.Fatal(err)
	}
	if _, err := reconcileKey(); !errors.Is(err, blocked) {
		t.Errorf("the error of Finalize is lost: %v", err)
	}
	get(t, c, catalog)
	if got := catalog.Status.Conditions[0]; got.Message != blocked.Error() {
		t.Errorf("got the condition %v", got)
	}

	blocked = nil
	if _, err := reconcileKey(); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(catalog), catalog); !apierrors.IsNotFound(err) {
		t.Fatalf("the object still exists: %v", err)
	}
	if _, err := reconcileKey(); err != nil || !slices.Equal(forgotten, []string{"forgotten"}) {
		t.Errorf("forgotten: %v, %v", forgotten, err)
	}
}

func TestKeyReconciler(t *testing.T) {
	var executed []string
	var failure error
	r := &reconcile.KeyReconciler[string, bool]{
		Gather: func(_ context.Context, key types.NamespacedName) (string, error) { return key.Name, nil },
		Decide: func(name string) bool { return name == "write" },
		Execute: func(_ context.Context, name string, write bool) error {
			if write {
				executed = append(executed, name)
			}
			return failure
		},
		ResyncAfter: func(string, bool) time.Duration { return time.Minute },
	}
	for _, tc := range []struct {
		key   string
		err   error
		after time.Duration
		fails bool
	}{
		{key: "read", after: time.Minute},
		{key: "write", after: time.Minute},
		{key: "write", err: reconcile.Wait("", time.Second, errors.New("not yet")), after: time.Second},
		{key: "write", err: apierrors.NewAlreadyExists(olmv1.GroupVersion.WithResource("clustercatalogs").GroupResource(), "a"), after: time.Second},
		{key: "write", err: errors.New("unreachable"), fails: true},
	} {
		failure = tc.err
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: tc.key}})
		if (err != nil) != tc.fails || result.RequeueAfter != tc.after {
			t.Errorf("%s, %v: %v, %v", tc.key, tc.err, result, err)
		}
	}
	if len(executed) != 4 {
		t.Errorf("executed %v", executed)
	}
}

func TestIgnoreStale(t *testing.T) {
	resource := olmv1.GroupVersion.WithResource("clustercatalogs").GroupResource()
	for _, err := range []error{apierrors.NewConflict(resource, "a", nil), apierrors.NewAlreadyExists(resource, "a"), apierrors.NewNotFound(resource, "a"), nil} {
		if got := reconcile.IgnoreStale(err); got != nil {
			t.Errorf("IgnoreStale(%v): got %v", err, got)
		}
	}
	if err := errors.New("unreachable"); !errors.Is(reconcile.IgnoreStale(err), err) {
		t.Error("IgnoreStale hides another error")
	}
}
