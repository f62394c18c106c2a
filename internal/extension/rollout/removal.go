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

// archive removes the objects of an archived revision, except those that later ones
// have taken over, and ends there.
func (a *attempt) archive(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	if set.Spec.LifecycleState != olmv1.LifecycleStateArchived {
		return nil
	}

	if !isArchived(set) {
		if err := a.remove(ctx, set); err != nil {
			return err
		}
	}
	return reconcile.ErrDone
}

// tearDown removes the objects of a revision that is being deleted. What operator-controller
// has no right to is left to the garbage collector: the revision owns it. CRDs that are to be
// kept are never left to it.
func (a *attempt) tearDown(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	hasNoRights := a.requireAccount && account.Of(set).IsOwn()
	if isArchived(set) || hasNoRights && !keepsCRDs(set) {
		return nil
	}

	return a.remove(ctx, set)
}

// remove removes the objects that the revision controls.
//
// Objects whose Secret is gone are left to the garbage collector: the revision owns
// them, and nothing else knows their names. Objects that were never valid, or that the
// account may not read, were never created.
func (a *attempt) remove(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	as := account.Of(set)
	if err := a.checkAccount(ctx, as); errors.Is(err, apply.ErrMissingAccount) {
		// Whoever uninstalls may remove the account first. What the account was for is
		// then finished by the controller itself: it deletes only what the revision
		// controls, and so what the account itself had created.
		as = account.Account{}
	} else if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	content, err := a.readContent(ctx, set, as)
	switch {
	case apierrors.IsForbidden(err) && len(set.Status.ObservedPhases) == 0:
		// The account may not read the content, and so has not rolled it out.
		content = &apply.Content{}
	case err != nil:
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	if err := a.spare(ctx, set, content.Phases); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if err := keepCRDs(set, content); err != nil {
		return reconcile.Wait(olmv1.ReasonRetrying, recheck, err)
	}

	writer, err := a.accounts.For(as)
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	removal := apply.New(writer.Dynamic, a.mapper, a.memory).Remove(ctx, &apply.Removal{
		Owner: &apply.Owner{Reference: reference(set)}, Phases: content.Phases,
		Gone: a.gone.of(set), Current: a.watches.seenIn(scopeOf(set)),
	})
	if len(content.Missing) == 0 { // else a phase is not known as a whole
		a.gone.note(set, removal.Gone)
	}
	if err := removal.Err(); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if !removal.Done() {
		return reconcile.Wait(olmv1.ReasonRollingOut, recheck, errors.New(removal.Waiting()))
	}

	a.watches.release(set.Name)
	a.gone.forget(set.Name)
	return nil
}

// keepsCRDs reports whether the CRDs of a revision outlive it.
func keepsCRDs(set *olmv1.ClusterObjectSet) bool {
	return set.Annotations[olmv1.AnnotationKeepCRDs] == "true"
}

// keepCRDs marks the CRDs of a revision that is being deleted, where its annotation asks for
// them to be kept. It returns an error when not all objects of the revision are known: the
// garbage collector would delete the CRDs among those that are not.
func keepCRDs(set *olmv1.ClusterObjectSet, content *apply.Content) error {
	if set.DeletionTimestamp.IsZero() || !keepsCRDs(set) {
		return nil
	}
	if len(content.Missing) > 0 {
		return fmt.Errorf("its annotation %s keeps its CRDs, which cannot be told from the other objects without Secret %s: restore it, or remove the annotation",
			olmv1.AnnotationKeepCRDs, strings.Join(content.Missing, ", "))
	}

	for _, phase := range content.Phases {
		for i := range phase.Objects {
			phase.Objects[i].Keep = apply.KeyOf(phase.Objects[i].Manifest).IsCRD()
		}
	}
	return nil
}

// gone remembers how many phases of a revision, counted from the last, were found to be
// removed. What is given up is never applied again, so that they need not be looked at
// again; after a restart they are.
type gone struct {
	mu   sync.Mutex
	sets map[string]progress
}

// progress is that of one revision; another one may have had its name.
type progress struct {
	set    types.UID
	phases int
}

func (g *gone) of(set *olmv1.ClusterObjectSet) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.sets[set.Name]; known.set == set.UID {
		return known.phases
	}
	return 0
}

func (g *gone) note(set *olmv1.ClusterObjectSet, phases int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sets == nil {
		g.sets = map[string]progress{}
	}
	g.sets[set.Name] = progress{set: set.UID, phases: phases}
}

func (g *gone) forget(set string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sets, set)
}
