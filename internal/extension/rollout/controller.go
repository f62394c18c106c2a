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
	// resync is how often a revision is looked at when nothing wakes the controller: a
	// net below the watches, and the only way for objects that have none.
	resync = time.Minute
	// settled is the same for a revision that is as it should be and has all its watches.
	settled = 10 * time.Minute
	// recheck is how soon something is looked for again that no watch may show.
	recheck = 2 * time.Second
	// soon is time enough for the cache to see the controller's own last write.
	soon = 10 * time.Millisecond
)

// reconciler brings ClusterObjectSets to the cluster.
type reconciler struct {
	// client reads from the cache and writes.
	client *freshClient
	// reader reads from the API server what is not worth a cache.
	reader   client.Reader
	mapper   meta.RESTMapper
	accounts *account.Clients
	watches  *watches
	memory   *apply.Memory
	pace     *pace
	gone     gone
	later    *reconcile.Later
	clock    clock.PassiveClock
	// namespace holds the Secrets of references that name none.
	namespace string
	// requireAccount refuses revisions that name no account.
	requireAccount bool
}

// Reconcile brings one revision to what its spec asks.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &attempt{reconciler: r}
	lifecycle := reconcile.Lifecycle[*olmv1.ClusterObjectSet]{
		Client:     r.client,
		New:        func() *olmv1.ClusterObjectSet { return &olmv1.ClusterObjectSet{} },
		Finalizers: []string{olmv1.FinalizerTeardown},
		Steps:      []reconcile.Step[*olmv1.ClusterObjectSet]{a.archive, a.connect, a.load, a.rollOut},
		Finalize:   []reconcile.Step[*olmv1.ClusterObjectSet]{a.tearDown},
		Summarize:  func(set *olmv1.ClusterObjectSet, err error) { report(set, a.outcome(set, err)) },
		Again:      a.again,
		Passing:    a.isPassing,
		Later:      r.later,
	}

	cached := &olmv1.ClusterObjectSet{}
	switch err := r.client.Get(ctx, req.NamespacedName, cached); {
	case apierrors.IsNotFound(err):
		r.watches.release(req.Name)
		r.pace.forget(req.Name)
		r.gone.forget(req.Name)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading revision %q: %w", req.Name, err)
	case r.client.isBehind(cached):
		return ctrl.Result{RequeueAfter: soon}, nil
	}

	if delay := r.pace.next(req.Name, r.clock.Now()); delay > 0 {
		return ctrl.Result{RequeueAfter: delay}, nil
	}

	return lifecycle.Reconcile(ctx, req)
}

// siblingRequests are the other active revisions of a revision's extension.
func (r *reconciler) siblingRequests(ctx context.Context, obj client.Object) []ctrl.Request {
	set, ok := obj.(*olmv1.ClusterObjectSet)
	if !ok {
		return nil
	}

	siblings, err := r.siblings(ctx, set)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the revisions to be woken")
		return nil
	}

	var requests []ctrl.Request
	for i := range siblings {
		if !isGivingUp(&siblings[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&siblings[i])})
		}
	}

	return requests
}

// siblings lists the other revisions of the same extension. A set without an owner's
// labels has none.
func (r *reconciler) siblings(ctx context.Context, set *olmv1.ClusterObjectSet) ([]olmv1.ClusterObjectSet, error) {
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

// ownerLabels are the labels that tell whose a revision is; nil unless both are set.
func ownerLabels(set *olmv1.ClusterObjectSet) map[string]string {
	kind, name := set.Labels[olmv1.LabelOwnerKind], set.Labels[olmv1.LabelOwnerName]
	if kind == "" || name == "" {
		return nil
	}
	return map[string]string{olmv1.LabelOwnerKind: kind, olmv1.LabelOwnerName: name}
}

// objectLabels returns the labels of a revision's objects. Those of an extension carry its
// labels; those of a set that names no owner carry the set itself as their owner, so that
// they are watched too.
func objectLabels(set *olmv1.ClusterObjectSet) map[string]string {
	if labels := ownerLabels(set); labels != nil {
		return labels
	}
	return map[string]string{olmv1.LabelOwnerKind: olmv1.ClusterObjectSetKind, olmv1.LabelOwnerName: labelValue(set.Name)}
}

// labelValue returns a name as the value of a label. A longer one is cut, and told from
// others by a hash.
func labelValue(name string) string {
	const hashed = 10
	if len(name) <= validation.LabelValueMaxLength {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:validation.LabelValueMaxLength-hashed-1] + "-" + hex.EncodeToString(sum[:])[:hashed]
}

// isGivingUp reports whether a revision does not want its objects any more.
func isGivingUp(set *olmv1.ClusterObjectSet) bool {
	return set.Spec.LifecycleState == olmv1.LifecycleStateArchived || !set.DeletionTimestamp.IsZero()
}

// givesUp lets through the moments in which a revision gives up its objects: then an
// older one that is still active takes back what it needs.
var givesUp = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*olmv1.ClusterObjectSet)
		after, ok2 := e.ObjectNew.(*olmv1.ClusterObjectSet)
		return ok && ok2 && !isGivingUp(before) && isGivingUp(after)
	},
}

// isSucceeded reports whether a revision was once rolled out completely.
func isSucceeded(set *olmv1.ClusterObjectSet) bool {
	return meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded)
}

// isArchived reports whether the removal of an archived revision's objects is complete.
func isArchived(set *olmv1.ClusterObjectSet) bool {
	c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == olmv1.ReasonArchived
}
