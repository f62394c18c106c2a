package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
)

// staleCacheRetryInterval is how long to wait for a stale cache. A watch usually triggers a reconcile sooner.
const staleCacheRetryInterval = time.Second

// reconciler reconciles the Subscriptions of a namespace together. A request without a namespace names the namespace
// to reconcile. A request with a namespace names a CatalogSource whose connection has changed.
type reconciler struct {
	Options

	client client.Client
	reader client.Reader
	events events.EventRecorder
	queue  workqueue.TypedRateLimitingInterface[ctrl.Request]
	syncs  syncMetrics
}

// Reconcile reconciles one namespace, or enqueues the namespaces that use a catalog.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Namespace != "" {
		return ctrl.Result{}, r.enqueueNamespacesForCatalog(ctx, req.NamespacedName)
	}

	result, err := r.reconcileNamespace(ctx, req.Name)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: staleCacheRetryInterval}, nil // The cache is stale.
	}

	var of *catalogError
	if errors.As(err, &of) {
		r.Syncs.Record(nil) // The catalog failed, not this controller.
	} else {
		r.Syncs.Record(err)
	}

	return result, err
}

// enqueueNamespacesForCatalog enqueues the namespaces that may use a catalog. It drops the snapshot of a deleted one.
func (r *reconciler) enqueueNamespacesForCatalog(ctx context.Context, catalog types.NamespacedName) error {
	var catalogs v1alpha1.CatalogSource
	if err := r.client.Get(ctx, catalog, &catalogs); apierrors.IsNotFound(err) {
		r.Snapshots.Remove(catalog)
	}

	namespaces, err := r.listNamespacesUsing(ctx, catalog.Namespace)
	for _, namespace := range namespaces {
		r.queue.Add(newRequest(namespace))
	}

	return err
}

func newRequest(namespace string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}

// listNamespacesUsing returns the namespaces that may use the catalogs of a namespace.
func (r *reconciler) listNamespacesUsing(ctx context.Context, namespace string) ([]string, error) {
	if namespace != r.GlobalNamespace {
		return []string{namespace}, nil
	}

	var subs v1alpha1.SubscriptionList
	if err := r.client.List(ctx, &subs, client.UnsafeDisableDeepCopy); err != nil { // They are only read.
		return nil, fmt.Errorf("listing Subscriptions: %w", err)
	}

	seen := map[string]bool{}
	var all []string
	for i := range subs.Items {
		if name := subs.Items[i].Namespace; !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}

	return all, nil
}

// reconcileNamespace does the next step for the Subscriptions of a namespace.
func (r *reconciler) reconcileNamespace(ctx context.Context, namespace string) (ctrl.Result, error) {
	v, err := r.readView(ctx, r.client, namespace)
	if err != nil {
		return ctrl.Result{}, err
	}

	r.syncs.recordSync(namespace, v.subs)
	if len(v.subs) == 0 {
		return ctrl.Result{}, nil
	}

	changed, err := r.refreshStatuses(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	if changed || v.allAwaitInstallPlans() {
		// The status update triggers the next reconcile.
		return ctrl.Result{}, r.patchStatuses(ctx, v)
	}
	if len(v.groups) != 1 {
		v.setResolutionFailed(r.now(), v1alpha1.ErrorPreventedResolution, fmt.Sprintf("found %d operatorGroups, expected 1", len(v.groups)))
		return ctrl.Result{}, r.patchStatuses(ctx, v) // A change of the OperatorGroups triggers the next reconcile.
	}
	if resolution.IsUpdateInProgress(v.csvs, v.hasInstallingPlan()) {
		return ctrl.Result{}, r.patchStatuses(ctx, v)
	}

	return r.resolveAndInstall(ctx, v)
}

// resolveAndInstall resolves the Subscriptions of a namespace, and ensures an InstallPlan for new bundles.
func (r *reconciler) resolveAndInstall(ctx context.Context, v *view) (ctrl.Result, error) {
	choices, err := r.resolveNamespace(ctx, v)
	var impossible *resolution.UnsatisfiableError
	switch {
	case errors.Is(err, errCatalogConnecting):
		return ctrl.Result{}, r.patchStatuses(ctx, v) // The connection triggers the next reconcile.
	case errors.As(err, &impossible):
		r.emitResolutionFailure(v, impossible.Error(), impossible.Advice())
		v.setResolutionFailed(r.now(), v1alpha1.ConstraintsNotSatisfiable, impossible.Error())
		return ctrl.Result{}, r.patchStatuses(ctx, v)
	case err != nil:
		r.emitResolutionFailure(v, err.Error(), "")
		v.setResolutionFailed(r.now(), v1alpha1.ErrorPreventedResolution, err.Error())
		return ctrl.Result{}, errors.Join(err, r.patchStatuses(ctx, v))
	}

	p, err := newProposal(choices, v.namespace, v.subs, v.hasCSV)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !p.hasChanges() {
		v.clearFailures()
		return ctrl.Result{}, r.patchStatuses(ctx, v)
	}

	return r.ensureInstallPlan(ctx, v, p)
}

// refreshStatuses sets the state of catalogs, InstallPlans and operators in the statuses, which the caller patches. It
// may delete an unfinished InstallPlan. changed is true when the statuses must be patched before the next resolution,
// because they affect it.
func (r *reconciler) refreshStatuses(ctx context.Context, v *view) (changed bool, err error) {
	now := r.now()
	for _, sub := range v.subs {
		updateCatalogHealth(sub, v.catalogs, now)
		var plan *v1alpha1.InstallPlan
		if ref := sub.Status.InstallPlanRef; ref != nil {
			if plan, err = r.getOrDiscardPlan(ctx, v, ref.Name, sub.Status.State == v1alpha1.SubscriptionStateUpgradePending); err != nil {
				return false, err
			}
			changed = recordInstallPlan(&sub.Status, plan, now) || changed
		} else if name := sub.Annotations[v1alpha1.AnnotationGeneratedBy]; name != "" {
			if plan, err = r.getOrDiscardPlan(ctx, v, name, true); err != nil {
				return false, err
			}
			changed = adoptInstallPlan(sub, plan, v.allowsFailForward()) || changed
		}

		if r.adoptOrphanedCSV(ctx, sub, v) {
			changed = true
		}

		changed = recordInstalledCSV(&sub.Status, plan, v.hasCSV, v.allowsFailForward()) || changed
		if sub.Status.InstalledCSV != "" {
			// The resolution reports a catalog that cannot be read.
			if snapshot, err := r.Snapshots.Get(ctx, types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}); err == nil {
				setDeprecationConditions(sub, snapshot, now)
			}
		}
	}

	return changed, nil
}

// adoptOrphanedCSV sets currentCSV of a new Subscription to an installed operator that is in its channel and has no
// Subscription, because its Subscription was deleted. It reports whether it did so.
func (r *reconciler) adoptOrphanedCSV(ctx context.Context, sub *v1alpha1.Subscription, v *view) (taken bool) {
	if sub.Status.CurrentCSV != "" || sub.Status.InstalledCSV != "" || sub.Status.InstallPlanRef != nil {
		return false
	}

	name := resolution.FindUnsubscribedCSV(sub.Spec.Package, v.csvs, v.subs)
	if name == "" || (sub.Spec.StartingCSV != "" && sub.Spec.StartingCSV != name) {
		return false
	}

	// The resolution reports a catalog that cannot be read.
	snapshot, err := r.Snapshots.Get(ctx, types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource})
	if err != nil || snapshot.Find(sub.Spec.Package, sub.Spec.Channel, name) == nil {
		return false
	}

	sub.Status.CurrentCSV = name
	return true
}

// emitResolutionFailure emits an event for a failed resolution, unless the condition already has the message.
func (r *reconciler) emitResolutionFailure(v *view, message, advice string) {
	for _, sub := range v.subs {
		if c := findCondition(&sub.Status, v1alpha1.SubscriptionResolutionFailed); c != nil && c.Message == message {
			return
		}
	}

	if advice != "" {
		message += ". " + advice
	}

	r.emitWarning(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: v.namespace}, "ResolutionFailed", message)
}

// maxEventNoteBytes limits the note of an event.
const maxEventNoteBytes = 1024

func (r *reconciler) emitWarning(about *corev1.ObjectReference, reason, note string) {
	r.events.Eventf(about, nil, corev1.EventTypeWarning, reason, "Resolve", "%s", truncateText(note, maxEventNoteBytes))
}

// setResolutionFailed sets the condition ResolutionFailed in all statuses.
func (v *view) setResolutionFailed(now metav1.Time, reason, message string) {
	for _, sub := range v.subs {
		setConditionTrue(&sub.Status, now, v1alpha1.SubscriptionResolutionFailed, reason, message)
	}
}

// clearFailures removes the conditions of resolution and unpacking from all statuses.
func (v *view) clearFailures() {
	for _, sub := range v.subs {
		removeConditions(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpacking, v1alpha1.SubscriptionBundleUnpackFailed)
	}
}

func (r *reconciler) now() metav1.Time { return metav1.NewTime(r.Clock.Now()).Rfc3339Copy() }

// patchStatuses patches the statuses that have changed.
func (r *reconciler) patchStatuses(ctx context.Context, v *view) error {
	var errs []error
	for i, sub := range v.subs {
		if equality.Semantic.DeepEqual(sub.Status, v.before[i].Status) {
			continue
		}
		sub.Status.LastUpdated = r.now()
		err := r.client.Status().Patch(ctx, sub.DeepCopy(), client.MergeFromWithOptions(v.before[i], client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("writing the status of Subscription %s/%s: %w", sub.Namespace, sub.Name, err))
		}
	}

	return errors.Join(errs...)
}
