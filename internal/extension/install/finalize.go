package install

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/extension/former"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// remover removes what extensions consist of.
type remover struct {
	client       client.Client
	bundles      BundleOpener
	dependencies *dependencyChecker
	revisions    *revisionReader
	former       *former.Reader
	waiting      *waitingExtensions
	// newRetriever returns the retriever of the bundles of a pass.
	newRetriever func() *bundleRetriever
}

// finalizeExtension does what must precede the removal of an extension. It writes to the status which
// revisions are left, since it is the one that has read them.
func (r *remover) finalizeExtension(ctx context.Context, ext *olmv1.ClusterExtension) error {
	r.newRetriever().cancelUnrequested(ext.Name)
	revs, err := r.revisions.listOwnRevisions(ctx, ext)
	if err == nil && len(revs) == 0 {
		// The cache may not have received the revision that the previous pass created. Left to the garbage collector, its
		// removal would not keep CRDs.
		revs, err = r.revisions.listStoredRevisions(ctx, ext)
	}
	if err != nil {
		return err
	}

	err = r.removeRevisions(ctx, ext, revs)
	reportRevisions(ext, revs, err)
	if err != nil {
		return err
	}

	left, err := r.former.ListRevisions(ctx, ext)
	if err != nil {
		return err
	}
	for i := range left { // The garbage collector deletes their objects.
		if err := deleteFormerRevision(ctx, r.client, &left[i], metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}

	if err := r.deleteOrphanedSecrets(ctx, ext.Name); err != nil {
		return err
	}
	r.evictUnusedBundles(ctx, ext)
	return nil
}

// removeRevisions removes the revisions, unless other extensions depend on the installed bundle. An
// annotation overrides that. A removal that has begun continues.
func (r *remover) removeRevisions(ctx context.Context, ext *olmv1.ClusterExtension, revs revisions) error {
	if installed := revs.installed(); installed != nil && ext.Annotations[olmv1.AnnotationRemoveDespiteDependents] != "true" {
		r.waiting.record(ext.Name, waitingBundle{})
		if err := r.dependencies.checkDependents(ctx, ext, installed); err != nil {
			return err
		}
	}
	r.waiting.remove(ext.Name)

	return r.deleteRevisions(ctx, ext, revs)
}

// deleteRevisions deletes the revisions, which delete their objects, and waits until they are
// gone.
func (r *remover) deleteRevisions(ctx context.Context, ext *olmv1.ClusterExtension, revs revisions) error {
	if len(revs) == 0 {
		return nil
	}

	var waiting []string
	for i := range revs {
		set := &revs[i]
		if err := r.annotateToKeepCRDs(ctx, ext, set); err != nil {
			return err
		}
		if set.DeletionTimestamp.IsZero() {
			if err := r.client.Delete(ctx, set); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting revision %q: %w", set.Name, err)
			}
		}
		waiting = append(waiting, describeRevision(set))
	}

	return reconcile.Wait(olmv1.ReasonRollingOut, preconditionRetryInterval, fmt.Errorf("removing %s", strings.Join(waiting, "; ")))
}

// annotateToKeepCRDs copies the annotation that keeps CRDs from the extension to a revision. It
// does so before and during the deletion of the revision.
func (r *remover) annotateToKeepCRDs(ctx context.Context, ext *olmv1.ClusterExtension, set *olmv1.ClusterObjectSet) error {
	if !keepsCRDs(ext) || set.Annotations[olmv1.AnnotationKeepCRDs] == "true" {
		return nil
	}

	before := set.DeepCopy()
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, olmv1.AnnotationKeepCRDs, "true")
	if err := r.client.Patch(ctx, set, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotating revision %q to keep its CRDs: %w", set.Name, err)
	}

	return nil
}

// describeRevision returns the name of a revision. If it is being deleted, the message of its
// condition Progressing is appended.
func describeRevision(set *olmv1.ClusterObjectSet) string {
	if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing); !set.DeletionTimestamp.IsZero() && c != nil && c.Message != "" {
		return fmt.Sprintf("revision %s: %s", set.Name, c.Message)
	}
	return "revision " + set.Name
}

// deleteOrphanedSecrets deletes Secrets whose revision was never created. Other Secrets are
// deleted with their revision.
func (r *remover) deleteOrphanedSecrets(ctx context.Context, extension string) error {
	secrets := metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := r.revisions.reader.List(ctx, &secrets, client.InNamespace(r.revisions.systemNamespace), client.HasLabels{olmv1.LabelRevisionName},
		client.MatchingLabels{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: extension})
	if err != nil {
		return fmt.Errorf("listing the Secrets of %q: %w", extension, err)
	}

	for i := range secrets.Items {
		if err := r.client.Delete(ctx, &secrets.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Secret %q: %w", secrets.Items[i].Name, err)
		}
	}

	return nil
}

// evictUnusedBundles evicts the unpacked bundles that no revision of another extension uses from
// the cache.
//
// A removal never waits for the cache: a failure is logged, and the next removal of an extension
// retries.
func (r *remover) evictUnusedBundles(ctx context.Context, ext *olmv1.ClusterExtension) {
	var sets olmv1.ClusterObjectSetList
	err := r.client.List(ctx, &sets)
	if err == nil {
		err = r.bundles.Keep(ctx, listImagesInUse(sets.Items, ext.Name))
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Evicting unused bundles from the cache")
	}
}

// listImagesInUse returns the bundle images of the active revisions of all extensions except one.
// A ClusterObjectSet that was not created by an extension may have no bundle.
func listImagesInUse(sets []olmv1.ClusterObjectSet, removedExtension string) []string {
	var images []string
	for i := range sets {
		image := sets[i].Annotations[olmv1.AnnotationBundleReference]
		if image != "" && isActiveRevision(&sets[i]) && sets[i].Labels[olmv1.LabelOwnerName] != removedExtension {
			images = append(images, image)
		}
	}

	return images
}
