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
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// removeRevisions deletes the revisions, which delete their objects, and waits until
// they are gone.
func (a *attempt) removeRevisions(ctx context.Context, ext *olmv1.ClusterExtension) error {
	if len(a.revs) == 0 {
		return nil
	}

	var waiting []string
	for i := range a.revs {
		set := &a.revs[i]
		if err := a.keepCRDsOf(ctx, ext, set); err != nil {
			return err
		}
		if set.DeletionTimestamp.IsZero() {
			if err := a.Client.Delete(ctx, set); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting revision %q: %w", set.Name, err)
			}
		}
		waiting = append(waiting, describe(set))
	}

	return reconcile.Wait(olmv1.ReasonRollingOut, recheck, fmt.Errorf("removing %s", strings.Join(waiting, "; ")))
}

// keepCRDsOf hands the wish to keep the CRDs on to a revision, before it is deleted or while
// it still is being deleted.
func (a *attempt) keepCRDsOf(ctx context.Context, ext *olmv1.ClusterExtension, set *olmv1.ClusterObjectSet) error {
	if !keepsCRDs(ext) || set.Annotations[olmv1.AnnotationKeepCRDs] == "true" {
		return nil
	}

	before := set.DeepCopy()
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, olmv1.AnnotationKeepCRDs, "true")
	if err := a.Client.Patch(ctx, set, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("annotating revision %q to keep its CRDs: %w", set.Name, err)
	}

	return nil
}

// describe names a revision and says what it is waiting for.
func describe(set *olmv1.ClusterObjectSet) string {
	if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing); !set.DeletionTimestamp.IsZero() && c != nil && c.Message != "" {
		return fmt.Sprintf("revision %s: %s", set.Name, c.Message)
	}
	return "revision " + set.Name
}

// removeSecrets deletes Secrets whose revision was never created. Those of a revision
// go with it.
func (a *attempt) removeSecrets(ctx context.Context, ext *olmv1.ClusterExtension) error {
	secrets := metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := a.Reader.List(ctx, &secrets, client.InNamespace(a.SystemNamespace), client.HasLabels{olmv1.LabelRevisionName},
		client.MatchingLabels{olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind, olmv1.LabelOwnerName: ext.Name})
	if err != nil {
		return fmt.Errorf("listing the Secrets of %q: %w", ext.Name, err)
	}

	for i := range secrets.Items {
		if err := a.Client.Delete(ctx, &secrets.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Secret %q: %w", secrets.Items[i].Name, err)
		}
	}

	return nil
}

// dropBundles clears the unpacked bundles that no other extension's revision holds.
//
// The files are a cache, and a removal never waits for them: a failure is logged, and the
// next removal of an extension tries again.
func (a *attempt) dropBundles(ctx context.Context, ext *olmv1.ClusterExtension) error {
	var sets olmv1.ClusterObjectSetList
	err := a.Client.List(ctx, &sets)
	if err == nil {
		err = a.Bundles.Keep(ctx, bundlesInUse(sets.Items, ext.Name))
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Unpacked bundles were not cleared from the cache")
	}

	return nil
}

// bundlesInUse returns the bundle images of the active revisions of all extensions but
// one. A ClusterObjectSet that somebody else made may name no bundle.
func bundlesInUse(sets []olmv1.ClusterObjectSet, removedExtension string) []string {
	var images []string
	for i := range sets {
		image := sets[i].Annotations[olmv1.AnnotationBundleReference]
		if image != "" && isActive(&sets[i]) && sets[i].Labels[olmv1.LabelOwnerName] != removedExtension {
			images = append(images, image)
		}
	}

	return images
}
