package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// removalFacts are what the removal of a revision's objects depends on.
type removalFacts struct {
	// writer is the client of the revision's service account, or the controller's own.
	writer *impersonation.Client
	// content are the objects of the revision.
	content *apply.Content
	// wanted are the objects that other revisions want.
	wanted map[apply.Key]bool
}

// tearDownRevision removes the objects of a revision that is being deleted. Objects that
// operator-controller has no rights to are left to the garbage collector, because the revision
// owns them. CRDs that are to be kept are never left to it.
func (r *reconciler) tearDownRevision(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	hasNoRights := r.requireServiceAccount && account.ForRevision(set).IsOwn()
	if hasFinishedArchiving(set) || hasNoRights && !keepsCRDs(set) {
		return nil
	}

	f, err := r.gatherRemovalFacts(ctx, set)
	if err != nil {
		return err
	}
	phases, err := decideRemoval(set, f)
	if err != nil {
		return err
	}
	return r.removeObjects(ctx, set, f, phases)
}

// gatherRemovalFacts reads what the removal of a revision's objects depends on.
//
// The account may be deleted before the extension. Then the controller removes the objects with its
// own rights. It deletes only objects that the revision controls, and so those that the account had
// created.
func (r *reconciler) gatherRemovalFacts(ctx context.Context, set *olmv1.ClusterObjectSet) (*removalFacts, error) {
	writer, err := r.revisions.clientForRemoval(ctx, set)
	if err != nil {
		return nil, reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	content, err := r.revisions.readRevisionContent(ctx, set, writer)
	switch {
	case apierrors.IsForbidden(err) && len(set.Status.ObservedPhases) == 0:
		// The account may not read the content, and so has not rolled it out.
		content = &apply.Content{}
	case err != nil:
		return nil, reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	wanted, err := r.revisions.listObjectsOfSiblings(ctx, set)
	if err != nil {
		return nil, reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	return &removalFacts{writer: writer, content: content, wanted: wanted}, nil
}

// decideRemoval returns the phases to remove, in which the objects that are not deleted are marked. It
// returns an error if the removal cannot begin.
//
// Objects that siblings want are handed over: deleting a CRD would delete every object of its kind.
// Objects whose Secret is missing are left to the garbage collector: the revision owns them, and
// their names are unknown. Objects that were never valid, or that the account may not read, were
// never created.
func decideRemoval(set *olmv1.ClusterObjectSet, f *removalFacts) ([]apply.Phase, error) {
	keeps := !set.DeletionTimestamp.IsZero() && keepsCRDs(set)
	if keeps && len(f.content.Missing) > 0 {
		// The garbage collector would delete the CRDs among the objects that are not known.
		return nil, reconcile.Wait(olmv1.ReasonRetrying, unwatchedRetryInterval, fmt.Errorf(
			"its annotation %s keeps its CRDs, which cannot be distinguished from the other objects without Secret %s: restore it, or remove the annotation",
			olmv1.AnnotationKeepCRDs, strings.Join(f.content.Missing, ", ")))
	}

	phases := slices.Clone(f.content.Phases)
	for i := range phases {
		phases[i].Objects = slices.Clone(phases[i].Objects)
		for j := range phases[i].Objects {
			object := &phases[i].Objects[j]
			key := apply.KeyOf(object.Manifest)
			object.WantedBySibling = f.wanted[key]
			object.KeepOnRemoval = keeps && key.IsCRD()
		}
	}

	return phases, nil
}

// removeObjects removes the objects that the revision controls, except those that later revisions
// have taken over.
func (r *reconciler) removeObjects(ctx context.Context, set *olmv1.ClusterObjectSet, f *removalFacts, phases []apply.Phase) error {
	removal := apply.New(f.writer.Dynamic, r.mapper, r.memory).Remove(ctx, &apply.Removal{
		Owner: &apply.Owner{Reference: newOwnerReference(set)}, Phases: phases,
		RemovedPhases: r.removalProgress.removedPhases(set), LastSeen: r.watches.lastSeenFunc(scopeForRevision(set)),
	})
	if len(f.content.Missing) == 0 { // otherwise a phase is incomplete
		r.removalProgress.record(set, removal.RemovedPhases)
	}
	if err := removal.Err(); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if !removal.Done() {
		return reconcile.Wait(olmv1.ReasonRollingOut, unwatchedRetryInterval, errors.New(removal.Waiting()))
	}

	r.watches.release(set.Name)
	r.removalProgress.forget(set.Name)
	return nil
}

// keepsCRDs reports whether the CRDs of a revision are kept when it is deleted.
func keepsCRDs(set *olmv1.ClusterObjectSet) bool {
	return set.Annotations[olmv1.AnnotationKeepCRDs] == "true"
}
