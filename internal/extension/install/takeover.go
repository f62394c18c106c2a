package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/former"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterextensionrevisions,verbs=list;patch;delete

const (
	// annotationTakenOver is the annotation of a revision that was taken over from another
	// implementation: takenOverComplete if that had rolled it out completely.
	annotationTakenOver = "mainstay.dev/taken-over"
	takenOverComplete   = "complete"
	takenOverIncomplete = "incomplete"
	// annotationKeptGeneration is the annotation of a revision of another implementation: the
	// generation of the extension that this revision fulfills.
	annotationKeptGeneration = "mainstay.dev/kept-generation"
)

// takeoverFacts are what another implementation has left for an extension.
type takeoverFacts struct {
	// installation is what to take over. It is nil if there is nothing, or a revision.
	installation *former.Installation
	// revisions are the ClusterExtensionRevisions.
	revisions []unstructured.Unstructured
}

// takeoverDecision is what must be done to take over an installation of another implementation.
type takeoverDecision struct {
	// create is the installation to create a revision for. It is nil for none.
	create *former.Installation
	// complete is the revision to mark as rolled out. It is empty for none.
	complete string
	// mark is the revision to mark, since it takes over the objects of ClusterExtensionRevisions. It
	// is empty for none.
	mark string
	// release reports whether the ClusterExtensionRevisions are deleted, because the newest revision
	// has taken over their objects. The marks of the revisions are then removed.
	release bool
}

// endsPass reports whether the rest of the pass must wait for the takeover.
func (d takeoverDecision) endsPass() bool { return d.create != nil || d.complete != "" }

// gatherTakeoverFacts reads what another implementation has left. After the takeover it reads nothing.
func (g *gatherer) gatherTakeoverFacts(ctx context.Context, ext *olmv1.ClusterExtension, revs revisions) (takeoverFacts, error) {
	f := takeoverFacts{}
	var err error
	switch {
	case len(revs) == 0:
		f.installation, err = g.former.ReadInstallation(ctx, ext)
	case revs.installed() == nil || slices.ContainsFunc(revs, isTakenOver):
		f.revisions, err = g.former.ListRevisions(ctx, ext)
	}
	return f, err
}

func isTakenOver(set olmv1.ClusterObjectSet) bool { return set.Annotations[annotationTakenOver] != "" }

// decideTakeover decides what must be done to take over an installation.
func decideTakeover(f takeoverFacts, revs revisions) takeoverDecision {
	if f.installation != nil {
		return takeoverDecision{create: f.installation}
	}

	// The program may have ended after it had created the revision.
	for i := range revs {
		set := &revs[i]
		wasComplete := set.Annotations[annotationTakenOver] == takenOverComplete || set.Labels[former.LabelMigratedFromHelm] == "true"
		if wasComplete && isActiveRevision(set) && !hasSucceeded(set) && len(revs) == 1 {
			return takeoverDecision{complete: set.Name}
		}
	}

	newest := revs.newest()
	switch {
	case newest == nil:
		return takeoverDecision{}
	case hasRolledOut(newest) && slices.ContainsFunc(revs, isTakenOver):
		return takeoverDecision{release: true}
	case len(f.revisions) > 0 && !slices.ContainsFunc(revs, isTakenOver):
		return takeoverDecision{mark: newest.Name}
	default:
		return takeoverDecision{}
	}
}

// hasRolledOut reports whether this program has applied all objects of a revision.
func hasRolledOut(set *olmv1.ClusterObjectSet) bool {
	c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	return hasSucceeded(set) && c != nil && c.Status == metav1.ConditionTrue && c.Reason == olmv1.ReasonSucceeded
}

// executeTakeover carries the decision about a takeover out.
func (e *executor) executeTakeover(ctx context.Context, ext *olmv1.ClusterExtension, f takeoverFacts, d takeoverDecision, w *revisionWriter) error {
	switch {
	case d.create != nil:
		set, err := e.createTakenOver(ctx, ext, d.create, w)
		if err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("Took over an installation of another implementation", "from", d.create.Origin, "revision", set.Name)
		if d.create.IsComplete {
			return w.completeRevision(ctx, set.Name)
		}
	case d.complete != "":
		return w.completeRevision(ctx, d.complete)
	case d.mark != "":
		return w.setAnnotation(ctx, d.mark, annotationTakenOver, takenOverIncomplete)
	case d.release:
		return e.releaseFormerRevisions(ctx, f.revisions, w)
	}
	return nil
}

// createTakenOver creates the revision with the objects of an installation. It adopts objects that
// nothing controls, such as those that Helm keeps.
func (e *executor) createTakenOver(ctx context.Context, ext *olmv1.ClusterExtension, found *former.Installation, w *revisionWriter) (*olmv1.ClusterObjectSet, error) {
	annotations := maps.Clone(found.Facts)
	if annotations[olmv1.AnnotationPackageName] == "" && ext.Spec.Source.Catalog != nil {
		annotations[olmv1.AnnotationPackageName] = ext.Spec.Source.Catalog.PackageName
	}
	annotations[annotationTakenOver] = takenOverIncomplete
	if found.IsComplete {
		annotations[annotationTakenOver] = takenOverComplete
	}
	if generation := fulfilledGeneration(ext); found.IsComplete && generation != "" {
		annotations[annotationKeptGeneration] = generation
	}
	if name := serviceAccountName(e.effective(ext)); name != "" {
		annotations[olmv1.AnnotationServiceAccountName] = name
		annotations[olmv1.AnnotationServiceAccountNamespace] = ext.Spec.Namespace
	}
	recordCRDNames(annotations, found.Objects)

	content := &revisionContent{objects: found.Objects, phases: groupIntoPhases(found.Objects), annotations: annotations}
	if err := checkPhaseCount(content.phases); err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("%s: %w", found.Origin, err))
	}
	set, secrets, err := content.newRevision(ext, found.Revision, e.systemNamespace)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("%s: %w", found.Origin, err))
	}
	set.Spec.CollisionProtection = olmv1.CollisionProtectionIfNoController
	if found.FromHelm {
		set.Labels[former.LabelMigratedFromHelm] = "true"
	}
	return set, w.createRevision(ctx, set, secrets)
}

// releaseFormerRevisions deletes the ClusterExtensionRevisions whose objects a revision has taken over.
// Their objects stay.
func (e *executor) releaseFormerRevisions(ctx context.Context, sets []unstructured.Unstructured, w *revisionWriter) error {
	for i := range sets {
		if err := deleteFormerRevision(ctx, e.client, &sets[i], metav1.DeletePropagationOrphan); err != nil {
			return err
		}
	}

	for i := range w.revisions {
		if !isTakenOver(w.revisions[i]) {
			continue
		}
		if err := w.setAnnotation(ctx, w.revisions[i].Name, annotationTakenOver, ""); err != nil {
			return err
		}
	}
	return nil
}

// deleteFormerRevision deletes a ClusterExtensionRevision without its finalizer, which no controller
// removes any more.
func deleteFormerRevision(ctx context.Context, c client.Client, set *unstructured.Unstructured, propagation metav1.DeletionPropagation) error {
	before := set.DeepCopy()
	if controllerutil.RemoveFinalizer(set, olmv1.FinalizerTeardown) {
		if err := c.Patch(ctx, set, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of %s %q: %w", set.GetKind(), set.GetName(), err)
		}
	}

	uid := set.GetUID()
	if err := c.Delete(ctx, set, client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", set.GetKind(), set.GetName(), err)
	}
	return nil
}

// fulfilledGeneration returns the generation of an extension if its status reports that the spec is
// fulfilled. Otherwise it returns an empty text.
func fulfilledGeneration(ext *olmv1.ClusterExtension) string {
	c := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	if c == nil || c.Reason != olmv1.ReasonSucceeded || c.ObservedGeneration != ext.Generation {
		return ""
	}
	return strconv.FormatInt(ext.Generation, 10)
}

// withKeptRevision returns the revisions with the newest one marked as fulfilling the spec, if
// another implementation created it and reported that. Otherwise this program would create a revision
// of the same bundle, whose objects it renders a little differently.
func (r revisions) withKeptRevision(ext *olmv1.ClusterExtension) revisions {
	newest, generation := r.newest(), fulfilledGeneration(ext)
	if newest == nil || generation == "" || !hasSucceeded(newest) || newest.Annotations[annotationInputs] != "" || newest.Annotations[annotationKeptGeneration] != "" {
		return r
	}

	marked := newest.DeepCopy()
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, annotationKeptGeneration, generation)
	result := slices.Clone(r)
	result.replaceRevision(marked)
	return result
}

// isKept reports whether a revision of another implementation fulfills the spec of an extension with the
// chosen bundle.
func isKept(set *olmv1.ClusterObjectSet, ext *olmv1.ClusterExtension, chosen selection) bool {
	return set != nil && set.Annotations[annotationInputs] == "" && holdsBundle(set, chosen) &&
		set.Annotations[annotationKeptGeneration] == strconv.FormatInt(ext.Generation, 10)
}
