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

// behind is how long to wait for a cache that is behind. A watch mostly brings what is missing sooner.
const behind = time.Second

// reconciler looks after the Subscriptions of namespaces. A request names a namespace by its name; one that has
// a namespace too names a catalog whose connection has changed.
type reconciler struct {
	Options

	client client.Client
	reader client.Reader
	events events.EventRecorder
	queue  workqueue.TypedRateLimitingInterface[ctrl.Request]
	syncs  counts
}

// Reconcile looks after one namespace, or tells namespaces of a catalog.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if req.Namespace != "" {
		return ctrl.Result{}, r.tell(ctx, req.NamespacedName)
	}

	result, err := r.pass(ctx, req.Name)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: behind}, nil // The cache is behind.
	}

	var of *catalogError
	if errors.As(err, &of) {
		r.Syncs.Seen(nil) // It is the catalog's failure, not the program's.
	} else {
		r.Syncs.Seen(err)
	}

	return result, err
}

// tell has the namespaces looked after that may use a catalog.
func (r *reconciler) tell(ctx context.Context, catalog types.NamespacedName) error {
	var catalogs v1alpha1.CatalogSource
	if err := r.client.Get(ctx, catalog, &catalogs); apierrors.IsNotFound(err) {
		r.Snapshots.Drop(catalog)
	}

	namespaces, err := r.using(ctx, catalog.Namespace)
	for _, namespace := range namespaces {
		r.queue.Add(request(namespace))
	}

	return err
}

func request(namespace string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Name: namespace}}
}

// using returns the namespaces that may use the catalogs of a namespace.
func (r *reconciler) using(ctx context.Context, namespace string) ([]string, error) {
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

// pass does the next that can be done for the Subscriptions of a namespace.
func (r *reconciler) pass(ctx context.Context, namespace string) (ctrl.Result, error) {
	v, err := r.look(ctx, r.client, namespace)
	if err != nil {
		return ctrl.Result{}, err
	}

	r.syncs.seen(namespace, v.subs)
	if len(v.subs) == 0 {
		return ctrl.Result{}, nil
	}

	changed, err := r.refresh(ctx, v)
	if err != nil {
		return ctrl.Result{}, err
	}
	if changed || v.isWaiting() {
		// What was written brings the next pass.
		return ctrl.Result{}, r.write(ctx, v)
	}
	if len(v.groups) != 1 {
		v.fail(r.now(), v1alpha1.ErrorPreventedResolution, fmt.Sprintf("found %d operatorGroups, expected 1", len(v.groups)))
		return ctrl.Result{}, r.write(ctx, v) // A changed OperatorGroup brings the next pass.
	}
	if resolution.Settling(v.csvs, v.isInstalling()) {
		return ctrl.Result{}, r.write(ctx, v)
	}

	return r.choose(ctx, v)
}

// choose has operators be chosen, and brings those that are not there.
func (r *reconciler) choose(ctx context.Context, v *view) (ctrl.Result, error) {
	choices, err := r.resolve(ctx, v)
	var impossible *resolution.UnsatisfiableError
	switch {
	case errors.Is(err, errNotYet):
		return ctrl.Result{}, r.write(ctx, v) // The connection brings the next pass.
	case errors.As(err, &impossible):
		r.announce(v, impossible.Error(), impossible.Advice())
		v.fail(r.now(), v1alpha1.ConstraintsNotSatisfiable, impossible.Error())
		return ctrl.Result{}, r.write(ctx, v)
	case err != nil:
		r.announce(v, err.Error(), "")
		v.fail(r.now(), v1alpha1.ErrorPreventedResolution, err.Error())
		return ctrl.Result{}, errors.Join(err, r.write(ctx, v))
	}

	p, err := propose(choices, v.namespace, v.subs, v.isThere)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !p.isNews() {
		v.succeed()
		return ctrl.Result{}, r.write(ctx, v)
	}

	return r.bring(ctx, v, p)
}

// refresh writes into the statuses how catalogs, plans and operators are. changed tells whether what was chosen
// before is to be seen in another light, so that nothing is to be chosen before that is on record.
func (r *reconciler) refresh(ctx context.Context, v *view) (changed bool, err error) {
	now := r.now()
	for _, sub := range v.subs {
		noteHealth(sub, v.catalogs, now)
		var plan *v1alpha1.InstallPlan
		if ref := sub.Status.InstallPlanRef; ref != nil {
			if plan, err = r.plan(ctx, v, ref.Name, sub.Status.State == v1alpha1.SubscriptionStateUpgradePending); err != nil {
				return false, err
			}
			changed = notePlan(&sub.Status, plan, now) || changed
		} else if name := sub.Annotations[v1alpha1.AnnotationGeneratedBy]; name != "" {
			if plan, err = r.plan(ctx, v, name, true); err != nil {
				return false, err
			}
			changed = adopt(sub, plan, v.failForward()) || changed
		}

		if r.take(ctx, sub, v) {
			changed = true
		}

		changed = noteOperator(&sub.Status, plan, v.isThere, v.failForward()) || changed
		if sub.Status.InstalledCSV != "" {
			// What cannot be read is told of by the choice.
			if snapshot, err := r.Snapshots.Get(ctx, types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource}); err == nil {
				noteDeprecation(sub, snapshot, now)
			}
		}
	}

	return changed, nil
}

// take has a Subscription that is new take over an operator which its channel has and no Subscription has
// installed: that which has was deleted. taken tells that it did.
func (r *reconciler) take(ctx context.Context, sub *v1alpha1.Subscription, v *view) (taken bool) {
	if sub.Status.CurrentCSV != "" || sub.Status.InstalledCSV != "" || sub.Status.InstallPlanRef != nil {
		return false
	}

	name := resolution.Orphan(sub.Spec.Package, v.csvs, v.subs)
	if name == "" || (sub.Spec.StartingCSV != "" && sub.Spec.StartingCSV != name) {
		return false
	}

	// What cannot be read is told of by the choice.
	snapshot, err := r.Snapshots.Get(ctx, types.NamespacedName{Namespace: sub.Spec.CatalogSourceNamespace, Name: sub.Spec.CatalogSource})
	if err != nil || snapshot.Find(sub.Spec.Package, sub.Spec.Channel, name) == nil {
		return false
	}

	sub.Status.CurrentCSV = name
	return true
}

// announce tells of a failure by an event, unless it has.
func (r *reconciler) announce(v *view, message, advice string) {
	for _, sub := range v.subs {
		if c := find(&sub.Status, v1alpha1.SubscriptionResolutionFailed); c != nil && c.Message == message {
			return
		}
	}

	if advice != "" {
		message += ". " + advice
	}

	r.warn(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: v.namespace}, "ResolutionFailed", message)
}

// maxNote is the longest text of an event.
const maxNote = 1024

func (r *reconciler) warn(about *corev1.ObjectReference, reason, note string) {
	r.events.Eventf(about, nil, corev1.EventTypeWarning, reason, "Resolve", "%s", bounded(note, maxNote))
}

// fail says in all statuses why nothing could be chosen.
func (v *view) fail(now metav1.Time, reason, message string) {
	for _, sub := range v.subs {
		raise(&sub.Status, now, v1alpha1.SubscriptionResolutionFailed, reason, message)
	}
}

// succeed takes back from all statuses what went wrong.
func (v *view) succeed() {
	for _, sub := range v.subs {
		unset(&sub.Status, v1alpha1.SubscriptionResolutionFailed, v1alpha1.SubscriptionBundleUnpacking, v1alpha1.SubscriptionBundleUnpackFailed)
	}
}

func (r *reconciler) now() metav1.Time { return metav1.NewTime(r.Clock.Now()).Rfc3339Copy() }

// write writes the statuses that have changed.
func (r *reconciler) write(ctx context.Context, v *view) error {
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
