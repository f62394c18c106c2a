package install

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/former"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// facts are what a pass over an extension depends on.
type facts struct {
	// revisions are those of the extension.
	revisions revisions
	// takeover is what another implementation has left.
	takeover takeoverFacts
	// kept is the revision of another implementation to mark as fulfilling the spec. It is
	// nil for none.
	kept *olmv1.ClusterObjectSet
	// plan are the facts of the plan.
	plan *planFacts
	// late is the update to abandon. It is nil if there is none.
	late *lateUpdate
	// change are the facts of the change that the spec asks for. It is nil if the pass ends before.
	change *changeFacts
	// bundles is what retrieved the bundles of the pass. It knows which were requested.
	bundles *bundleRetriever
}

// gatherer reads the facts of passes. It writes nothing.
type gatherer struct {
	revisions *revisionReader
	former    *former.Reader
	plans     *planStore
	// newRetriever returns the retriever of the bundles of a pass.
	newRetriever func() *bundleRetriever
	// newChangeReader returns the reader of the facts of a change. The purpose is that of its
	// retrievals.
	newChangeReader func(ext *olmv1.ClusterExtension, purpose string, bundles *bundleRetriever) *changeReader
}

// gatherFacts reads what a pass over an extension depends on. A fact that could not be read does not
// hide the others, since they have consequences of their own: replaced revisions are archived even
// if no catalog can be read.
func (g *gatherer) gatherFacts(ctx context.Context, ext *olmv1.ClusterExtension) (*facts, error) {
	revs, err := g.revisions.listOwnRevisions(ctx, ext)
	if err != nil {
		return nil, err
	}

	f := &facts{revisions: revs, bundles: g.newRetriever(), plan: &planFacts{}}
	if f.takeover, err = g.gatherTakeoverFacts(ctx, ext, revs); err != nil {
		return f, err
	}
	if decideTakeover(f.takeover, revs).endsPass() {
		return f, nil
	}

	revs = revs.withKeptRevision(ext)
	if newest := revs.newest(); newest != nil && newest.Annotations[annotationKeptGeneration] != f.revisions.newest().Annotations[annotationKeptGeneration] {
		f.kept = newest
	}
	revs = revs.withArchived(revs.listReplacedRevisions(), 0)
	f.plan = g.gatherPlanFacts(ctx, ext, revs, f.bundles)
	if f.plan.endsPass() {
		return f, nil
	}

	reader := g.newChangeReader(ext, retrieveForRevision, f.bundles)
	f.late = findLateUpdate(ext, revs)
	if f.late != nil {
		f.late.err = reader.checkRollback(ctx, revs, f.late.installed)
		revs = revs.withArchived(f.late.archive, ext.Generation)
	}

	if f.late == nil || f.late.err == nil {
		f.change = &changeFacts{revisions: revs}
		reader.readUntilStop(ctx, f.change)
	}

	return f, nil
}

// gatherPlanFacts reads what the plan of an extension depends on.
func (g *gatherer) gatherPlanFacts(ctx context.Context, ext *olmv1.ClusterExtension, revs revisions, bundles *bundleRetriever) *planFacts {
	f := &planFacts{name: types.NamespacedName{Namespace: g.plans.systemNamespace, Name: olmv1.PlanName(ext.Name)}}
	value, requested := ext.Annotations[olmv1.AnnotationPlan]
	if !requested {
		f.outdated, f.err = g.plans.hasPlan(ctx, ext.Name)
		return f
	}

	wanted, err := overrideForPlan(ext, value)
	if err != nil {
		f.err = reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("annotation %s: %w", olmv1.AnnotationPlan, err))
		return f
	}

	reader := g.newChangeReader(wanted, retrieveForPlan, bundles)
	f.value, f.wanted, f.effective, f.checksPreflight = value, wanted, reader.effective, reader.preflight.checks != nil
	f.change = &changeFacts{revisions: revs}
	reader.readAll(ctx, f.change)
	if f.pendingRetrieval() != nil {
		return f
	}

	if f.change.preflight != nil { // The wanted objects are known.
		f.replaced = g.readReplacedObjects(ctx, revs)
	}
	f.existing, f.err = g.plans.readConfigMap(ctx, f.name)
	return f
}

// readReplacedObjects reads the objects of the revision that a change replaces: the installed one,
// or an incomplete first one.
func (g *gatherer) readReplacedObjects(ctx context.Context, revs revisions) *revisionObjects {
	replaced := revs.installed()
	if replaced == nil {
		replaced = revs.newest()
	}
	if replaced == nil {
		return &revisionObjects{}
	}

	objects, err := g.revisions.loadObjects(ctx, replaced)
	return &revisionObjects{objects, err}
}
