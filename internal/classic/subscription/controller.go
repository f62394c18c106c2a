package subscription

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// reconciler reconciles the Subscriptions of a namespace together. A request without a namespace names the namespace
// to reconcile. A request with a namespace names a CatalogSource whose connection has changed.
type reconciler struct {
	Options

	client client.Client
	events events.EventRecorder
	syncs  syncMetrics

	views    *viewReader
	resolver *resolver
	contents *planContentReader
	catalogs *catalogUsers

	namespaceReconciler, catalogReconciler ctrlreconcile.Reconciler
}

func newReconciler(o Options, c client.Client, live client.Reader, recorder events.EventRecorder) *reconciler {
	r := &reconciler{
		Options: o, client: c, events: recorder,
		views:    &viewReader{Options: o, client: c, live: live, written: &reconcile.WrittenVersions{}},
		resolver: &resolver{Options: o}, contents: &planContentReader{Options: o}, catalogs: &catalogUsers{Options: o, client: c},
	}
	r.catalogReconciler = reconcile.Func(r.catalogs.enqueueNamespaces)
	r.namespaceReconciler = &reconcile.KeyReconciler[*view, *decision]{
		Gather: r.views.gatherView, Decide: decide, Execute: r.execute,
		ResyncAfter: func(_ *view, d *decision) time.Duration { return d.requeueAfter }, Observe: r.observePass,
	}
	return r
}

// Reconcile reconciles one namespace, or enqueues the namespaces that use a catalog.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Namespace != "" {
		return r.catalogReconciler.Reconcile(ctx, req)
	}
	return r.namespaceReconciler.Reconcile(ctx, req)
}

// observePass counts a pass. A catalog that failed is no failure of this controller.
func (r *reconciler) observePass(err error) {
	var of *catalogError
	if errors.As(err, &of) {
		err = nil
	}
	r.Syncs.Record(err)
}

// execute deletes obsolete InstallPlans, and patches the statuses or resolves the Subscriptions. It does not report a new
// failure while the cache is outdated.
func (r *reconciler) execute(ctx context.Context, v *view, d *decision) error {
	r.syncs.recordSync(v.namespace, v.before)
	if !d.resolves && d.hasNewFailures() {
		if err := r.views.confirmView(ctx, d.view); err != nil {
			return err
		}
	}

	for _, plan := range d.obsolete {
		if err := r.deletePlan(ctx, plan, "which was not finished"); err != nil {
			return err
		}
	}

	if !d.resolves {
		return r.patchStatuses(ctx, d.view, d.subs)
	}
	return r.resolveAndInstall(ctx, d)
}

// resolveAndInstall resolves the Subscriptions of a namespace, and ensures InstallPlans for new bundles. If a Subscription
// adopts an installed operator, the update of its status triggers the resolution. resolveAndInstall does not report
// a new failure, and changes no InstallPlan, while the cache is outdated: a failure may only be that of a state in which
// some objects are older than others.
func (r *reconciler) resolveAndInstall(ctx context.Context, d *decision) error {
	v := d.view
	input := r.resolver.gatherInput(ctx, v)
	if v.adoptOrphanedCSVs(input.Offers) {
		return r.patchStatuses(ctx, v, v.subs)
	}

	outcome := r.resolver.resolveNamespace(input)
	if r.OnePlanPerNamespace {
		shareFailure(outcome, v.subs)
	}

	i := &installer{reconciler: r, decision: d, reported: map[string]bool{}}
	retryErr := i.recordFailures(outcome.Failures)
	w := decideWork(v, outcome, r.OnePlanPerNamespace)
	if w.changesPlans() || v.hasNewFailures() {
		if err := r.views.confirmView(ctx, v); err != nil {
			return err
		}
	}

	err := i.ensureInstallPlans(ctx, w)
	switch {
	case err != nil:
		return err
	case retryErr != nil && d.requeueAfter > 0:
		// Others are being unpacked, and do not wait for the backoff.
		return reconcile.Wait("", d.requeueAfter, retryErr)
	}
	return retryErr
}

func (r *reconciler) now() metav1.Time { return metav1.NewTime(r.Clock.Now()).Rfc3339Copy() }

// patchStatuses patches the statuses of Subscriptions that have changed.
func (r *reconciler) patchStatuses(ctx context.Context, v *view, subs []*v1alpha1.Subscription) error {
	var errs []error
	for i, sub := range v.subs {
		before := v.before[i]
		if !slices.Contains(subs, sub) || equality.Semantic.DeepEqual(sub.Status, before.Status) {
			continue
		}

		sub.Status.LastUpdated = r.now()
		patched, err := r.patchStatus(ctx, sub, before)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		v.before[i] = patched
		sub.ResourceVersion = patched.ResourceVersion
		r.emitNewFailures(sub, before)
	}

	return errors.Join(errs...)
}

// patchStatus patches the status of a Subscription and returns the result. A concurrent change of the metadata alone,
// such as a label of a component, is no conflict: it does not concern the decision, and an InstallPlan
// that was created for it would remain unused.
func (r *reconciler) patchStatus(ctx context.Context, sub, before *v1alpha1.Subscription) (*v1alpha1.Subscription, error) {
	after := sub.DeepCopy()
	if err := reconcile.PatchStatusLive(ctx, r.client, r.views.live, after, before); err != nil {
		return after, err
	}
	r.views.written.Add(after)
	return after, nil
}
