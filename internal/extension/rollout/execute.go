package rollout

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// executeDecision removes the objects of an archived revision, or applies those of an active one.
func (r *reconciler) executeDecision(ctx context.Context, set *olmv1.ClusterObjectSet, f facts, d *decision) error {
	if f.removal != nil && d.stop == nil {
		return r.removeObjects(ctx, set, f.removal, d.remove)
	}

	if len(d.observed) > 0 && apply.HoldsReferences(set) {
		if err := r.recordPhaseDigests(ctx, set, d.observed); err != nil {
			return reconcile.Retry(olmv1.ReasonRetrying, err)
		}
	}
	if d.stop != nil || d.revision == nil {
		return d.stop
	}

	within := scopeForRevision(set)
	rev := *d.revision
	//nolint:contextcheck // the watch outlives this reconciliation
	rev.Watch = func(resource schema.GroupVersionResource) {
		r.watches.ensureWatch(set.Name, watchKey{within, resource}, f.writer.Metadata)
	}
	if !r.passLimiter.claimFullRead(set.Name, r.schedule.clock.Now()) {
		rev.LastSeen = r.watches.lastSeenFunc(within)
	}

	result := apply.New(f.writer.Dynamic, r.mapper, r.memory).Apply(ctx, &rev)
	d.applied = &result
	logAppliedChanges(ctx, result)

	return evaluateResult(set, result, r.schedule.jitteredResyncInterval(set))
}

// recordPhaseDigests writes the digests of the phases to the status before any object is applied.
// Otherwise the replacement of a Secret with objects during the rollout, or while this program
// restarts, would go unnoticed. Objects in the spec are immutable: for them the status patch at the
// end is early enough.
func (r *reconciler) recordPhaseDigests(ctx context.Context, set *olmv1.ClusterObjectSet, digests []olmv1.ObservedPhase) error {
	before := set.DeepCopy()
	set.Status.ObservedPhases = digests
	if err := reconcile.PatchStatus(ctx, r.client, set, before); err != nil {
		return fmt.Errorf("recording the content of the phases: %w", err)
	}
	return nil
}

// logAppliedChanges logs the number of written objects, if any.
func logAppliedChanges(ctx context.Context, result apply.RevisionResult) {
	var counts []any
	for _, action := range []apply.Action{apply.ActionCreated, apply.ActionUpdated, apply.ActionRecovered} {
		if count := result.Count(action); count > 0 {
			counts = append(counts, strings.ToLower(string(action)), count)
		}
	}

	if len(counts) > 0 {
		ctrl.LoggerFrom(ctx).Info("Applied objects", counts...)
	}
}
