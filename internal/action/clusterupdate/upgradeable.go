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

// reasonMultiple is the reason of an update that several issues with different reasons apply to.
const reasonMultiple = "MultipleReasons"

// upgradeableFalse returns the condition Upgradeable if it is False, and nil otherwise.
func upgradeableFalse(cv *configv1.ClusterVersion) *finding {
	f := findingOf(cv, configv1.OperatorUpgradeable)
	if f == nil || f.status != string(metav1.ConditionFalse) {
		return nil
	}
	return f
}

// isMinorUpdate reports whether an update from one version to another changes the minor or the
// major version upwards: the operator checks Upgradeable for such updates only. Versions that
// cannot be parsed are not compared.
func isMinorUpdate(from, to string) bool {
	current, errCurrent := semver.Parse(from)
	target, errTarget := semver.Parse(to)
	if errCurrent != nil || errTarget != nil {
		return false
	}
	return target.Major > current.Major || target.Major == current.Major && target.Minor > current.Minor
}

// addUpgradeable adds the condition Upgradeable=False to an update that the operator will refuse
// because of it. An update whose risks include the condition's message already stays as it is.
func addUpgradeable(o *Option, risks []configv1.ConditionalUpdateRisk, f *finding, accept []string) {
	if slices.ContainsFunc(risks, func(r configv1.ConditionalUpdateRisk) bool {
		return f.message != "" && strings.Contains(r.Message, f.message)
	}) {
		return
	}

	if o.Recommended == "" {
		o.Reason, o.Message = f.reason, f.message
	} else {
		o.Reason, o.Message = reasonMultiple, o.Message+"\n\n"+f.message
	}

	o.Recommended = metav1.ConditionFalse

	if slices.Contains(accept, IssueUpgradeable) {
		o.Accepted = append(o.Accepted, IssueUpgradeable)
	} else {
		o.Issues = append(o.Issues, IssueUpgradeable)
	}
}

// warnUpgradeable returns a warning for a requested release that the operator will refuse because
// the cluster reports Upgradeable=False. It is empty when the operator will not.
func warnUpgradeable(cv *configv1.ClusterVersion, target configv1.Release) string {
	f := upgradeableFalse(cv)
	switch {
	case f == nil:
		return ""
	case target.Version == "":
		return fmt.Sprintf("the cluster-version-operator will refuse %s if its minor or major version is higher than that of %s, because the cluster reports Upgradeable=False %s: %s",
			nameOf(target), cv.Status.Desired.Version, f.reason, f.message)
	case isMinorUpdate(cv.Status.Desired.Version, target.Version):
		return fmt.Sprintf("the cluster-version-operator will refuse the update to %s, because the cluster reports Upgradeable=False %s: %s", target.Version, f.reason, f.message)
	}

	return ""
}
