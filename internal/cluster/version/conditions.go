package version

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
)

// Reasons of conditions.
const (
	reasonNoImage  = "NoDesiredImage"
	reasonImplicit = "CapabilitiesImplicitlyEnabled"
)

// listed is the order of conditions. Those of other types stand behind.
var listed = []string{
	configv1.OperatorAvailable, configv1.ClusterVersionFailing, configv1.OperatorProgressing, configv1.ClusterVersionRetrievedUpdates,
	configv1.OperatorUpgradeable, configv1.ClusterVersionReleaseAccepted, configv1.ClusterVersionImplicitlyEnabledCapabilities,
	configv1.ClusterVersionInvalid,
}

// obsolete are condition types of earlier operators, which nobody keeps any more.
var obsolete = []string{
	"UpgradeableAdminAckRequired", "UpgradeableDeletesInProgress", "UpgradeableClusterOperators", "UpgradeableClusterVersionOverrides",
	"UpgradeableUpgradeInProgress", "ImplicitlyEnabled",
}

type condition = configv1.ClusterOperatorStatusCondition

// conditions are those of a ClusterVersion while they are being set.
type conditions struct {
	all []condition
	now metav1.Time
}

// set sets a condition. Its time changes with its status only.
func (c *conditions) set(kind string, status metav1.ConditionStatus, reason, message string) {
	next := condition{Type: kind, Status: status, LastTransitionTime: c.now, Reason: reason, Message: message}
	i := slices.IndexFunc(c.all, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		c.all = append(c.all, next)
		return
	}
	if c.all[i].Status == status {
		next.LastTransitionTime = c.all[i].LastTransitionTime
	}

	c.all[i] = next
}

func (c *conditions) remove(kinds ...string) {
	c.all = slices.DeleteFunc(c.all, func(c condition) bool { return slices.Contains(kinds, c.Type) })
}

func (c *conditions) get(kind string) (condition, bool) {
	i := slices.IndexFunc(c.all, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return condition{}, false
	}
	return c.all[i], true
}

// sorted returns the conditions in their order, without those that are obsolete.
func (c *conditions) sorted() []condition {
	c.remove(obsolete...)
	rank := func(kind string) int {
		if i := slices.Index(listed, kind); i >= 0 {
			return i
		}
		return len(listed)
	}

	slices.SortStableFunc(c.all, func(a, b condition) int { return rank(a.Type) - rank(b.Type) })
	return c.all
}

// setSpec tells of faults of the spec.
func (c *conditions) setSpec(wrong field.ErrorList) {
	if len(wrong) == 0 {
		c.remove(configv1.ClusterVersionInvalid)
		return
	}
	c.set(configv1.ClusterVersionInvalid, metav1.ConditionTrue, reasonInvalid, invalidMessage(wrong))
}

// setProgress tells how far the worker is.
func (c *conditions) setProgress(status worker.Status, isInvalid bool, now time.Time) {
	name := nameOf(status.Actual)
	if status.Completed > 0 {
		c.set(configv1.OperatorAvailable, metav1.ConditionTrue, "", "Done applying "+name)
	} else if _, ok := c.get(configv1.OperatorAvailable); !ok {
		c.set(configv1.OperatorAvailable, metav1.ConditionFalse, "", "")
	}

	verdict := status.Judge(now)
	c.set(configv1.ClusterVersionFailing, verdict.Failing, verdict.Reason, verdict.Message)
	isFailing := verdict.Failing == metav1.ConditionTrue
	progressing := metav1.ConditionTrue
	if status.Reconciling {
		progressing = metav1.ConditionFalse
	}

	switch {
	case isFailing && status.Reconciling:
		c.set(configv1.OperatorProgressing, progressing, verdict.ProgressingReason, fmt.Sprintf("Error while reconciling %s: %s", name, verdict.Summary))
	case isFailing:
		c.set(configv1.OperatorProgressing, progressing, verdict.ProgressingReason, fmt.Sprintf("Unable to apply %s: %s", name, verdict.Summary))
	case isInvalid && status.Reconciling:
		c.set(configv1.OperatorProgressing, progressing, reasonInvalid, fmt.Sprintf("Stopped at %s: the cluster version is invalid", name))
	case isInvalid:
		c.set(configv1.OperatorProgressing, progressing, reasonInvalid, fmt.Sprintf("Reconciling %s: the cluster version is invalid", name))
	case status.Reconciling:
		c.set(configv1.OperatorProgressing, progressing, "", "Cluster version is "+name)
	default:
		c.set(configv1.OperatorProgressing, progressing, verdict.ProgressingReason, workingTowards(name, status, verdict.Waiting))
	}
}

func workingTowards(name string, status worker.Status, waiting string) string {
	message := "Working towards " + name
	var parts []string
	if status.Total > 0 && status.Done > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d done (%d%% complete)", status.Done, status.Total, status.Done*100/status.Total))
	}
	if waiting != "" {
		parts = append(parts, waiting)
	}
	if len(parts) > 0 {
		message += ": " + strings.Join(parts, ", ")
	}

	return message
}

// nameOf is what a release is called: its version, or its image where that is not known.
func nameOf(r configv1.Release) string {
	if r.Version != "" {
		return r.Version
	}
	return r.Image
}

// setAccepted tells how the judgement of a wanted release is. A nil state is that of the
// release which is applied already.
func (c *conditions) setAccepted(state *acceptance.State, applied configv1.Release, architecture string) {
	kind := configv1.ClusterVersionReleaseAccepted
	switch {
	case state == nil && applied.Image == "":
	case state == nil:
		c.set(kind, metav1.ConditionTrue, acceptance.ReasonLoaded, acceptance.LoadedMessage(applied, architecture))
	case state.Accepted != nil:
		c.set(kind, metav1.ConditionTrue, acceptance.ReasonLoaded, acceptance.LoadedMessage(state.Accepted.Release, architecture))
	case state.Failure != nil:
		c.set(kind, metav1.ConditionFalse, state.Failure.Reason, state.Failure.Message)
	default:
		c.set(kind, metav1.ConditionUnknown, acceptance.ReasonRetrieve, acceptance.RetrievingMessage(state.Target))
	}
}

// setCapabilities tells of capabilities that the spec does not ask for.
func (c *conditions) setCapabilities(implicit []string) {
	kind := configv1.ClusterVersionImplicitlyEnabledCapabilities
	if len(implicit) == 0 {
		c.set(kind, metav1.ConditionFalse, configv1.ReasonAsExpected, "Capabilities match configured spec")
		return
	}
	c.set(kind, metav1.ConditionTrue, reasonImplicit, "The following capabilities could not be disabled: "+strings.Join(implicit, ", "))
}

// setRetrieved reports whether the update service gave its updates. It has nothing to tell
// before it was asked.
func (c *conditions) setRetrieved(result updates.Result) {
	if result.Status != "" {
		c.set(configv1.ClusterVersionRetrievedUpdates, result.Status, result.Reason, result.Message)
	}
}

// setNoImage tells that there is no release that could be applied.
func (c *conditions) setNoImage() {
	const message = "No configured operator version, unable to update cluster"
	if _, ok := c.get(configv1.OperatorAvailable); !ok {
		c.set(configv1.OperatorAvailable, metav1.ConditionFalse, "", "")
	}
	c.set(configv1.ClusterVersionFailing, metav1.ConditionTrue, reasonNoImage, message)
	c.set(configv1.OperatorProgressing, metav1.ConditionFalse, reasonNoImage, "No configured operator version")
}

// setBroken tells that the ClusterVersion could not be looked after for some time.
func (c *conditions) setBroken(err error) {
	message := fmt.Sprintf("Error ensuring the cluster version is up to date: %v", err)
	c.set(configv1.OperatorAvailable, metav1.ConditionFalse, "", "")
	c.set(configv1.ClusterVersionFailing, metav1.ConditionTrue, "", err.Error())
	before, ok := c.get(configv1.OperatorProgressing)
	if !ok {
		before.Status = metav1.ConditionFalse
	}

	c.set(configv1.OperatorProgressing, before.Status, before.Reason, message)
}
