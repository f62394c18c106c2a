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

// conditionOrder is the order of conditions. Conditions of other types follow.
var conditionOrder = []string{
	configv1.OperatorAvailable, configv1.ClusterVersionFailing, configv1.OperatorProgressing, configv1.ClusterVersionRetrievedUpdates,
	configv1.OperatorUpgradeable, configv1.ClusterVersionReleaseAccepted, configv1.ClusterVersionImplicitlyEnabledCapabilities,
	configv1.ClusterVersionInvalid,
}

// obsoleteConditions are condition types of earlier operators that are removed.
var obsoleteConditions = []string{
	"UpgradeableAdminAckRequired", "UpgradeableDeletesInProgress", "UpgradeableClusterOperators", "UpgradeableClusterVersionOverrides",
	"UpgradeableUpgradeInProgress", "ImplicitlyEnabled",
}

type condition = configv1.ClusterOperatorStatusCondition

// conditionSet is a list of conditions to be modified.
type conditionSet struct {
	all []condition
	now metav1.Time
}

// newConditionSet returns the conditions of a ClusterVersion, to be modified at a time.
func newConditionSet(cv *configv1.ClusterVersion, now time.Time) *conditionSet {
	return &conditionSet{all: cv.DeepCopy().Status.Conditions, now: metav1.NewTime(now).Rfc3339Copy()}
}

// set adds or replaces a condition. Its transition time changes only with its status.
func (c *conditionSet) set(kind string, status metav1.ConditionStatus, reason, message string) {
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

func (c *conditionSet) remove(kinds ...string) {
	c.all = slices.DeleteFunc(c.all, func(c condition) bool { return slices.Contains(kinds, c.Type) })
}

func (c *conditionSet) get(kind string) (condition, bool) {
	i := slices.IndexFunc(c.all, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return condition{}, false
	}
	return c.all[i], true
}

// sorted returns the conditions in order, without obsolete ones.
func (c *conditionSet) sorted() []condition {
	c.remove(obsoleteConditions...)
	rank := func(kind string) int {
		if i := slices.Index(conditionOrder, kind); i >= 0 {
			return i
		}
		return len(conditionOrder)
	}

	slices.SortStableFunc(c.all, func(a, b condition) int { return rank(a.Type) - rank(b.Type) })
	return c.all
}

// setInvalidSpec sets or removes the Invalid condition.
func (c *conditionSet) setInvalidSpec(specErrs field.ErrorList) {
	if len(specErrs) == 0 {
		c.remove(configv1.ClusterVersionInvalid)
		return
	}
	c.set(configv1.ClusterVersionInvalid, metav1.ConditionTrue, reasonInvalid, invalidSpecMessage(specErrs))
}

// setNoProgress sets the conditions about the progress of the worker before it has any work.
// Existing conditions are kept.
func (c *conditionSet) setNoProgress() {
	for _, kind := range []string{configv1.OperatorAvailable, configv1.ClusterVersionFailing, configv1.OperatorProgressing} {
		if _, ok := c.get(kind); !ok {
			c.set(kind, metav1.ConditionFalse, "", "")
		}
	}
}

// setProgress sets the conditions about the progress of the worker.
func (c *conditionSet) setProgress(status worker.Status, isInvalid bool, now time.Time) {
	name := releaseName(status.Actual)
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
		c.set(configv1.OperatorProgressing, progressing, verdict.ProgressingReason, progressingMessage(name, status, verdict.Waiting))
	}
}

func progressingMessage(name string, status worker.Status, waiting string) string {
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

// releaseName returns the version of a release, or its image if the version is not known.
func releaseName(r configv1.Release) string {
	if r.Version != "" {
		return r.Version
	}
	return r.Image
}

// setReleaseAccepted sets the ReleaseAccepted condition. A nil state means that the wanted
// release is already applied.
func (c *conditionSet) setReleaseAccepted(state *acceptance.State, applied configv1.Release, architecture string) {
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

// setImplicitCapabilities reports the capabilities that are enabled though the spec does not ask
// for them.
func (c *conditionSet) setImplicitCapabilities(implicit []string) {
	kind := configv1.ClusterVersionImplicitlyEnabledCapabilities
	if len(implicit) == 0 {
		c.set(kind, metav1.ConditionFalse, configv1.ReasonAsExpected, "Capabilities match configured spec")
		return
	}
	c.set(kind, metav1.ConditionTrue, reasonImplicit, "The following capabilities could not be disabled: "+strings.Join(implicit, ", "))
}

// setRetrievedUpdates sets the RetrievedUpdates condition, once the update service was queried.
func (c *conditionSet) setRetrievedUpdates(result updates.Result) {
	if result.Status != "" {
		c.set(configv1.ClusterVersionRetrievedUpdates, result.Status, result.Reason, result.Message)
	}
}

// setNoDesiredImage reports that there is no release to apply.
func (c *conditionSet) setNoDesiredImage() {
	const message = "No configured operator version, unable to update cluster"
	if _, ok := c.get(configv1.OperatorAvailable); !ok {
		c.set(configv1.OperatorAvailable, metav1.ConditionFalse, "", "")
	}
	c.set(configv1.ClusterVersionFailing, metav1.ConditionTrue, reasonNoImage, message)
	c.set(configv1.OperatorProgressing, metav1.ConditionFalse, reasonNoImage, "No configured operator version")
}

// setSyncFailed reports that the ClusterVersion could not be reconciled for some time.
func (c *conditionSet) setSyncFailed(err error) {
	message := fmt.Sprintf("Error ensuring the cluster version is up to date: %v", err)
	c.set(configv1.OperatorAvailable, metav1.ConditionFalse, "", "")
	c.set(configv1.ClusterVersionFailing, metav1.ConditionTrue, "", err.Error())
	before, ok := c.get(configv1.OperatorProgressing)
	if !ok {
		before.Status = metav1.ConditionFalse
	}

	c.set(configv1.OperatorProgressing, before.Status, before.Reason, message)
}
