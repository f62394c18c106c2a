package install

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// conditions of a ClusterExtension, in the order in which they are listed.
var conditions = reconcile.Conditions{
	olmv1.TypeDeprecated, olmv1.TypePackageDeprecated, olmv1.TypeChannelDeprecated, olmv1.TypeBundleDeprecated,
	olmv1.TypeInstalled, olmv1.TypeProgressing, olmv1.TypeAvailable, olmv1.TypeDeletesCRDs,
}

func setCondition(ext *olmv1.ClusterExtension, condition metav1.Condition) {
	conditions.Set(&ext.Status.Conditions, ext.Generation, condition)
}

// report writes what the revisions show, and the outcome of the attempt, into the
// status. The revisions are nil when they could not be read; then only the outcome
// is reported and what was known stays.
func report(ext *olmv1.ClusterExtension, revs revisions, known bool, err error) {
	if known {
		reportInstalled(ext, revs, err)
		reportRevisions(ext, revs)
		reportCRDs(ext, revs)
	}
	setCondition(ext, progressing(revs, err))
}

func reportInstalled(ext *olmv1.ClusterExtension, revs revisions, err error) {
	installed := revs.installed()
	if installed == nil {
		ext.Status.Install = nil
		setCondition(ext, notInstalled(err))
		return
	}

	bundle := bundleOf(installed)
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

// notInstalled is False when nothing is installed, and Unknown when even that cannot
// be told as the account to look with is missing.
func notInstalled(err error) metav1.Condition {
	condition := metav1.Condition{
		Type: olmv1.TypeInstalled, Status: metav1.ConditionFalse, Reason: olmv1.ReasonFailed, Message: "No bundle installed",
	}
	if isMissingAccount(err) {
		condition.Status = metav1.ConditionUnknown
		condition.Message = err.Error()
	}
	return condition
}

func reportRevisions(ext *olmv1.ClusterExtension, revs revisions) {
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

// progressing says what is being done: what the attempt failed with, else what the
// newest revision says of itself.
func progressing(revs revisions, err error) metav1.Condition {
	if err != nil {
		return failed(err)
	}

	newest := revs.newest()
	if newest == nil {
		return rollingOut("the first revision is being made")
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

	return rollingOut(fmt.Sprintf("revision %s is about to be rolled out", newest.Name))
}

func rollingOut(message string) metav1.Condition {
	return metav1.Condition{
		Type: olmv1.TypeProgressing, Status: metav1.ConditionTrue, Reason: olmv1.ReasonRollingOut, Message: message,
	}
}

// isRollingOut reports whether the revision, or the removal of all of them, is on its way,
// which mostly is over soon.
func isRollingOut(ext *olmv1.ClusterExtension, err error) bool {
	condition := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeProgressing)
	isOnItsWay := err == nil || (reconcile.IsWait(err) && !ext.DeletionTimestamp.IsZero())
	return isOnItsWay && condition != nil && condition.Status == metav1.ConditionTrue && condition.Reason == olmv1.ReasonRollingOut
}

// failed reports an attempt that failed: True while it is tried again, False when
// somebody must act first, or when an update is late.
func failed(err error) metav1.Condition {
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
