package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// archiveRevision removes the objects of an archived revision, except those that later revisions
// have taken over. It ends the reconciliation.
func (a *attempt) archiveRevision(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	if set.Spec.LifecycleState != olmv1.LifecycleStateArchived {
		return nil
	}

	if !hasFinishedArchiving(set) {
		if err := a.removeObjects(ctx, set); err != nil {
			return err
		}
	}
	return reconcile.ErrDone
}

// tearDownRevision removes the objects of a revision that is being deleted. Objects that
// operator-controller has no rights to are left to the garbage collector, because the revision
// owns them. CRDs that are to be kept are never left to it.
func (a *attempt) tearDownRevision(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	hasNoRights := a.requireServiceAccount && account.ForRevision(set).IsOwn()
	if hasFinishedArchiving(set) || hasNoRights && !keepsCRDs(set) {
		return nil
	}

	return a.removeObjects(ctx, set)
}

// removeObjects removes the objects that the revision controls.
//
// Objects whose Secret is gone are left to the garbage collector: the revision owns them, and
// their names are unknown. Objects that were never valid, or that the account may not read, were
// never created.
func (a *attempt) removeObjects(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	as := account.ForRevision(set)
	if err := a.checkServiceAccount(ctx, as); errors.Is(err, apply.ErrMissingAccount) {
		// The account may be deleted before the extension. Then the controller removes the
		// objects with its own rights. It deletes only objects that the revision controls,
		// and so those that the account had created.
		as = account.Account{}
	} else if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	content, err := a.readRevisionContent(ctx, set, as)
	switch {
	case apierrors.IsForbidden(err) && len(set.Status.ObservedPhases) == 0:
		// The account may not read the content, and so has not rolled it out.
		content = &apply.Content{}
	case err != nil:
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	if err := a.markWantedBySiblings(ctx, set, content.Phases); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if err := markCRDsToKeep(set, content); err != nil {
		return reconcile.Wait(olmv1.ReasonRetrying, unwatchedRetryInterval, err)
	}

	writer, err := a.accounts.For(as)
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	removal := apply.New(writer.Dynamic, a.mapper, a.memory).Remove(ctx, &apply.Removal{
		Owner: &apply.Owner{Reference: newOwnerReference(set)}, Phases: content.Phases,
		RemovedPhases: a.removalProgress.removedPhases(set), LastSeen: a.watches.lastSeenFunc(scopeForRevision(set)),
	})
	if len(content.Missing) == 0 { // otherwise a phase is incomplete
		a.removalProgress.record(set, removal.RemovedPhases)
	}
	if err := removal.Err(); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if !removal.Done() {
		return reconcile.Wait(olmv1.ReasonRollingOut, unwatchedRetryInterval, errors.New(removal.Waiting()))
	}

	a.watches.release(set.Name)
	a.removalProgress.forget(set.Name)
	return nil
}

// keepsCRDs reports whether the CRDs of a revision are kept when it is deleted.
func keepsCRDs(set *olmv1.ClusterObjectSet) bool {
	return set.Annotations[olmv1.AnnotationKeepCRDs] == "true"
}

// markCRDsToKeep marks the CRDs of a revision that is being deleted, if its annotation asks to
// keep them. It returns an error if not all objects of the revision are known: the garbage
// collector would delete the CRDs among the others.
func markCRDsToKeep(set *olmv1.ClusterObjectSet, content *apply.Content) error {
	if set.DeletionTimestamp.IsZero() || !keepsCRDs(set) {
		return nil
	}
	if len(content.Missing) > 0 {
		return fmt.Errorf("its annotation %s keeps its CRDs, which cannot be told from the other objects without Secret %s: restore it, or remove the annotation",
			olmv1.AnnotationKeepCRDs, strings.Join(content.Missing, ", "))
	}

	for _, phase := range content.Phases {
		for i := range phase.Objects {
			phase.Objects[i].KeepOnRemoval = apply.KeyOf(phase.Objects[i].Manifest).IsCRD()
		}
	}
	return nil
}

// removalProgress tracks how many phases of a revision, counted from the last, are removed. An
// inactive revision is never applied again, so its removed phases need not be checked again. After
// a restart they are.
type removalProgress struct {
	mu        sync.Mutex
	revisions map[string]revisionProgress
}

// revisionProgress is the progress of one revision. The UID tells it from another revision of the
// same name.
type revisionProgress struct {
	set    types.UID
	phases int
}

func (g *removalProgress) removedPhases(set *olmv1.ClusterObjectSet) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.revisions[set.Name]; known.set == set.UID {
		return known.phases
	}
	return 0
}

func (g *removalProgress) record(set *olmv1.ClusterObjectSet, phases int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.revisions == nil {
		g.revisions = map[string]revisionProgress{}
	}
	g.revisions[set.Name] = revisionProgress{set: set.UID, phases: phases}
}

func (g *removalProgress) forget(set string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.revisions, set)
}
