package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

const (
	// recheck is how often a thing that another person must make is looked for, when no
	// watch tells of it.
	recheck = 2 * time.Second
	// rechoose is how often an unsatisfiable request is tried again when no catalog and
	// no extension changed.
	rechoose = time.Minute
)

// errMissingAccount is the missing spec.serviceAccount.
var errMissingAccount = errors.New("installation cannot proceed due to missing ServiceAccount")

func isMissingAccount(err error) bool { return errors.Is(err, errMissingAccount) }

// attempt is one reconciliation of one extension: what its steps found, for the
// steps after them.
type attempt struct {
	*Controller

	revs     revisions
	observed bool
	chosen   selection
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
		archived := set.DeepCopy()
		archived.Spec.LifecycleState = olmv1.LifecycleStateArchived
		if err := a.Client.Patch(ctx, archived, client.MergeFrom(&set)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("archiving revision %q: %w", set.Name, err)
		}
	}
	for _, set := range a.revs.toDelete() {
		if err := a.Client.Delete(ctx, &set); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the archived revision %q: %w", set.Name, err)
		}
	}
	return nil
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
	name := accountName(ext)
	if name == "" {
		if a.RequireServiceAccount {
			return reconcile.Stop(olmv1.ReasonBlocked, errors.New(
				"spec.serviceAccount is not set, and this cluster requires it: name a ServiceAccount that has the rights the extension needs"))
		}
		return nil
	}
	var account metav1.PartialObjectMetadata
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := a.Reader.Get(ctx, client.ObjectKey{Namespace: ext.Spec.Namespace, Name: name}, &account)
	if apierrors.IsNotFound(err) {
		return reconcile.Wait(olmv1.ReasonRetrying, recheck, fmt.Errorf(
			"%w: create ServiceAccount %q in namespace %q", errMissingAccount, name, ext.Spec.Namespace))
	}
	if err != nil {
		return fmt.Errorf("looking for ServiceAccount %q in namespace %q: %w", name, ext.Spec.Namespace, err)
	}
	return nil
}

// choose resolves the bundle from the catalogs.
func (a *attempt) choose(ctx context.Context, ext *olmv1.ClusterExtension) error {
	catalogs, err := a.catalogs(ctx, ext)
	if err != nil {
		return err
	}
	filter := ext.Spec.Source.Catalog
	result, err := resolve.Resolve(resolve.Request{
		Package: filter.PackageName, Version: filter.Version, Channels: filter.Channels,
		Policy: filter.UpgradeConstraintPolicy, Installed: bundleOf(a.revs.installed()),
	}, catalogs)
	if err != nil {
		return reconcile.Wait(olmv1.ReasonRetrying, rechoose, err)
	}
	a.chosen = selection{Name: result.Bundle.Name, Version: result.Version.String(), Image: result.Bundle.Image}
	for _, warning := range result.Warnings {
		ctrl.LoggerFrom(ctx).Info("A catalog has a fault", "fault", warning)
	}
	for _, condition := range resolve.DeprecationConditions(result.Deprecations, filter.Channels, result.Bundle.Name) {
		setCondition(ext, condition)
	}
	return nil
}

// catalogs reads what the serving catalogs that the extension selects say of its
// package.
func (a *attempt) catalogs(ctx context.Context, ext *olmv1.ClusterExtension) ([]resolve.Catalog, error) {
	var list olmv1.ClusterCatalogList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing catalogs: %w", err)
	}
	filter := ext.Spec.Source.Catalog
	selected, err := resolve.SelectCatalogs(filter.Selector, list.Items)
	if err != nil {
		return nil, reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("spec.source.catalog.selector: %w", err))
	}
	var result []resolve.Catalog
	for _, catalog := range selected {
		if !meta.IsStatusConditionTrue(catalog.Status.Conditions, olmv1.TypeServing) || catalog.Status.URLs == nil {
			continue
		}
		content, err := a.Catalogs.Content(ctx, catalog.Status.URLs.Base, filter.PackageName)
		if err != nil {
			return nil, reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf("reading package %q from catalog %q: %w", filter.PackageName, catalog.Name, err))
		}
		result = append(result, resolve.Catalog{Name: catalog.Name, Priority: catalog.Spec.Priority, Content: content})
	}
	return result, nil
}

// revise makes a revision of the chosen bundle if the newest one does not hold it.
func (a *attempt) revise(ctx context.Context, ext *olmv1.ClusterExtension) error {
	wanted := inputs(ext, a.chosen, a.Program)
	newest := a.revs.newest()
	if newest != nil && newest.Annotations[annotationInputs] == wanted {
		return a.keep(ctx, ext, newest)
	}
	files, canonical, err := a.Bundles.Open(ctx, a.chosen.Image)
	if err != nil {
		return fmt.Errorf("bundle %q: %w", a.chosen.Name, err)
	}
	objects, err := objectsOf(ext, files)
	if err != nil {
		return fmt.Errorf("bundle %q: %w", a.chosen.Name, err)
	}
	wantedPhases := phases(objects)
	annotations := annotationsFor(ext, a.chosen, canonical, wanted)
	if newest != nil {
		same, _, err := a.revision(ext, newest.Spec.Revision, wantedPhases, annotations)
		if err == nil && sameContent(newest, same) {
			return a.annotate(ctx, newest, annotations)
		}
	}
	if err := a.preflight(ctx, ext, objects); err != nil {
		return err
	}
	set, secrets, err := a.revision(ext, a.revs.nextNumber(), wantedPhases, annotations)
	if err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("bundle %q: %w", a.chosen.Name, err))
	}
	return a.write(ctx, set, secrets)
}

// preflight checks that the account of the extension may do all that the roll-out
// will do. Rights are granted elsewhere, so it is asked again every few seconds.
func (a *attempt) preflight(ctx context.Context, ext *olmv1.ClusterExtension, objects []unstructured.Unstructured) error {
	name := accountName(ext)
	if a.Preflight == nil || name == "" {
		return nil
	}
	account := types.NamespacedName{Namespace: ext.Spec.Namespace, Name: name}
	if err := a.Preflight.Check(ctx, account, ext.Name, objects); err != nil {
		return reconcile.Wait(olmv1.ReasonRetrying, recheck, err)
	}
	return nil
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
		return fmt.Errorf("creating revision %q: %w", set.Name, err)
	}
	a.revs = append(a.revs, *set)
	if len(secrets) == 0 {
		return nil
	}
	return a.own(ctx, set)
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
	for key, value := range annotations {
		set.Annotations[key] = value
	}
	if err := a.Client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating revision %q: %w", set.Name, err)
	}
	return nil
}

// keep sees to what may change on a revision: its deadline, and the ownership of its
// Secrets if an earlier attempt was interrupted before it was set.
func (a *attempt) keep(ctx context.Context, ext *olmv1.ClusterExtension, set *olmv1.ClusterObjectSet) error {
	if !hasSucceeded(set) && holdsReferences(set) {
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
