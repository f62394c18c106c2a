package install

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// executor carries decisions out.
type executor struct {
	client client.Client
	// reader reads from the API server.
	reader          client.Reader
	systemNamespace string
	plans           *planStore
	waiting         *waitingExtensions
	// effective returns an extension as this installation interprets it.
	effective func(ext *olmv1.ClusterExtension) *olmv1.ClusterExtension
}

// executeDecision carries a decision out. It returns the error that the pass ends with.
func (e *executor) executeDecision(ctx context.Context, ext *olmv1.ClusterExtension, f *facts, d *decision) error {
	w := &revisionWriter{client: e.client, reader: e.reader, systemNamespace: e.systemNamespace, revisions: slices.Clone(f.revisions)}
	err := e.executeSteps(ctx, ext, f, d, w)
	d.revisions = w.revisions
	if err == nil || reconcile.IsWait(err) {
		// After an error the required images are unknown: those being pulled may be among them.
		f.bundles.cancelUnrequested(ext.Name)
	}

	return err
}

// executeSteps carries the parts of a decision out, until one of them ends the pass.
func (e *executor) executeSteps(ctx context.Context, ext *olmv1.ClusterExtension, f *facts, d *decision, w *revisionWriter) error {
	if err := e.executeTakeover(ctx, ext, f.takeover, d.takeover, w); err != nil || d.takeover.endsPass() {
		return err
	}
	if f.kept != nil {
		if err := w.setAnnotation(ctx, f.kept.Name, annotationKeptGeneration, f.kept.Annotations[annotationKeptGeneration]); err != nil {
			return err
		}
	}
	if err := w.pruneRevisions(ctx, d.replaced, d.expired); err != nil {
		return err
	}
	if err := e.executePlan(ctx, ext, f.plan, d.plan); err != nil {
		return err
	}

	if d.late != nil {
		err := abandonUpdate(ctx, ext, d.late, w)
		switch {
		case reconcile.IsStale(err):
			return nil // The revision changed, and may be complete: the change enqueues the extension.
		case err != nil:
			return d.late.newRefusal(err)
		}
	}

	return e.executeChange(ctx, ext, f.change, d.change, w)
}

// abandonUpdate archives the revisions of a late update.
func abandonUpdate(ctx context.Context, ext *olmv1.ClusterExtension, late *lateUpdate, w *revisionWriter) error {
	if late.err != nil {
		logFailedPreflight(ctx, ext, late.err, late.newRefusal(late.err))
		return late.err
	}
	return w.archiveRevisions(ctx, late.archive, ext.Generation)
}

// executePlan writes or deletes the plan.
func (e *executor) executePlan(ctx context.Context, ext *olmv1.ClusterExtension, f *planFacts, d planDecision) error {
	switch {
	case d.remove:
		e.waiting.remove(ext.Name)
		if err := e.plans.deleteConfigMap(ctx, ext.Name); err != nil {
			return err
		}
	case d.configMap != nil:
		if err := e.plans.writeConfigMap(ctx, ext.Name, d.configMap, f.existing); err != nil {
			return err
		}
	}

	if d.isOnly {
		// Other extensions do not count on the planned bundle. Their changes enqueue this
		// extension; other changes are found when the wait ends.
		e.waiting.record(ext.Name, waitingBundle{})
	}

	return d.stop
}

// executeChange makes the change. If something is in its way, it writes only what precedes that.
func (e *executor) executeChange(ctx context.Context, ext *olmv1.ClusterExtension, f *changeFacts, d *change, w *revisionWriter) error {
	if err := createDependencies(ctx, e.client, ext.Name, d.createExtensions); err != nil {
		return err
	}
	if d.annotate != "" {
		if err := w.annotateRevision(ctx, d.annotate, f.content.annotations); err != nil {
			return err
		}
	}

	switch {
	case d.stop != nil:
		if f.preflight != nil {
			logFailedPreflight(ctx, ext, f.preflight.err, d.stop)
		}
		return d.stop
	case d.sync != "":
		return w.syncRevision(ctx, d.sync, ext.Spec.ProgressDeadlineMinutes)
	case d.create:
		set, secrets, err := f.content.newRevision(ext, f.revisions.nextRevisionNumber(), e.systemNamespace)
		if err != nil {
			return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", f.resolution.chosen.Name, err))
		}
		return w.createRevision(ctx, set, secrets)
	default:
		return w.archiveRevisions(ctx, d.archive, 0)
	}
}

// logFailedPreflight logs failed preflight checks, unless the status reports the same already.
func logFailedPreflight(ctx context.Context, ext *olmv1.ClusterExtension, failed, reported error) {
	known := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	if reconcile.IsWait(failed) && (known == nil || known.Message != reported.Error()) {
		ctrl.LoggerFrom(ctx).Info("Preflight checks failed", "report", failed.Error())
	}
}
