package clusterupdate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// IssueUpgradeable is the name of the issue that the cluster reports Upgradeable=False. It applies
// to updates that change the minor or the major version.
const IssueUpgradeable = "UpgradeableFalse"

// reasonMultipleIssues is the reason of an update that several issues with different reasons apply to.
const reasonMultipleIssues = "MultipleReasons"

// upgradeableCondition returns the condition Upgradeable if it is False, and nil otherwise.
func upgradeableCondition(cv *configv1.ClusterVersion) *conditionSummary {
	f := findCondition(cv, configv1.OperatorUpgradeable)
	if f == nil || f.status != string(metav1.ConditionFalse) {
		return nil
	}
	return f
}

// isMinorUpdate reports whether an update raises the minor or major version. The operator
// checks Upgradeable only for such updates. It returns false for versions that cannot be
// parsed.
func isMinorUpdate(from, to string) bool {
	current, errCurrent := semver.Parse(from)
	target, errTarget := semver.Parse(to)
	if errCurrent != nil || errTarget != nil {
		return false
	}
	return target.Major > current.Major || target.Major == current.Major && target.Minor > current.Minor
}

// addUpgradeableIssue adds the condition Upgradeable=False to an update that the operator
// will refuse because of it. It does not change an update whose risks already include the
// condition's message.
func addUpgradeableIssue(o *Option, risks []configv1.ConditionalUpdateRisk, f *conditionSummary, accept []string) {
	if slices.ContainsFunc(risks, func(r configv1.ConditionalUpdateRisk) bool {
		return f.message != "" && strings.Contains(r.Message, f.message)
	}) {
		return
	}

	if o.Recommended == "" {
		o.Reason, o.Message = f.reason, f.message
	} else {
		o.Reason, o.Message = reasonMultipleIssues, o.Message+"\n\n"+f.message
	}

	o.Recommended = metav1.ConditionFalse

	if slices.Contains(accept, IssueUpgradeable) {
		o.Accepted = append(o.Accepted, IssueUpgradeable)
	} else {
		o.Issues = append(o.Issues, IssueUpgradeable)
	}
}

// upgradeableWarning returns a warning if the operator will refuse the requested release
// because of Upgradeable=False, and an empty string otherwise.
func upgradeableWarning(cv *configv1.ClusterVersion, target configv1.Release) string {
	f := upgradeableCondition(cv)
	switch {
	case f == nil:
		return ""
	case target.Version == "":
		return fmt.Sprintf("the cluster-version-operator will refuse %s if its minor or major version is higher than that of %s, because the cluster reports Upgradeable=False %s: %s",
			describeRelease(target), cv.Status.Desired.Version, f.reason, f.message)
	case isMinorUpdate(cv.Status.Desired.Version, target.Version):
		return fmt.Sprintf("the cluster-version-operator will refuse the update to %s, because the cluster reports Upgradeable=False %s: %s", target.Version, f.reason, f.message)
	}

	return ""
}
