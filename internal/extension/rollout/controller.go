package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
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
	client          *freshClient
	mapper          meta.RESTMapper
	revisions       *revisionReader
	watches         *watchManager
	memory          *apply.Memory
	passLimiter     *passLimiter
	removalProgress removalProgress
	statusDelays    *reconcile.StatusDelays
	schedule        schedule
	// requireServiceAccount refuses revisions that name no service account.
	requireServiceAccount bool
}

// newObjectReconciler returns the reconciler of ClusterObjectSets. Its reads end the pass while the
// cache is stale, or if the passes follow each other too fast.
func (r *reconciler) newObjectReconciler() *reconcile.ObjectReconciler[*olmv1.ClusterObjectSet, facts, *decision] {
	return &reconcile.ObjectReconciler[*olmv1.ClusterObjectSet, facts, *decision]{
		Client:         &passClient{freshClient: r.client, limiter: r.passLimiter, clock: r.schedule.clock},
		New:            func() *olmv1.ClusterObjectSet { return &olmv1.ClusterObjectSet{} },
		Finalizers:     []string{olmv1.FinalizerTeardown},
		Gather:         r.gatherFacts,
		Decide:         decidePass,
		Execute:        r.executeDecision,
		Report:         r.reportOutcome,
		Finalize:       r.tearDownRevision,
		ReportDeletion: r.reportDeletion,
		Forget:         r.forgetRevision,
		ResyncAfter:    r.schedule.resyncIntervalAfterSuccess,
		IsTransient:    r.schedule.isTransientStatus,
		StatusDelays:   r.statusDelays,
	}
}

// forgetRevision drops the cached state of a deleted revision.
func (r *reconciler) forgetRevision(_ context.Context, name types.NamespacedName) error {
	r.watches.release(name.Name)
	r.passLimiter.forget(name.Name)
	r.removalProgress.forget(name.Name)
	return nil
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
