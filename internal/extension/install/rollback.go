package install

import (
	"cmp"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// lateUpdate is an update that missed its progress deadline and is abandoned. The installed revision
// stays and takes back the objects that the update had taken over.
type lateUpdate struct {
	installed, newest *olmv1.ClusterObjectSet
	// archive are the names of the revisions to archive.
	archive []string
	// err is why the update cannot be abandoned. It is nil if it can be.
	err error
}

// findLateUpdate returns the update to abandon, if the extension's rollback policy asks for that. It
// returns nil if there is none. A first installation has nothing to roll back to.
func findLateUpdate(ext *olmv1.ClusterExtension, revs revisions) *lateUpdate {
	installed, newest := revs.installed(), revs.newest()
	if installed == nil || rollbackPolicy(ext) != olmv1.RollbackPolicyOnDeadline || !hasMissedDeadline(newest, ext) {
		return nil
	}
	return &lateUpdate{installed: installed, newest: newest, archive: revs.listActiveAfter(installed)}
}

// newRefusal returns the error of an update that cannot be abandoned.
func (u *lateUpdate) newRefusal(err error) error {
	return reconcile.Wait(olmv1.ReasonProgressDeadlineExceeded, preconditionRetryInterval, fmt.Errorf(
		"the update to bundle %q is late, but cannot be abandoned: %w", bundleMetadata(u.newest).Name, err))
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

// checkRefusedUpdate returns an error if the update with a digest of inputs was abandoned before, for
// the same generation of the spec.
func checkRefusedUpdate(ext *olmv1.ClusterExtension, revs revisions, digest string) error {
	refused, installed := revs.findRefusedRevision(digest, ext.Generation), revs.installed()
	if refused == nil || installed == nil {
		return nil
	}
	return reconcile.Stop(olmv1.ReasonProgressDeadlineExceeded, fmt.Errorf(
		"the update to bundle %q was abandoned, and bundle %q stays installed; it is tried again when the spec changes, and another bundle as soon as the catalogs offer it: %s",
		bundleMetadata(refused).Name, bundleMetadata(installed).Name, refused.Annotations[olmv1.AnnotationFailure]))
}

// archivedRevision returns a revision as it is once it is archived. On one that was never complete
// an annotation records the failure, because the condition that states it changes then. If
// refusedFor is not zero, the same update is not retried for that generation of the spec.
func archivedRevision(set *olmv1.ClusterObjectSet, refusedFor int64) *olmv1.ClusterObjectSet {
	archived := set.DeepCopy()
	archived.Spec.LifecycleState = olmv1.LifecycleStateArchived
	if !hasSucceeded(set) {
		metav1.SetMetaDataAnnotation(&archived.ObjectMeta, olmv1.AnnotationFailure, failureMessage(set))
	}
	if refusedFor != 0 {
		metav1.SetMetaDataAnnotation(&archived.ObjectMeta, olmv1.AnnotationRefusedGeneration, strconv.FormatInt(refusedFor, 10))
	}
	return archived
}

// failureMessage returns why a revision is not complete, from its condition.
func failureMessage(set *olmv1.ClusterObjectSet) string {
	message := ""
	if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing); c != nil {
		message = c.Message
	}
	return cmp.Or(message, "it was abandoned before it was rolled out completely")
}
