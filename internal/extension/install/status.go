package install

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// conditions are the condition types of a ClusterExtension, in the order in which they are listed.
var conditions = reconcile.Conditions{
	olmv1.TypeDeprecated, olmv1.TypePackageDeprecated, olmv1.TypeChannelDeprecated, olmv1.TypeBundleDeprecated,
	olmv1.TypeInstalled, olmv1.TypeProgressing, olmv1.TypeAvailable, olmv1.TypeDeletesCRDs,
}

func setCondition(ext *olmv1.ClusterExtension, condition metav1.Condition) {
	conditions.Set(&ext.Status.Conditions, ext.Generation, condition)
}

// reportOutcome writes the outcome of a pass to the status. While a bundle is being pulled, the
// failure of the previous pass is kept, because it is more useful.
func (c *Controller) reportOutcome(ext *olmv1.ClusterExtension, f *facts, d *decision, err error) []reconcile.Event {
	err = c.appendRetryInterval(ext, err)
	known := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing).DeepCopy()
	keeps := errors.Is(err, pull.ErrRetrieving) && known != nil && known.ObservedGeneration == ext.Generation &&
		known.Reason != olmv1.ReasonSucceeded && known.Reason != olmv1.ReasonRollingOut
	if keepsFulfilled(ext, f, d, err) {
		return nil
	}
	if d == nil { // The revisions could not be read.
		setCondition(ext, newProgressingCondition(nil, err))
		return nil
	}

	if d.takeover.endsPass() && d.revisions.installed() == nil {
		setCondition(ext, newProgressingCondition(nil, err)) // The installed bundle is not known yet.
		return nil
	}

	if f.change != nil && f.change.resolution != nil {
		for _, condition := range f.change.resolution.deprecations {
			setCondition(ext, condition)
		}
	}

	reportRevisions(ext, d.revisions, err)
	setCondition(ext, newProgressingCondition(d.revisions, err))
	if keeps {
		setCondition(ext, *known)
	}

	return nil
}

// keepsFulfilled reports whether an error must not hide that another implementation has fulfilled the spec. Only the
// condition has this information until a revision records it. Without it, a new revision would be created.
func keepsFulfilled(ext *olmv1.ClusterExtension, f *facts, d *decision, err error) bool {
	if err == nil || f == nil || fulfilledGeneration(ext) == "" {
		return false
	}
	isUnread := d == nil
	return isUnread || d.takeover.endsPass() || f.kept != nil
}

// reportDeletion writes to the status why an extension cannot be removed yet.
func (c *Controller) reportDeletion(ext *olmv1.ClusterExtension, err error) {
	setCondition(ext, newProgressingCondition(nil, c.appendRetryInterval(ext, err)))
}

// reportRevisions writes the state of the revisions to the status. err is the error that the pass
// ended with.
func reportRevisions(ext *olmv1.ClusterExtension, revs revisions, err error) {
	reportInstalled(ext, revs, err)
	reportActiveRevisions(ext, revs)
	reportCRDDeletion(ext, revs)
}

func reportInstalled(ext *olmv1.ClusterExtension, revs revisions, err error) {
	installed := revs.installed()
	if installed == nil {
		ext.Status.Install = nil
		setCondition(ext, newNotInstalledCondition(err))
		return
	}

	bundle := bundleMetadata(installed)
	ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{
		Bundle: olmv1.BundleMetadata{Name: bundle.Name, Version: bundle.Version},
	}
	if bundle.Release != "" {
		ext.Status.Install.Bundle.Release = &bundle.Release
	}

	setCondition(ext, metav1.Condition{
		Type: olmv1.TypeInstalled, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded,
		Message: fmt.Sprintf("Installed bundle %s successfully", installed.Annotations[olmv1.AnnotationBundleReference]),
	})
}

// newNotInstalledCondition returns the condition Installed of an extension without an installed
// bundle. It is Unknown if the service account is missing, otherwise False.
func newNotInstalledCondition(err error) metav1.Condition {
	condition := metav1.Condition{
		Type: olmv1.TypeInstalled, Status: metav1.ConditionFalse, Reason: olmv1.ReasonFailed, Message: "No bundle installed",
	}
	if isMissingAccount(err) {
		condition.Status = metav1.ConditionUnknown
		condition.Message = err.Error()
	}
	return condition
}

func reportActiveRevisions(ext *olmv1.ClusterExtension, revs revisions) {
	ext.Status.ActiveRevisions = nil
	for _, set := range revs.active() {
		ext.Status.ActiveRevisions = append(ext.Status.ActiveRevisions, olmv1.RevisionStatus{
			Name: set.Name, Conditions: set.Status.Conditions,
		})
	}

	newest := revs.newest()
	if newest == nil {
		meta.RemoveStatusCondition(&ext.Status.Conditions, olmv1.TypeAvailable)
		return
	}
	if available := meta.FindStatusCondition(newest.Status.Conditions, olmv1.TypeAvailable); available != nil {
		setCondition(ext, *available.DeepCopy())
	}
}

// newProgressingCondition returns the condition Progressing: the failure of the attempt, otherwise
// the state of the newest revision.
func newProgressingCondition(revs revisions, err error) metav1.Condition {
	if err != nil {
		return newFailedCondition(err)
	}

	newest := revs.newest()
	if newest == nil {
		return newRollingOutCondition("the first revision is being created")
	}

	own := meta.FindStatusCondition(newest.Status.Conditions, olmv1.TypeProgressing)
	if hasSucceeded(newest) && (own == nil || own.Reason == olmv1.ReasonSucceeded) {
		return metav1.Condition{
			Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded, Message: "desired state reached",
		}
	}

	if own != nil {
		return metav1.Condition{Type: own.Type, Status: own.Status, Reason: own.Reason, Message: own.Message}
	}

	return newRollingOutCondition(fmt.Sprintf("revision %s is about to be rolled out", newest.Name))
}

func newRollingOutCondition(message string) metav1.Condition {
	return metav1.Condition{
		Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonRollingOut, Message: message,
	}
}

// isRollingOut reports whether a revision is being rolled out, or all of them are being removed.
// Such a status is mostly transient.
func isRollingOut(ext *olmv1.ClusterExtension, err error) bool {
	condition := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	isInProgress := err == nil || (reconcile.IsWait(err) && !ext.DeletionTimestamp.IsZero())
	return isInProgress && condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == olmv1.ReasonRollingOut
}

// newFailedCondition returns the condition Progressing of a failed attempt. It is True while the
// attempt is retried, and False if a user must act or the progress deadline is exceeded.
func newFailedCondition(err error) metav1.Condition {
	condition := metav1.Condition{
		Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue,
		Reason: reconcile.ReasonOf(err, olmv1.ReasonRetrying), Message: err.Error(),
	}
	if condition.Reason == olmv1.ReasonProgressDeadlineExceeded {
		condition.Status = metav1.ConditionFalse
	}
	if reconcile.IsStop(err) {
		condition.Status = metav1.ConditionFalse
		condition.Reason = reconcile.ReasonOf(err, olmv1.ReasonBlocked)
	}
	return condition
}
