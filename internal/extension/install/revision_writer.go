package install

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// revisionWriter writes the revisions of one extension.
type revisionWriter struct {
	client client.Client
	// reader reads from the API server.
	reader          client.Reader
	systemNamespace string
	// revisions are those of the extension, as they are after the last write.
	revisions revisions
}

// pruneRevisions archives the revisions that the installed one has replaced, and deletes archived
// ones.
func (w *revisionWriter) pruneRevisions(ctx context.Context, replaced, expired []string) error {
	for _, name := range replaced {
		if err := w.archiveRevision(ctx, name, 0); err != nil {
			return err
		}
	}

	for _, name := range expired {
		if err := w.client.Delete(ctx, w.revisions.findByName(name)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the archived revision %q: %w", name, err)
		}
	}
	return nil
}

// archiveRevision archives a revision. If refusedFor is not zero, the same update is not retried
// for that generation of the spec.
func (w *revisionWriter) archiveRevision(ctx context.Context, name string, refusedFor int64) error {
	set := w.revisions.findByName(name)
	patch := client.MergeFrom(set)
	if refusedFor != 0 {
		// The lock protects a revision that has just become complete.
		patch = client.MergeFromWithOptions(set, client.MergeFromWithOptimisticLock{})
	}

	archived := archivedRevision(set, refusedFor)
	if err := w.client.Patch(ctx, archived, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("archiving revision %q: %w", name, err)
	}

	w.revisions.replaceRevision(archived)
	return nil
}

// archiveRevisions archives revisions in the given order.
func (w *revisionWriter) archiveRevisions(ctx context.Context, names []string, refusedFor int64) error {
	for _, name := range names {
		if err := w.archiveRevision(ctx, name, refusedFor); err != nil {
			return err
		}
	}
	return nil
}

// annotateRevision updates the annotations of a revision whose objects are the wanted ones.
func (w *revisionWriter) annotateRevision(ctx context.Context, name string, annotations map[string]string) error {
	before := w.revisions.findByName(name)
	set := before.DeepCopy()
	for _, key := range []string{olmv1.AnnotationProvides, olmv1.AnnotationRequires, olmv1.AnnotationBundleRelease, olmv1.AnnotationCRDs, bundle.AnnotationProperties} {
		delete(set.Annotations, key)
	}

	maps.Copy(set.Annotations, annotations)
	if err := w.client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating revision %q: %w", name, err)
	}

	w.revisions.replaceRevision(set)
	return nil
}

// setAnnotation sets an annotation of a revision. An empty value removes it.
func (w *revisionWriter) setAnnotation(ctx context.Context, name, key, value string) error {
	before := w.revisions.findByName(name)
	set := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, key, value)
	if value == "" {
		delete(set.Annotations, key)
	}
	if err := w.client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotating revision %q: %w", name, err)
	}

	w.revisions.replaceRevision(set)
	return nil
}

// completeRevision reports in the status of a revision that its objects were rolled out, by another
// implementation.
func (w *revisionWriter) completeRevision(ctx context.Context, name string) error {
	before := w.revisions.findByName(name)
	set := before.DeepCopy()
	meta.SetStatusCondition(&set.Status.Conditions, metav1.Condition{
		Type: olmv1.TypeSucceeded, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded, ObservedGeneration: set.Generation,
		Message: "The revision was rolled out before it was taken over",
	})
	if err := reconcile.PatchStatus(ctx, w.client, set, before); err != nil {
		return err
	}

	w.revisions.replaceRevision(set)
	return nil
}

// syncRevision updates the progress deadline of a revision. It also sets the owner of the
// revision's Secrets, in case an earlier attempt was interrupted before that.
func (w *revisionWriter) syncRevision(ctx context.Context, name string, deadline *int32) error {
	before := w.revisions.findByName(name)
	if !hasSucceeded(before) && apply.HoldsReferences(before) {
		if err := w.setSecretOwnerReferences(ctx, before); err != nil {
			return err
		}
	}

	if ptr.Equal(before.Spec.ProgressDeadlineMinutes, deadline) {
		return nil
	}

	set := before.DeepCopy()
	set.Spec.ProgressDeadlineMinutes = deadline
	if err := w.client.Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("updating the progress deadline of revision %q: %w", name, err)
	}

	w.revisions.replaceRevision(set)
	return nil
}

// createRevision creates the Secrets of the revision, then the revision. A revision thus never
// waits for objects that do not exist. The names of the Secrets are derived from their content, so
// an attempt after an interrupted one finds them again.
func (w *revisionWriter) createRevision(ctx context.Context, set *olmv1.ClusterObjectSet, secrets []corev1.Secret) error {
	for i := range secrets {
		if err := w.client.Create(ctx, &secrets[i]); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("writing objects of revision %q to Secret %q: %w", set.Name, secrets[i].Name, err)
		}
	}

	if err := w.client.Create(ctx, set); err != nil {
		return w.explainCreateFailure(ctx, set, err)
	}

	w.revisions = append(w.revisions, *set)
	if len(secrets) == 0 {
		return nil
	}

	return w.setSecretOwnerReferences(ctx, set)
}

// explainCreateFailure returns the error for a revision that could not be created. A former
// extension of the same name may have left a revision of that name: then the extension waits, and
// the watch reports its removal.
func (w *revisionWriter) explainCreateFailure(ctx context.Context, set *olmv1.ClusterObjectSet, err error) error {
	err = fmt.Errorf("creating revision %q: %w", set.Name, err)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}

	var former olmv1.ClusterObjectSet
	if getErr := w.reader.Get(ctx, client.ObjectKeyFromObject(set), &former); getErr != nil || metav1.GetControllerOf(&former) == nil ||
		metav1.GetControllerOf(&former).UID == metav1.GetControllerOf(set).UID {
		return err // the cache is stale
	}

	return reconcile.Wait(olmv1.ReasonRetrying, preconditionRetryInterval, fmt.Errorf("waiting until %s, which an extension of the same name left, is removed", describeRevision(&former)))
}

// setSecretOwnerReferences makes the revision the owner of its Secrets, so that they are deleted
// with it.
func (w *revisionWriter) setSecretOwnerReferences(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	controller := true
	secrets := metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := w.reader.List(ctx, &secrets, client.InNamespace(w.systemNamespace), client.MatchingLabels{olmv1.LabelRevisionName: set.Name})
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
		if err := w.client.Patch(ctx, &secret, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("setting the owner of Secret %q to revision %q: %w", secret.Name, set.Name, err)
		}
	}

	return nil
}
