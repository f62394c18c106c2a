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
	// recheck is how often a thing that another person must make is looked for, when no
	// watch tells of it.
	recheck = 2 * time.Second
	// rechoose is how often an unsatisfiable request is tried again when no catalog and
	// no extension changed.
	rechoose = time.Minute
)

func isMissingAccount(err error) bool { return errors.Is(err, apply.ErrMissingAccount) }

// attempt is one reconciliation of one extension: what its steps found, for the
// steps after them.
type attempt struct {
	*Controller

	revs     revisions
	observed bool
	chosen   selection
	// choice is what was chosen from, and how.
	choice choice
	// planned, when not nil, has the steps only find out what they would do: it takes
	// what of that does not stand in their results.
	planned *findings
	// retrieved has the purposes for which a bundle was asked for.
	retrieved map[string]bool
	// awaited, when not nil, says which bundle is being pulled.
	awaited error
}

// observe reads the extension's revisions.
func (a *attempt) observe(ctx context.Context, ext *olmv1.ClusterExtension) error {
	revs, err := a.list(ctx, ext)
	if err != nil {
		return err
	}
	a.revs, a.observed = revs, true
	return nil
}

func (a *attempt) list(ctx context.Context, ext *olmv1.ClusterExtension) (revisions, error) {
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

// settle archives what the newest revision has replaced, and forgets old history.
func (a *attempt) settle(ctx context.Context, _ *olmv1.ClusterExtension) error {
	for _, set := range a.revs.toArchive() {
		if err := a.archive(ctx, set, 0); err != nil {
			return err
		}
	}

	for _, set := range a.revs.toDelete() {
		if err := a.Client.Delete(ctx, &set); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the archived revision %q: %w", set.Name, err)
		}
	}
	return nil
}

// begin makes sure, before anything is chosen for an extension that has no revision yet,
// that there is a place for it. Later its revision tells when that is gone.
func (a *attempt) begin(ctx context.Context, ext *olmv1.ClusterExtension) error {
	if a.revs.newest() != nil {
		return nil
	}
	return a.checkPlace(ctx, ext)
}

// checkPlace makes sure that the namespace and the account exist, without which
// nothing can be written.
func (a *attempt) checkPlace(ctx context.Context, ext *olmv1.ClusterExtension) error {
	var namespace metav1.PartialObjectMetadata
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := a.Reader.Get(ctx, client.ObjectKey{Name: ext.Spec.Namespace}, &namespace); err != nil {
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("looking for namespace %q: %w", ext.Spec.Namespace, err)
		}
		return reconcile.Wait(olmv1.ReasonRetrying, recheck, fmt.Errorf(
			"namespace %q does not exist: create it, the extension's namespaced objects go there", ext.Spec.Namespace))
	}

	name := accountName(a.honored(ext))
	if name == "" {
		if a.RequireServiceAccount {
			return reconcile.Stop(olmv1.ReasonBlocked, errors.New(
				"spec.serviceAccount is not set, and this cluster requires it: name a ServiceAccount that has the rights the extension needs"))
		}
		return nil
	}

	err := apply.CheckAccount(ctx, a.Reader, client.ObjectKey{Namespace: ext.Spec.Namespace, Name: name})
	if isMissingAccount(err) {
		return reconcile.Wait(olmv1.ReasonRetrying, recheck, err)
	}

	return err
}

// choose resolves the bundle from the catalogs. Without any catalog to choose from it keeps
// the bundle that is there.
func (a *attempt) choose(ctx context.Context, ext *olmv1.ClusterExtension) error {
	selected, err := a.selectedCatalogs(ctx, ext)
	if err != nil {
		return err
	}

	filter := ext.Spec.Source.Catalog
	if keeper := a.revs.keeper(filter.Version); len(selected) == 0 && keeper != nil {
		a.chosen = selectionOf(keeper)
		a.choice = choiceWithoutCatalogs(filter, a.chosen, a.revs.installed())
		return nil
	}

	catalogs, err := a.readCatalogs(ctx, servingCatalogs(selected), filter.PackageName)
	if err != nil {
		return err
	}

	a.choice = choice{catalogs: catalogs, request: resolve.Request{
		Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels,
		Policy: filter.UpgradeConstraintPolicy, Installed: bundleOf(a.revs.installed()), RunsOn: a.runsOn,
	}}
	result, err := resolve.Resolve(a.choice.request, catalogs)
	if err != nil {
		return reconcile.Wait(olmv1.ReasonRetrying, rechoose, err)
	}

	a.choice.result = result
	a.chosen = selection{
		Name: result.Bundle.Name, Version: result.Version.String(), Release: result.Release, Image: result.Bundle.Image,
		catalog: result.Catalog, properties: result.Bundle.Properties,
	}.asInstalled(a.revs.installed())
	for _, warning := range result.Warnings {
		ctrl.LoggerFrom(ctx).Info("A catalog has a fault", "fault", warning)
	}

	for _, condition := range resolve.DeprecationConditions(result.Deprecations, filter.Channels, result.Bundle.Name) {
		setCondition(ext, condition)
	}

	return nil
}

// revise makes a revision of the chosen bundle if the newest one does not hold it.
func (a *attempt) revise(ctx context.Context, ext *olmv1.ClusterExtension) error {
	issuer, err := a.issuer(ctx)
	if err != nil {
		return err
	}

	wanted := inputs(a.honored(ext), a.chosen, issuer, a.Program)
	newest := a.revs.newest()
	switch standing := a.revs.standing(wanted); standing {
	case nil:
	case newest:
		return a.keep(ctx, ext, newest)
	default:
		return a.giveBack(ctx, ext, standing, 0)
	}

	if err := a.checkRefused(ext, wanted); err != nil {
		return err
	}

	if newest != nil {
		if err := a.checkPlace(ctx, ext); err != nil {
			return err
		}
	}

	made, err := a.produce(ctx, ext, issuer, wanted)
	if err != nil {
		return err
	}

	if !holds(newest, a.chosen) {
		if err := a.checkDependencies(ctx, ext, made.bundle); err != nil {
			return err
		}
	}

	if set := a.holder(ext, made.phases, made.annotations); set != nil {
		if err := a.annotate(ctx, set, made.annotations); err != nil {
			return err
		}
		return a.giveBack(ctx, ext, set, 0)
	}

	if err := a.preflight(ctx, ext, made.objects); err != nil {
		return err
	}

	set, secrets, err := a.revision(ext, a.revs.nextNumber(), made.phases, made.annotations)
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", a.chosen.Name, err))
	}

	return a.write(ctx, set, secrets)
}

// product is what a revision of the chosen bundle consists of.
type product struct {
	bundle      *dependency.Bundle
	objects     []unstructured.Unstructured
	phases      []olmv1.ClusterObjectSetPhase
	annotations map[string]string
}

// produce pulls and renders the chosen bundle.
func (a *attempt) produce(ctx context.Context, ext *olmv1.ClusterExtension, issuer render.Issuer, wanted string) (*product, error) {
	image, err := a.retrieveBundle(ctx, ext, cmp.Or(a.chosen.pinned, a.chosen.Image))
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", a.chosen.Name, err)
	}

	kubernetes, err := a.kubernetes()
	if err != nil {
		return nil, err
	}

	rendered, err := renderBundle(ext, a.chosen, platform{kubernetes, issuer}, image)
	switch {
	case reconcile.ReasonOf(err, "") == olmv1.ReasonInvalidConfiguration:
		// The words are those that scripts look for.
		return nil, fmt.Errorf("error for resolved bundle %q with version %q: invalid ClusterExtension configuration: %w", a.chosen.Name, a.chosen.Version, err)
	case err != nil:
		return nil, fmt.Errorf("bundle %q: %w", a.chosen.Name, err)
	}

	wantedPhases := phases(rendered.objects)
	if err := checkPhases(wantedPhases); err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", a.chosen.Name, err))
	}

	annotations, err := annotationsFor(a.honored(ext), a.chosen, rendered.seen, image.Canonical, wanted)
	if err != nil {
		return nil, err
	}

	recordCRDs(annotations, rendered.objects)
	if !recordStatedProperties(annotations, rendered.stated) {
		ctrl.LoggerFrom(ctx).Info("The properties of the bundle are too large to be recorded on its revision", "bundle", a.chosen.Name)
	}

	return &product{rendered.seen, rendered.objects, wantedPhases, annotations}, nil
}

// holder returns the revision that holds the wanted objects already: the newest, or the one
// that an unfinished update has not replaced yet. Nil when a new one has to be made.
func (a *attempt) holder(ext *olmv1.ClusterExtension, phases []olmv1.ClusterObjectSetPhase, annotations map[string]string) *olmv1.ClusterObjectSet {
	for _, set := range []*olmv1.ClusterObjectSet{a.revs.newest(), a.revs.installed()} {
		if set == nil {
			continue
		}
		same, _, err := a.revision(ext, set.Spec.Revision, phases, annotations)
		if err == nil && sameContent(set, same) {
			return set
		}
	}

	return nil
}

// preflight checks what would be written and removed. What it finds is changed elsewhere,
// so it is asked again: every few seconds, but not so often for what a person cannot
// change without this controller noticing.
func (a *attempt) preflight(ctx context.Context, ext *olmv1.ClusterExtension, objects []unstructured.Unstructured) error {
	if a.Preflight == nil {
		return nil
	}

	removed, err := a.removed(ctx, objects)
	if err != nil {
		return err
	}

	err = a.Preflight.Check(ctx, a.honored(ext), preflight.Change{Written: objects, Removed: removed})
	if known := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing); err != nil && a.planned == nil && (known == nil || known.Message != err.Error()) {
		ctrl.LoggerFrom(ctx).Info("Preflight checks failed", "report", err.Error())
	}

	var unsafe *crdsafety.UnsafeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unsafe):
		return reconcile.Wait(olmv1.ReasonRetrying, rechoose, err)
	default:
		return reconcile.Wait(olmv1.ReasonRetrying, recheck, err)
	}
}

// removed returns the objects of the active revisions that are not among the new ones.
func (a *attempt) removed(ctx context.Context, objects []unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	seen := map[apply.Key]bool{}
	for i := range objects {
		seen[apply.KeyOf(&objects[i])] = true
	}

	var removed []unstructured.Unstructured
	for _, set := range a.revs.active() {
		content, err := apply.Load(ctx, a.Reader, &set, a.SystemNamespace)
		if err != nil {
			return nil, fmt.Errorf("reading what revision %q holds: %w", set.Name, err)
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

func (a *attempt) revision(ext *olmv1.ClusterExtension, number int64, phases []olmv1.ClusterObjectSetPhase, annotations map[string]string) (*olmv1.ClusterObjectSet, []corev1.Secret, error) {
	set := revision(ext, number, annotations)
	packed, secrets, err := pack(phases, ext.Name, set.Name, a.SystemNamespace)
	if err != nil {
		return nil, nil, err
	}
	set.Spec.Phases = packed
	return set, secrets, nil
}

// write creates the revision, its Secrets first: a revision never waits for objects
// that nobody writes. Secrets of an attempt that was interrupted are found again by
// their names, which follow from their content.
func (a *attempt) write(ctx context.Context, set *olmv1.ClusterObjectSet, secrets []corev1.Secret) error {
	for i := range secrets {
		if err := a.Client.Create(ctx, &secrets[i]); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("writing objects of revision %q to Secret %q: %w", set.Name, secrets[i].Name, err)
		}
	}

	if err := a.Client.Create(ctx, set); err != nil {
		return a.uncreated(ctx, set, err)
	}

	a.revs = append(a.revs, *set)
	if len(secrets) == 0 {
		return nil
	}

	return a.own(ctx, set)
}

// uncreated says why a revision could not be created: one of its name may be left of an
// extension that had the same name, and is waited for. The watch tells when it is gone.
func (a *attempt) uncreated(ctx context.Context, set *olmv1.ClusterObjectSet, err error) error {
	err = fmt.Errorf("creating revision %q: %w", set.Name, err)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}

	var former olmv1.ClusterObjectSet
	if gone := a.Reader.Get(ctx, client.ObjectKeyFromObject(set), &former); gone != nil || metav1.GetControllerOf(&former) == nil ||
		metav1.GetControllerOf(&former).UID == metav1.GetControllerOf(set).UID {
		return err // what the cache shows of it is late
	}

	return reconcile.Wait(olmv1.ReasonRetrying, recheck, fmt.Errorf("waiting until %s, which an extension of the same name left, is removed", describe(&former)))
}

// own makes the Secrets of a revision go with it.
func (a *attempt) own(ctx context.Context, set *olmv1.ClusterObjectSet) error {
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
			return fmt.Errorf("giving Secret %q to revision %q: %w", secret.Name, set.Name, err)
		}
	}

	return nil
}

// annotate records on a revision that it holds what is wanted now as well.
func (a *attempt) annotate(ctx context.Context, set *olmv1.ClusterObjectSet, annotations map[string]string) error {
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

// keep sees to what may change on a revision: its deadline, and the ownership of its
// Secrets if an earlier attempt was interrupted before it was set.
func (a *attempt) keep(ctx context.Context, ext *olmv1.ClusterExtension, set *olmv1.ClusterObjectSet) error {
	if !hasSucceeded(set) && apply.HoldsReferences(set) {
		if err := a.own(ctx, set); err != nil {
			return err
		}
	}

	if ptr.Equal(set.Spec.ProgressDeadlineMinutes, ext.Spec.ProgressDeadlineMinutes) {
		return nil
	}

	before := set.DeepCopy()
	set.Spec.ProgressDeadlineMinutes = ext.Spec.ProgressDeadlineMinutes
	if err := a.Client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("handing the progress deadline to revision %q: %w", set.Name, err)
	}

	return nil
}
