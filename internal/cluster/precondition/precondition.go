// Package precondition checks whether a cluster can be updated to a release. It rejects
// unsupported rollbacks, updates that skip a minor version, and updates of clusters that are not
// upgradeable. It requires a recent backup where backups are made. It warns of updates that the
// update service does not recommend.
//
// It has no side effects and only uses its arguments.
package precondition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// ReasonFailed is the reason of an update that a precondition blocks.
const ReasonFailed = "UpgradePreconditionCheckFailed"

// Names of the checks.
const (
	Rollback          = "ClusterVersionRollback"
	GiantHop          = "ClusterVersionGiantHop"
	Upgradeable       = "ClusterVersionUpgradeable"
	RecentBackup      = "EtcdRecentBackup"
	RecommendedUpdate = "ClusterVersionRecommendedUpdate"
)

// Reasons of findings.
const (
	reasonLow            = "LowDesiredVersion"
	reasonCurrent        = "InvalidCurrentVersion"
	reasonDesired        = "InvalidDesiredVersion"
	reasonMajor          = "MajorVersionUpdate"
	reasonMinors         = "MultipleMinorVersionsUpdate"
	reasonOverrides      = "ClusterVersionOverridesSet"
	reasonMinorUpdate    = "MinorVersionClusterUpdateInProgress"
	reasonMajorUpdate    = "MajorVersionClusterUpdateInProgress"
	reasonUnknownType    = "UnknownConditionType"
	reasonNoChannel      = "NoChannel"
	reasonUnknownUpdate  = "UnknownUpdate"
	reasonUnreadableSpec = "UnknownError"
)

// Finding is an objection of a check to a release.
type Finding struct {
	// Check is the name of the check.
	Check string
	// Reason is a CamelCase reason.
	Reason string
	// Message is a text for administrators.
	Message string
	// Warning is true if the finding does not block the release.
	Warning bool
}

// String returns the check, the reason and the message.
func (f Finding) String() string {
	return fmt.Sprintf("Precondition %q failed because of %q: %s", f.Check, f.Reason, f.Message)
}

// Input is the input of the checks.
type Input struct {
	// ClusterVersion is the current ClusterVersion. The current release is that of its status.
	ClusterVersion *configv1.ClusterVersion
	// Target is the release to check.
	Target configv1.Release
	// Etcd is the ClusterOperator of that name; nil if there is none. EtcdError is the error of
	// reading it.
	Etcd      *configv1.ClusterOperator
	EtcdError error
}

// checkFunc is a check of an update between two versions. It returns nil if there is no
// objection.
type checkFunc func(in Input, current, target semver.Version) *Finding

// checks are all checks, in the order of their findings.
var checks = []struct {
	name  string
	check checkFunc
	// versionless is true if the check needs no versions.
	versionless bool
}{
	{Rollback, checkRollback, false},
	{GiantHop, checkGiantHop, false},
	{Upgradeable, checkUpgradeable, false},
	{RecentBackup, checkBackup, false},
	{RecommendedUpdate, checkRecommended, true},
}

// Check runs every check and returns the findings.
func Check(in Input) []Finding {
	current, target, invalid := parseVersions(in)
	var findings []Finding
	for _, c := range checks {
		var found *Finding
		switch {
		case invalid == nil || c.versionless:
			found = c.check(in, current, target)
		case len(findings) == 0:
			found = invalid // for all checks that need both versions
		}
		if found != nil {
			f := *found
			f.Check = c.name
			findings = append(findings, f)
		}
	}

	return findings
}

// Unreadable returns the findings if the ClusterVersion cannot be read: one for every check.
func Unreadable(err error) []Finding {
	var findings []Finding
	for _, c := range checks {
		findings = append(findings, Finding{
			Check: c.name, Reason: reasonUnreadableSpec, Message: fmt.Sprintf("ClusterVersion %q cannot be read: %v", configv1.ClusterVersionName, err),
			Warning: c.versionless,
		})
	}

	return findings
}

// Verdict returns a summary of the findings, and whether one of them blocks the release.
func Verdict(findings []Finding) (text string, blocked bool) {
	switch len(findings) {
	case 0:
		return "", false
	case 1:
		return findings[0].String(), !findings[0].Warning
	}

	lines := []string{"Multiple precondition checks failed:"}
	for _, finding := range findings {
		lines = append(lines, "* "+finding.String())
		blocked = blocked || !finding.Warning
	}
	return strings.Join(lines, "\n"), blocked
}

// parseVersions parses both versions. An invalid current version only leads to a warning,
// because the update may fix it.
func parseVersions(in Input) (current, target semver.Version, invalid *Finding) {
	current, err := semver.Parse(in.ClusterVersion.Status.Desired.Version)
	if err != nil {
		invalid = &Finding{Reason: reasonCurrent, Warning: true, Message: fmt.Sprintf("The current version %q is not a semantic version: %v", in.ClusterVersion.Status.Desired.Version, err)}
	}

	target, err = semver.Parse(in.Target.Version)
	if err != nil {
		invalid = &Finding{Reason: reasonDesired, Message: fmt.Sprintf("The version %q of the release is not a semantic version: %v", in.Target.Version, err)}
	}

	return current, target, invalid
}

func isSameMinor(a, b semver.Version) bool { return a.Major == b.Major && a.Minor == b.Minor }

func checkRollback(in Input, current, target semver.Version) *Finding {
	if target.GTE(current) {
		return nil
	}

	previous, ok := previousRelease(in.ClusterVersion.Status)
	low := func(format string, args ...any) *Finding {
		return &Finding{Reason: reasonLow, Message: fmt.Sprintf("%s is less than the current target %s, and "+format, append([]any{target, current}, args...)...)}
	}
	switch {
	case !ok:
		return low("the cluster has no previous version to roll back to")
	case previous.Version != target.String() || previous.Image != in.Target.Image && imageDigest(previous.Image) != imageDigest(in.Target.Image):
		return low("the only supported rollback is to the cluster's previous version %s (%s)", previous.Version, previous.Image)
	case !isSameMinor(current, target):
		return low("though it is the cluster's previous version, rollbacks that change the major or minor version are not supported")
	}

	return nil
}

// previousRelease returns the newest history entry of a release other than the current one.
func previousRelease(status configv1.ClusterVersionStatus) (configv1.UpdateHistory, bool) {
	i := slices.IndexFunc(status.History, func(entry configv1.UpdateHistory) bool {
		_, err := semver.Parse(entry.Version)
		return err == nil && (entry.Version != status.Desired.Version || entry.Image != status.Desired.Image)
	})
	if i < 0 {
		return configv1.UpdateHistory{}, false
	}
	return status.History[i], true
}

// imageDigest returns the digest of a pull spec, because the same release may be in a mirror. A
// pull spec without a digest is returned unchanged.
func imageDigest(image string) string {
	if i := strings.LastIndex(image, "@"); i >= 0 {
		return image[i:]
	}
	return image
}

func checkGiantHop(_ Input, current, target semver.Version) *Finding {
	switch {
	case current.Major == 4 && target.Major == 5 && target.Minor == 0:
		return nil
	case target.Major > current.Major:
		return &Finding{Reason: reasonMajor, Message: fmt.Sprintf("%s has a larger major version than the current target %s (%d > %d), and only updates within the current major version are supported.",
			target, current, target.Major, current.Major)}
	case target.Major == current.Major && target.Minor > current.Minor+1:
		return &Finding{Reason: reasonMinors, Message: fmt.Sprintf(
			"%s is more than one minor version beyond the current target %s (%d.%d > %d.(%d+1)), and only updates within the current minor version or to the next minor version are supported.",
			target, current, target.Major, target.Minor, current.Major, current.Minor)}
	}

	return nil
}

func checkUpgradeable(in Input, current, target semver.Version) *Finding {
	condition := configv1.FindCondition(in.ClusterVersion.Status.Conditions, configv1.OperatorUpgradeable)
	if condition == nil || condition.Status != metav1.ConditionFalse {
		return nil
	}
	if target.GT(current) && !isSameMinor(current, target) {
		return &Finding{Reason: condition.Reason, Message: condition.Message}
	}
	if slices.ContainsFunc(in.ClusterVersion.Spec.Overrides, func(o configv1.ComponentOverride) bool { return o.Unmanaged }) {
		return &Finding{Reason: reasonOverrides, Warning: true, Message: condition.Message}
	}

	from, ok := lastCompletedVersion(in.ClusterVersion.Status.History)
	if !ok || isSameMinor(from, current) {
		return nil
	}

	reason, kind := reasonMinorUpdate, "minor"
	if from.Major != current.Major {
		reason, kind = reasonMajorUpdate, "major"
	}

	return &Finding{Reason: reason, Warning: true, Message: fmt.Sprintf("Retarget to %s while a %s version update from %s to %s is in progress", target, kind, from, current)}
}

func lastCompletedVersion(history []configv1.UpdateHistory) (semver.Version, bool) {
	i := slices.IndexFunc(history, func(entry configv1.UpdateHistory) bool { return entry.State == configv1.CompletedUpdate })
	if i < 0 {
		return semver.Version{}, false
	}
	version, err := semver.Parse(history[i].Version)
	return version, err == nil
}

// checkRecommended only returns warnings: the administrator decides whether to use an update
// that is not recommended.
func checkRecommended(in Input, _, _ semver.Version) *Finding {
	from, to := in.ClusterVersion.Status.Desired.Version, in.Target.Version
	warn := func(reason, format string, args ...any) *Finding {
		return &Finding{Reason: reason, Warning: true, Message: fmt.Sprintf(format, args...)}
	}
	same := func(release configv1.Release) bool {
		return release.Version == to && imageDigest(release.Image) == imageDigest(in.Target.Image)
	}
	status := in.ClusterVersion.Status
	if same(status.Desired) {
		return nil
	}

	i := slices.IndexFunc(status.ConditionalUpdates, func(u configv1.ConditionalUpdate) bool { return same(u.Release) })
	if i >= 0 {
		for _, condition := range status.ConditionalUpdates[i].Conditions {
			switch {
			case condition.Type != configv1.ConditionalUpdateRecommended:
			case condition.Status == metav1.ConditionTrue:
				return nil
			case condition.Status == metav1.ConditionFalse:
				return warn(condition.Reason, "Update from %s to %s is not recommended:\n\n%s", from, to, condition.Message)
			default:
				return warn(condition.Reason, "Update from %s to %s is Recommended=%s: %s: %s", from, to, condition.Status, condition.Reason, condition.Message)
			}
		}
		return warn(reasonUnknownType, "Update from %s to %s has risks, and whether it is recommended is not said", from, to)
	}

	if slices.ContainsFunc(status.AvailableUpdates, same) {
		return nil
	}
	if in.ClusterVersion.Spec.Channel == "" {
		return warn(reasonNoChannel, "No channel is configured, so that it is unknown whether the update from %s to %s is recommended", from, to)
	}

	retrieved := configv1.FindCondition(status.Conditions, configv1.ClusterVersionRetrievedUpdates)
	switch {
	case retrieved == nil:
		return warn(reasonUnknownUpdate, "No updates were retrieved yet, so that it is unknown whether the update from %s to %s is recommended", from, to)
	case retrieved.Status == metav1.ConditionTrue:
		return warn(reasonUnknownUpdate, "RetrievedUpdates=%s (%s), so the update from %s to %s is probably neither recommended nor supported", retrieved.Status, retrieved.Reason, from, to)
	default:
		return warn(reasonUnknownUpdate, "RetrievedUpdates=%s (%s), so that it is unknown whether the update from %s to %s is recommended", retrieved.Status, retrieved.Reason, from, to)
	}
}
