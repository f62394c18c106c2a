package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// defaultResyncInterval is how often a revision is reconciled without an event. It is a safety
	// net for lost events, and the only way to notice changes of objects without a watch.
	defaultResyncInterval = time.Minute
	// stableResyncInterval is the resync interval of a revision that is complete and has all its
	// watches.
	stableResyncInterval = 10 * time.Minute
	// unwatchedRetryInterval is the retry interval for conditions that no watch may report.
	unwatchedRetryInterval = 2 * time.Second
	// cacheSyncRetryInterval is long enough for the cache to observe the controller's own last
	// write.
	cacheSyncRetryInterval = 10 * time.Millisecond
)

// reconciler reconciles ClusterObjectSets.
type reconciler struct {
	// client reads from the cache and writes.
	client *freshClient
	// reader reads from the API server, for kinds that are not worth a cache.
	reader          client.Reader
	mapper          meta.RESTMapper
	accounts        *account.Clients
	watches         *watchManager
	memory          *apply.Memory
	passLimiter     *passLimiter
	removalProgress removalProgress
	statusDelays    *reconcile.StatusDelays
	clock           clock.PassiveClock
	// systemNamespace is the namespace of Secrets whose references name none.
	systemNamespace string
	// requireServiceAccount refuses revisions that name no service account.
	requireServiceAccount bool
}

// Reconcile reconciles one revision with its spec.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &attempt{reconciler: r}
	lifecycle := reconcile.Lifecycle[*olmv1.ClusterObjectSet]{
		Client:       r.client,
		New:          func() *olmv1.ClusterObjectSet { return &olmv1.ClusterObjectSet{} },
		Finalizers:   []string{olmv1.FinalizerTeardown},
		Steps:        []reconcile.Step[*olmv1.ClusterObjectSet]{a.archiveRevision, a.newEngineForAccount, a.loadAndVerifyContent, a.rollOutObjects},
		Finalize:     []reconcile.Step[*olmv1.ClusterObjectSet]{a.tearDownRevision},
		Summarize:    func(set *olmv1.ClusterObjectSet, err error) { reportStatus(set, a.newOutcome(set, err)) },
		ResyncAfter:  a.resyncIntervalAfterSuccess,
		IsTransient:  a.isTransientStatus,
		StatusDelays: r.statusDelays,
	}

	cached := &olmv1.ClusterObjectSet{}
	switch err := r.client.Get(ctx, req.NamespacedName, cached); {
	case apierrors.IsNotFound(err):
		r.watches.release(req.Name)
		r.passLimiter.forget(req.Name)
		r.removalProgress.forget(req.Name)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading revision %q: %w", req.Name, err)
	case r.client.checkStaleness(cached):
		return ctrl.Result{RequeueAfter: cacheSyncRetryInterval}, nil
	}

	if delay := r.passLimiter.reservePass(req.Name, r.clock.Now()); delay > 0 {
		return ctrl.Result{RequeueAfter: delay}, nil
	}

	return lifecycle.Reconcile(ctx, req)
}

// mapToSiblings is the map function of revisions. It returns requests for the other active
// revisions of the same extension.
func (r *reconciler) mapToSiblings(ctx context.Context, obj client.Object) []ctrl.Request {
	set, ok := obj.(*olmv1.ClusterObjectSet)
	if !ok {
		return nil
	}

	siblings, err := r.listSiblings(ctx, set)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the revisions to enqueue")
		return nil
	}

	var requests []ctrl.Request
	for i := range siblings {
		if !isInactiveRevision(&siblings[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&siblings[i])})
		}
	}

	return requests
}

// listSiblings lists the other revisions of the same extension. A set without owner labels has
// none.
func (r *reconciler) listSiblings(ctx context.Context, set *olmv1.ClusterObjectSet) ([]olmv1.ClusterObjectSet, error) {
	labels := ownerLabels(set)
	if len(labels) == 0 {
		return nil, nil
	}

	var list olmv1.ClusterObjectSetList
	if err := r.client.List(ctx, &list, client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("listing the revisions of %q: %w", labels[olmv1.LabelOwnerName], err)
	}

	siblings := list.Items[:0]
	for _, item := range list.Items {
		if item.UID != set.UID {
			siblings = append(siblings, item)
		}
	}

	return siblings, nil
}

// ownerLabels returns the labels that identify the owner of a revision, or nil unless both are
// set.
func ownerLabels(set *olmv1.ClusterObjectSet) map[string]string {
	kind, name := set.Labels[olmv1.LabelOwnerKind], set.Labels[olmv1.LabelOwnerName]
	if kind == "" || name == "" {
		return nil
	}
	return map[string]string{olmv1.LabelOwnerKind: kind, olmv1.LabelOwnerName: name}
}

// objectLabels returns the labels of a revision's objects. If an extension owns the revision, they
// identify the extension. Otherwise they identify the set itself, so that its objects are watched
// too.
func objectLabels(set *olmv1.ClusterObjectSet) map[string]string {
	if labels := ownerLabels(set); labels != nil {
		return labels
	}
	return map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterObjectSetKind, olmv1.LabelOwnerName: truncateLabelValue(set.Name)}
}

// truncateLabelValue returns a name as a label value. A name that is too long is truncated, and a
// hash keeps it unique.
func truncateLabelValue(name string) string {
	const hashed = 10
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:validation.LabelValueMaxLength-hashed-1] + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// isInactiveRevision reports whether a revision is archived or being deleted, and so releases its
// objects.
func isInactiveRevision(set *olmv1.ClusterObjectSet) bool {
	return set.Spec.LifecycleState == olmv1.LifecycleStateArchived || !set.DeletionTimestamp.IsZero()
}

// becameInactive is a predicate for revisions that are archived or deleted: an older active
// revision then takes back the objects that it needs.
var becameInactive = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*olmv1.ClusterObjectSet)
		after, ok2 := e.ObjectNew.(*olmv1.ClusterObjectSet)
		return ok && ok2 && !isInactiveRevision(before) && isInactiveRevision(after)
	},
}

// hasSucceeded reports whether a revision was ever rolled out completely.
func hasSucceeded(set *olmv1.ClusterObjectSet) bool {
	return meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded)
}

// hasFinishedArchiving reports whether all objects of an archived revision are removed.
func hasFinishedArchiving(set *olmv1.ClusterObjectSet) bool {
	c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == olmv1.ReasonArchived
}
