package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/crdsafety"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/resolve"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

const (
	// preconditionRetryInterval is how often a missing precondition is checked again, such as a
	// namespace, if no watch reports it.
	preconditionRetryInterval = 2 * time.Second
	// resolutionRetryInterval is how often a request that cannot be satisfied is resolved again
	// while no catalog and no extension changes.
	resolutionRetryInterval = time.Minute
)

func isMissingAccount(err error) bool { return errors.Is(err, apply.ErrMissingAccount) }

// attempt is one reconciliation of one extension. It holds the results of its steps for the steps
// after them.
type attempt struct {
	*Controller

	revisions revisions
	// revisionsLoaded reports whether revisions were read.
	revisionsLoaded bool
	chosen          selection
	// resolution is the request that chosen results from, with the catalogs and the result.
	resolution resolution
	// dryRun is set while a plan is drafted. The steps then write nothing, and record their
	// findings in it.
	dryRun *findings
	// requestedRetrievals are the purposes for which this attempt requested a bundle image.
	requestedRetrievals map[string]bool
	// pendingRetrieval is the error that names the image being pulled. It is nil if no image is
	// being pulled.
	pendingRetrieval error
}

// loadRevisions reads the revisions of the extension.
func (a *attempt) loadRevisions(ctx context.Context, ext *olmv1.ClusterExtension) error {
	revs, err := a.listOwnRevisions(ctx, ext)
	if err != nil {
		return err
	}
	a.revisions, a.revisionsLoaded = revs, true
	return nil
}

func (a *attempt) listOwnRevisions(ctx context.Context, ext *olmv1.ClusterExtension) (revisions, error) {
	var sets olmv1.ClusterObjectSetList
	err := a.Client.List(ctx, &sets, client.MatchingLabels{
		olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: ext.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the revisions of %q: %w", ext.Name, err)
	}

	own := sets.Items[:0]
	for _, set := range sets.Items {
		if metav1.IsControlledBy(&set, ext) {
			own = append(own, set)
		}
	}

	return sortRevisions(own), nil
}

// pruneRevisions archives the revisions that the installed one has replaced, and deletes the
// oldest archived ones.
func (a *attempt) pruneRevisions(ctx context.Context, _ *olmv1.ClusterExtension) error {
	for _, set := range a.revisions.listReplacedRevisions() {
		if err := a.archiveRevision(ctx, set, 0); err != nil {
			return err
		}
	}

	for _, set := range a.revisions.listExpiredRevisions() {
		if err := a.Client.Delete(ctx, &set); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the archived revision %q: %w", set.Name, err)
		}
	}
	return nil
}

// checkFirstInstallation checks the namespace and the service account of an extension that has no
// revision yet. Later the revision itself reports if they are gone.
func (a *attempt) checkFirstInstallation(ctx context.Context, ext *olmv1.ClusterExtension) error {
	if a.revisions.newest() != nil {
		return nil
	}
	return a.checkNamespaceAndAccount(ctx, ext)
}

// checkNamespaceAndAccount returns an error if the namespace or the service account of the
// extension does not exist. Nothing can be written without them.
func (a *attempt) checkNamespaceAndAccount(ctx context.Context, ext *olmv1.ClusterExtension) error {
	var namespace metav1.PartialObjectMetadata
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := a.Reader.Get(ctx, client.ObjectKey{Name: ext.Spec.Namespace}, &namespace); err != nil {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading namespace %q: %w", ext.Spec.Namespace, err)
		}
		return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, fmt.Errorf(
			"namespace %q does not exist: create it, the extension's namespaced objects go there", ext.Spec.Namespace))
	}

	name := serviceAccountName(a.effectiveExtension(ext))
	if name == "" {
		if a.RequireServiceAccount {
			return reconcile.Stop(olmv1.ReasonBlocked, errors.New(
				"spec.serviceAccount is not set, and this cluster requires it: name a ServiceAccount that has the rights the extension needs"))
		}
		return nil
	}

	err := apply.CheckAccount(ctx, a.Reader, client.ObjectKey{Namespace: ext.Spec.Namespace, Name: name})
	if isMissingAccount(err) {
		return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, err)
	}

	return err
}

// resolveBundle resolves the bundle from the selected catalogs. If no catalog is selected, it
// keeps the bundle of the current revision.
func (a *attempt) resolveBundle(ctx context.Context, ext *olmv1.ClusterExtension) error {
	selected, err := a.listSelectedCatalogs(ctx, ext)
	if err != nil {
		return err
	}

	filter := ext.Spec.Source.Catalog
	if kept := a.revisions.findRevisionToKeep(filter.Version); len(selected) == 0 && kept != nil {
		a.chosen = selectionFromRevision(kept)
		a.resolution = resolutionWithoutCatalogs(filter, a.chosen, a.revisions.installed())
		return nil
	}

	catalogs, err := a.readPackageFromCatalogs(ctx, filterServingCatalogs(selected), filter.PackageName)
	if err != nil {
		return err
	}

	a.resolution = resolution{catalogs: catalogs, request: resolve.Request{
		Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels,
		Policy: filter.UpgradeConstraintPolicy, Installed: bundleMetadata(a.revisions.installed()), RunsOn: a.meetsMinKubeVersion,
	}}
	result, err := resolve.Resolve(a.resolution.request, catalogs)
	if err != nil {
		return reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, err)
	}

	a.resolution.result = result
	a.chosen = selection{
		Name: result.Bundle.Name, Version: result.Version.String(), Release: result.Release, Image: result.Bundle.Image,
		catalog: result.Catalog, properties: result.Bundle.Properties,
	}.pinnedToInstalled(a.revisions.installed())
	for _, warning := range result.Warnings {
		ctrl.LoggerFrom(ctx).Info("A catalog has a fault", "fault", warning)
	}

	for _, condition := range resolve.DeprecationConditions(result.Deprecations, filter.Channels, result.Bundle.Name) {
		setCondition(ext, condition)
	}

	return nil
}

// ensureRevision creates a revision of the chosen bundle if no active revision holds it. If an
// active revision before the newest one holds it, the extension is rolled back to that.
func (a *attempt) ensureRevision(ctx context.Context, ext *olmv1.ClusterExtension) error {
	issuer, err := a.detectCertificateIssuer(ctx)
	if err != nil {
		return err
	}

	wanted := digestRevisionInputs(a.effectiveExtension(ext), a.chosen, issuer, a.Program)
	newest := a.revisions.newest()
	switch existing := a.revisions.findByInputsDigest(wanted); existing {
	case nil:
	case newest:
		return a.syncExistingRevision(ctx, ext, newest)
	default:
		return a.rollBackToRevision(ctx, ext, existing, 0)
	}

	if err := a.checkRefusedUpdate(ext, wanted); err != nil {
		return err
	}

	if newest != nil {
		if err := a.checkNamespaceAndAccount(ctx, ext); err != nil {
			return err
		}
	}

	content, err := a.buildRevisionContent(ctx, ext, issuer, wanted)
	if err != nil {
		return err
	}

	if !holdsBundle(newest, a.chosen) {
		if err := a.checkDependencies(ctx, ext, content.bundle); err != nil {
			return err
		}
	}

	if set := a.findIdenticalRevision(ext, content.phases, content.annotations); set != nil {
		if err := a.annotateRevision(ctx, set, content.annotations); err != nil {
			return err
		}
		return a.rollBackToRevision(ctx, ext, set, 0)
	}

	if err := a.runPreflightChecks(ctx, ext, content.objects); err != nil {
		return err
	}

	set, secrets, err := a.newPackedRevision(ext, a.revisions.nextRevisionNumber(), content.phases, content.annotations)
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", a.chosen.Name, err))
	}

	return a.createRevision(ctx, set, secrets)
}

// revisionContent is the content of a revision of the chosen bundle.
type revisionContent struct {
	bundle      *dependency.Bundle
	objects     []unstructured.Unstructured
	phases      []olmv1.ClusterObjectSetPhase
	annotations map[string]string
}

// buildRevisionContent pulls and renders the chosen bundle.
func (a *attempt) buildRevisionContent(ctx context.Context, ext *olmv1.ClusterExtension, issuer render.Issuer, wanted string) (*revisionContent, error) {
	image, err := a.retrieveBundle(ctx, ext, cmp.Or(a.chosen.pinned, a.chosen.Image))
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", a.chosen.Name, err)
	}

	kubernetes, err := a.serverVersion()
	if err != nil {
		return nil, err
	}

	rendered, err := renderBundle(ext, a.chosen, platform{kubernetes, issuer}, image)
	switch {
	case reconcile.ReasonOf(err, "") == olmv1.ReasonInvalidConfiguration:
		// Scripts match this wording.
		return nil, fmt.Errorf("error for resolved bundle %q with version %q: invalid ClusterExtension configuration: %w", a.chosen.Name, a.chosen.Version, err)
	case err != nil:
		return nil, fmt.Errorf("bundle %q: %w", a.chosen.Name, err)
	}

	wantedPhases := groupIntoPhases(rendered.objects)
	if err := checkPhaseCount(wantedPhases); err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", a.chosen.Name, err))
	}

	annotations, err := newRevisionAnnotations(a.effectiveExtension(ext), a.chosen, rendered.dependencies, image.Canonical, wanted)
	if err != nil {
		return nil, err
	}

	recordCRDNames(annotations, rendered.objects)
	if !recordStatedProperties(annotations, rendered.statedProperties) {
		ctrl.LoggerFrom(ctx).Info("The properties of the bundle are too large to be recorded on its revision", "bundle", a.chosen.Name)
	}

	return &revisionContent{rendered.dependencies, rendered.objects, wantedPhases, annotations}, nil
}

// findIdenticalRevision returns the revision that already holds the wanted objects: the newest
// one, or the installed one while an update is incomplete. It returns nil if a new revision is
// needed.
func (a *attempt) findIdenticalRevision(ext *olmv1.ClusterExtension, phases []olmv1.ClusterObjectSetPhase, annotations map[string]string) *olmv1.ClusterObjectSet {
	for _, set := range []*olmv1.ClusterObjectSet{a.revisions.newest(), a.revisions.installed()} {
		if set == nil {
			continue
		}
		same, _, err := a.newPackedRevision(ext, set.Spec.Revision, phases, annotations)
		if err == nil && hasSameContent(set, same) {
			return set
		}
	}

	return nil
}

// runPreflightChecks checks the objects that would be written and removed. Failed checks are retried
// periodically, because their causes are outside of the extension. CRD upgrade safety is retried
// less often: this controller notices the changes that would resolve it.
func (a *attempt) runPreflightChecks(ctx context.Context, ext *olmv1.ClusterExtension, objects []unstructured.Unstructured) error {
	if a.Preflight == nil {
		return nil
	}

	removed, err := a.listRemovedObjects(ctx, objects)
	if err != nil {
		return err
	}

	err = a.Preflight.Check(ctx, a.effectiveExtension(ext), preflight.Change{Written: objects, Removed: removed})
	if known := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing); err != nil && a.dryRun == nil && (known == nil || known.Message != err.Error()) {
		ctrl.LoggerFrom(ctx).Info("Preflight checks failed", "report", err.Error())
	}

	var unsafe *crdsafety.UnsafeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsafe):
		return reconcile.Wait(olmv1.ReasonRetrying, resolutionRetryInterval, err)
	default:
		return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, err)
	}
}

// listRemovedObjects returns the objects of the active revisions that are not among the new
// objects.
func (a *attempt) listRemovedObjects(ctx context.Context, objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	seen := map[apply.Key]bool{}
	for i := range objects {
		seen[apply.KeyOf(&objects[i])] = true
	}

	var removed []unstructured.Unstructured
	for _, set := range a.revisions.active() {
		content, err := apply.Load(ctx, a.Reader, &set, a.SystemNamespace)
		if err != nil {
			return nil, fmt.Errorf("reading the objects of revision %q: %w", set.Name, err)
		}
		for _, phase := range content.Phases {
			for _, object := range phase.Objects {
				if key := apply.KeyOf(object.Manifest); !seen[key] {
					seen[key] = true
					removed = append(removed, *object.Manifest)
				}
			}
		}
	}

	return removed, nil
}

// newPackedRevision returns a revision with its phases, and the Secrets that hold the objects of a
// large one.
func (a *attempt) newPackedRevision(ext *olmv1.ClusterExtension, number int64, phases []olmv1.ClusterObjectSetPhase, annotations map[string]string) (*olmv1.ClusterObjectSet, []corev1.Secret, error) {
	set := newClusterObjectSet(ext, number, annotations)
	packed, secrets, err := packIntoSecrets(phases, ext.Name, set.Name, a.SystemNamespace)
	if err != nil {
		return nil, nil, err
	}
	set.Spec.Phases = packed
	return set, secrets, nil
}

// createRevision creates the Secrets of the revision, then the revision. A revision thus never
// waits for objects that do not exist. The names of the Secrets are derived from their content, so
// an attempt after an interrupted one finds them again.
func (a *attempt) createRevision(ctx context.Context, set *olmv1.ClusterObjectSet, secrets []corev1.Secret) error {
	for i := range secrets {
		if err := a.Client.Create(ctx, &secrets[i]); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("writing objects of revision %q to Secret %q: %w", set.Name, secrets[i].Name, err)
		}
	}

	if err := a.Client.Create(ctx, set); err != nil {
		return a.explainCreateFailure(ctx, set, err)
	}

	a.revisions = append(a.revisions, *set)
	if len(secrets) == 0 {
		return nil
	}

	return a.setSecretOwnerReferences(ctx, set)
}

// explainCreateFailure returns the error for a revision that could not be created. A former
// extension of the same name may have left a revision of that name: then the extension waits, and
// the watch reports its removal.
func (a *attempt) explainCreateFailure(ctx context.Context, set *olmv1.ClusterObjectSet, err error) error {
	err = fmt.Errorf("creating revision %q: %w", set.Name, err)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}

	var former olmv1.ClusterObjectSet
	if getErr := a.Reader.Get(ctx, client.ObjectKeyFromObject(set), &former); getErr != nil || metav1.GetControllerOf(&former) == nil ||
		metav1.GetControllerOf(&former).UID == metav1.GetControllerOf(set).UID {
		return err // the cache is stale
	}

	return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, fmt.Errorf("waiting until %s, which an extension of the same name left, is removed", describeRevision(&former)))
}

// setSecretOwnerReferences makes the revision the owner of its Secrets, so that they are deleted
// with it.
func (a *attempt) setSecretOwnerReferences(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	controller := true
	secrets := metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := a.Reader.List(ctx, &secrets, client.InNamespace(a.SystemNamespace), client.MatchingLabels{olmv1.LabelRevisionName: set.Name})
	if err != nil {
		return fmt.Errorf("listing the Secrets of revision %q: %w", set.Name, err)
	}

	for _, secret := range secrets.Items {
		if metav1.IsControlledBy(&secret, set) {
			continue
		}
		before := secret.DeepCopy()
		secret.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind,
			Name: set.Name, UID: set.UID, Controller: &controller, BlockOwnerDeletion: &controller,
		}}
		if err := a.Client.Patch(ctx, &secret, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("setting the owner of Secret %q to revision %q: %w", secret.Name, set.Name, err)
		}
	}

	return nil
}

// annotateRevision updates the annotations of a revision whose objects are the wanted ones.
func (a *attempt) annotateRevision(ctx context.Context, set *olmv1.ClusterObjectSet, annotations map[string]string) error {
	before := set.DeepCopy()
	for _, key := range []string{olmv1.AnnotationProvides, olmv1.AnnotationRequires, olmv1.AnnotationBundleRelease, olmv1.AnnotationCRDs, bundle.AnnotationProperties} {
		delete(set.Annotations, key)
	}

	maps.Copy(set.Annotations, annotations)
	if err := a.Client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating revision %q: %w", set.Name, err)
	}

	return nil
}

// syncExistingRevision updates the progress deadline of a revision. It also sets the owner of the
// revision's Secrets, in case an earlier attempt was interrupted before that.
func (a *attempt) syncExistingRevision(ctx context.Context, ext *olmv1.ClusterExtension, set *olmv1.ClusterObjectSet) error {
	if !hasSucceeded(set) && apply.HoldsReferences(set) {
		if err := a.setSecretOwnerReferences(ctx, set); err != nil {
			return err
		}
	}

	if ptr.Equal(set.Spec.ProgressDeadlineMinutes, ext.Spec.ProgressDeadlineMinutes) {
		return nil
	}

	before := set.DeepCopy()
	set.Spec.ProgressDeadlineMinutes = ext.Spec.ProgressDeadlineMinutes
	if err := a.Client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("updating the progress deadline of revision %q: %w", set.Name, err)
	}

	return nil
}
