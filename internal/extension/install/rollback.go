package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// rollBackLateUpdate abandons an update that missed its progress deadline, if the extension's
// rollback policy asks for that. The installed revision stays and takes back the objects that the
// update had taken over. A first installation has nothing to roll back to.
func (a *attempt) rollBackLateUpdate(ctx context.Context, ext *olmv1.ClusterExtension) error {
	installed, newest := a.revisions.installed(), a.revisions.newest()
	if installed == nil || rollbackPolicy(ext) != olmv1.RollbackPolicyOnDeadline || !hasMissedDeadline(newest, ext) {
		return nil
	}

	err := a.rollBackToRevision(ctx, ext, installed, ext.Generation)
	if apierrors.IsConflict(err) {
		return nil // the revision changed, and may be complete: the change enqueues the extension
	}
	if err != nil {
		return reconcile.Wait(olmv1.ReasonProgressDeadlineExceeded, preconditionRetryInterval, fmt.Errorf(
			"the update to bundle %q is late, but cannot be given up: %w", bundleMetadata(newest).Name, err))
	}

	return nil
}

func rollbackPolicy(ext *olmv1.ClusterExtension) olmv1.RollbackPolicy {
	if ext.Spec.Install == nil || ext.Spec.Install.Rollback == nil {
		return olmv1.RollbackPolicyNever
	}
	return ext.Spec.Install.Rollback.Policy
}

// hasMissedDeadline reports whether a revision was not complete by its progress deadline. It
// returns false while the rollout controller has not observed the current deadline.
func hasMissedDeadline(set *olmv1.ClusterObjectSet, ext *olmv1.ClusterExtension) bool {
	c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	return !hasSucceeded(set) && c != nil && c.Status == metav1.ConditionFalse && c.Reason == olmv1.ReasonProgressDeadlineExceeded &&
		c.ObservedGeneration == set.Generation && ptr.Equal(set.Spec.ProgressDeadlineMinutes, ext.Spec.ProgressDeadlineMinutes)
}

// checkRefusedUpdate returns an error if the same update was abandoned before, for the same
// generation of the spec.
func (a *attempt) checkRefusedUpdate(ext *olmv1.ClusterExtension, wanted string) error {
	refused, installed := a.revisions.findRefusedRevision(wanted, ext.Generation), a.revisions.installed()
	if refused == nil || installed == nil {
		return nil
	}
	return reconcile.Stop(olmv1.ReasonProgressDeadlineExceeded, fmt.Errorf(
		"the update to bundle %q was given up, and bundle %q stays installed; it is tried again when the spec changes, and another bundle as soon as the catalogs offer it: %s",
		bundleMetadata(refused).Name, bundleMetadata(installed).Name, refused.Annotations[olmv1.AnnotationFailure]))
}

// rollBackToRevision archives the active revisions after the given one, which makes it the newest.
// It does nothing if there are none. The preflight checks run first, as for an update. If
// refusedFor is not zero, the archived revisions are refused for that generation.
func (a *attempt) rollBackToRevision(ctx context.Context, ext *olmv1.ClusterExtension, to *olmv1.ClusterObjectSet, refusedFor int64) error {
	after := a.revisions.listActiveAfter(to)
	if len(after) == 0 {
		return nil
	}

	objects, err := a.newRevisionReader().loadObjects(ctx, to)
	if err != nil {
		return err
	}
	if err := a.runPreflightChecks(ctx, ext, objects); err != nil {
		return err
	}

	for _, set := range slices.Backward(after) {
		if err := a.archiveRevision(ctx, set, refusedFor); err != nil {
			return err
		}
	}

	return nil
}

// archiveRevision archives a revision on the cluster and in memory. On one that was never complete
// it records the failure in an annotation, because the condition that states it changes now. If
// refusedFor is not zero, the same update is not retried for that generation of the spec.
func (a *attempt) archiveRevision(ctx context.Context, set *olmv1.ClusterObjectSet, refusedFor int64) error {
	patch := client.MergeFrom(set.DeepCopy())
	archived := set.DeepCopy()
	archived.Spec.LifecycleState = olmv1.LifecycleStateArchived
	if !hasSucceeded(set) {
		metav1.SetMetaDataAnnotation(&archived.ObjectMeta, olmv1.AnnotationFailure, failureMessage(set))
	}

	if refusedFor != 0 {
		metav1.SetMetaDataAnnotation(&archived.ObjectMeta, olmv1.AnnotationRefusedGeneration, strconv.FormatInt(refusedFor, 10))
		// The lock protects a revision that has just become complete.
		patch = client.MergeFromWithOptions(set.DeepCopy(), client.MergeFromWithOptimisticLock{})
	}

	if err := a.Client.Patch(ctx, archived, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("archiving revision %q: %w", set.Name, err)
	}

	*set = *archived
	return nil
}

// failureMessage returns why a revision is not complete, from its condition.
func failureMessage(set *olmv1.ClusterObjectSet) string {
	message := ""
	if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing); c != nil {
		message = c.Message
	}
	return cmp.Or(message, "it was given up before it was rolled out completely")
}
