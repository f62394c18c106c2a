package precondition

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

func newRelease(version string) configv1.Release {
	return configv1.Release{Version: version, Image: "registry.example/release@sha256:" + version}
}

// newClusterVersion returns a ClusterVersion with a history, newest first. Versions with an
// asterisk are completed.
func newClusterVersion(history ...string) *configv1.ClusterVersion {
	cv := &configv1.ClusterVersion{}
	for _, version := range history {
		version, completed := strings.CutSuffix(version, "*")
		state := configv1.PartialUpdate
		if completed {
			state = configv1.CompletedUpdate
		}
		cv.Status.History = append(cv.Status.History, configv1.UpdateHistory{State: state, Version: version, Image: newRelease(version).Image})
	}

	cv.Status.Desired = newRelease(cv.Status.History[0].Version)
	return cv
}

func withRecommended(cv *configv1.ClusterVersion, target string) *configv1.ClusterVersion {
	cv.Status.AvailableUpdates = append(cv.Status.AvailableUpdates, newRelease(target))
	return cv
}

func withUpgradeableFalse(cv *configv1.ClusterVersion) *configv1.ClusterVersion {
	cv.Status.Conditions = append(cv.Status.Conditions, configv1.ClusterOperatorStatusCondition{
		Type: configv1.OperatorUpgradeable, Status: metav1.ConditionFalse, Reason: "Stop", Message: "Do this first.",
	})
	return cv
}

// formatFindings returns the findings as <check>/<reason>, with a question mark after warnings.
func formatFindings(findings []Finding) string {
	var all []string
	for _, f := range findings {
		text := strings.TrimPrefix(f.Check, "ClusterVersion") + "/" + f.Reason
		if f.Warning {
			text += "?"
		}
		all = append(all, text)
	}

	return strings.Join(all, " ")
}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		cluster *configv1.ClusterVersion
		target  string
		want    string
	}{
		"patch":                          {withRecommended(newClusterVersion("4.13.1*"), "4.13.2"), "4.13.2", ""},
		"next minor":                     {withRecommended(newClusterVersion("4.13.1*"), "4.14.2"), "4.14.2", ""},
		"the same":                       {newClusterVersion("4.13.1*"), "4.13.1", ""},
		"two minors":                     {withRecommended(newClusterVersion("4.13.1*"), "4.15.0"), "4.15.0", "GiantHop/MultipleMinorVersionsUpdate"},
		"next major":                     {withRecommended(newClusterVersion("1.9.0*"), "2.0.0"), "2.0.0", "GiantHop/MajorVersionUpdate"},
		"4.x to 5.0":                     {withRecommended(newClusterVersion("4.22.0*"), "5.0.3"), "5.0.3", ""},
		"4.x to 5.1":                     {withRecommended(newClusterVersion("4.22.0*"), "5.1.0"), "5.1.0", "GiantHop/MajorVersionUpdate"},
		"4.x to 6.0":                     {withRecommended(newClusterVersion("4.22.0*"), "6.0.0"), "6.0.0", "GiantHop/MajorVersionUpdate"},
		"back to the previous patch":     {withRecommended(newClusterVersion("4.13.2*", "4.13.1*"), "4.13.1"), "4.13.1", ""},
		"back by two patches":            {withRecommended(newClusterVersion("4.13.3*", "4.13.2*", "4.13.1*"), "4.13.1"), "4.13.1", "Rollback/LowDesiredVersion"},
		"back to the previous minor":     {withRecommended(newClusterVersion("4.13.2*", "4.12.9*"), "4.12.9"), "4.12.9", "Rollback/LowDesiredVersion"},
		"back without a previous":        {withRecommended(newClusterVersion("4.13.2*"), "4.13.1"), "4.13.1", "Rollback/LowDesiredVersion"},
		"not upgradeable, minor":         {withUpgradeableFalse(withRecommended(newClusterVersion("4.13.1*"), "4.14.2")), "4.14.2", "Upgradeable/Stop"},
		"not upgradeable, patch":         {withUpgradeableFalse(withRecommended(newClusterVersion("4.13.1*"), "4.13.2")), "4.13.2", ""},
		"not upgradeable, back":          {withUpgradeableFalse(withRecommended(newClusterVersion("4.13.2*", "4.13.1*"), "4.13.1")), "4.13.1", ""},
		"retarget within the new minor":  {withUpgradeableFalse(withRecommended(newClusterVersion("4.14.1", "4.13.9*"), "4.14.2")), "4.14.2", "Upgradeable/MinorVersionClusterUpdateInProgress?"},
		"retarget within the new major":  {withUpgradeableFalse(withRecommended(newClusterVersion("5.0.1", "4.22.9*"), "5.0.2")), "5.0.2", "Upgradeable/MajorVersionClusterUpdateInProgress?"},
		"a current version that is none": {withRecommended(newClusterVersion("latest*"), "4.13.2"), "4.13.2", "Rollback/InvalidCurrentVersion?"},
		"a target that is none":          {withRecommended(newClusterVersion("4.13.1*"), "latest"), "latest", "Rollback/InvalidDesiredVersion"},
		"unknown without a channel":      {newClusterVersion("4.13.1*"), "4.13.2", "RecommendedUpdate/NoChannel?"},
		"all at once":                    {withUpgradeableFalse(newClusterVersion("4.13.1*")), "4.15.0", "GiantHop/MultipleMinorVersionsUpdate Upgradeable/Stop RecommendedUpdate/NoChannel?"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := formatFindings(Check(Input{ClusterVersion: c.cluster, Target: newRelease(c.target)})); got != c.want {
				t.Errorf("got findings %q, want %q", got, c.want)
			}
		})
	}
}

func TestUpgradeableWithOverrides(t *testing.T) {
	cv := withUpgradeableFalse(withRecommended(newClusterVersion("4.13.1*"), "4.13.2"))
	cv.Spec.Overrides = []configv1.ComponentOverride{{Unmanaged: true}}
	if got := formatFindings(Check(Input{ClusterVersion: cv, Target: newRelease("4.13.2")})); got != "Upgradeable/ClusterVersionOverridesSet?" {
		t.Errorf("got findings %q, want Upgradeable/ClusterVersionOverridesSet?", got)
	}
}

func TestUpgradeableUnknownPasses(t *testing.T) {
	cv := withUpgradeableFalse(withRecommended(newClusterVersion("4.13.1*"), "4.14.2"))
	cv.Status.Conditions[0].Status = metav1.ConditionUnknown
	if got := formatFindings(Check(Input{ClusterVersion: cv, Target: newRelease("4.14.2")})); got != "" {
		t.Errorf("got findings %q, want none", got)
	}
}

// A rollback to the previous version compares digests, so the release may come from another
// registry.
func TestRollbackToMirror(t *testing.T) {
	cv := withRecommended(newClusterVersion("4.13.2*", "4.13.1*"), "4.13.1")
	target := newRelease("4.13.1")
	target.Image = "mirror.example/copy@sha256:4.13.1"
	if got := formatFindings(Check(Input{ClusterVersion: cv, Target: target})); got != "" {
		t.Errorf("got findings %q, want none", got)
	}

	target.Image = "registry.example/release@sha256:other"
	if got := formatFindings(Check(Input{ClusterVersion: cv, Target: target})); !strings.HasPrefix(got, "Rollback/LowDesiredVersion") {
		t.Errorf("another image of the previous version: got findings %q, want Rollback/LowDesiredVersion", got)
	}
}

func TestRecommended(t *testing.T) {
	conditional := func(conditions ...metav1.Condition) *configv1.ClusterVersion {
		cv := newClusterVersion("4.13.1*")
		cv.Status.ConditionalUpdates = []configv1.ConditionalUpdate{{Release: newRelease("4.13.2"), Conditions: conditions}}
		return cv
	}
	retrieved := func(status metav1.ConditionStatus) *configv1.ClusterVersion {
		cv := newClusterVersion("4.13.1*")
		cv.Spec.Channel = "stable"
		if status != "" {
			cv.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.ClusterVersionRetrievedUpdates, Status: status, Reason: "R"}}
		}
		return cv
	}

	cases := map[string]struct {
		cluster      *configv1.ClusterVersion
		reason, text string
	}{
		"recommended":   {conditional(metav1.Condition{Type: "Recommended", Status: "True"}), "", ""},
		"not":           {conditional(metav1.Condition{Type: "Recommended", Status: "False", Reason: "Slow", Message: "It is slow."}), "Slow", "Update from 4.13.1 to 4.13.2 is not recommended:\n\nIt is slow."},
		"unknown":       {conditional(metav1.Condition{Type: "Recommended", Status: "Unknown", Reason: "EvaluationFailed", Message: "Away."}), "EvaluationFailed", "Update from 4.13.1 to 4.13.2 is Recommended=Unknown: EvaluationFailed: Away."},
		"another type":  {conditional(metav1.Condition{Type: "Tasty", Status: "True"}), "UnknownConditionType", "4.13.2"},
		"not retrieved": {retrieved(""), "UnknownUpdate", "unknown whether"},
		"retrieved":     {retrieved("True"), "UnknownUpdate", "probably neither recommended nor supported"},
		"failed":        {retrieved("False"), "UnknownUpdate", "unknown whether"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			findings := Check(Input{ClusterVersion: c.cluster, Target: newRelease("4.13.2")})
			if c.reason == "" {
				if len(findings) > 0 {
					t.Errorf("got findings %v, want none", findings)
				}
				return
			}
			if len(findings) != 1 || findings[0].Reason != c.reason || !findings[0].Warning || !strings.Contains(findings[0].Message, c.text) {
				t.Errorf("got findings %+v, want the warning %s with %q", findings, c.reason, c.text)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	block, warning := Finding{Check: "A", Reason: "B", Message: "c"}, Finding{Check: "D", Reason: "E", Message: "f", Warning: true}
	cases := []struct {
		findings []Finding
		text     string
		blocked  bool
	}{
		{nil, "", false},
		{[]Finding{block}, `Precondition "A" failed because of "B": c`, true},
		{[]Finding{warning}, `Precondition "D" failed because of "E": f`, false},
		{[]Finding{block, warning}, "Multiple precondition checks failed:\n* Precondition \"A\" failed because of \"B\": c\n* Precondition \"D\" failed because of \"E\": f", true},
		{[]Finding{warning, warning}, "Multiple precondition checks failed:\n* Precondition \"D\" failed because of \"E\": f\n* Precondition \"D\" failed because of \"E\": f", false},
	}

	for _, c := range cases {
		t.Run(fmt.Sprint(len(c.findings), c.blocked), func(t *testing.T) {
			if text, blocked := Verdict(c.findings); text != c.text || blocked != c.blocked {
				t.Errorf("got verdict %q, blocked %v; want %q, %v", text, blocked, c.text, c.blocked)
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	text, blocked := Verdict(Unreadable(errors.New("away")))
	if !blocked || !strings.Contains(text, `"UnknownError"`) || !strings.Contains(text, "away") {
		t.Errorf("got verdict %q, blocked %v; want a blocking UnknownError with the cause", text, blocked)
	}
}

func TestRollbackAndHopMessages(t *testing.T) {
	texts := map[string]string{
		"4.13.0": "4.13.0 is less than the current target 4.13.2, and the only supported rollback is to the cluster's previous version 4.12.9 (registry.example/release@sha256:4.12.9)",
		"4.12.9": "4.12.9 is less than the current target 4.13.2, and though it is the cluster's previous version, rollbacks that change the major or minor version are not supported",
		"4.15.1": "4.15.1 is more than one minor version beyond the current target 4.13.2 (4.15 > 4.(13+1)), and only updates within the current minor version or to the next minor version are supported.",
	}
	for target, want := range texts {
		findings := Check(Input{ClusterVersion: withRecommended(newClusterVersion("4.13.2*", "4.12.9*"), target), Target: newRelease(target)})
		if len(findings) != 1 || findings[0].Message != want {
			t.Errorf("%s: got findings %v, want one with the message %q", target, findings, want)
		}
	}
}

// In clusters with backups, a recent backup is required before an update to the next minor version.
func TestRecentBackup(t *testing.T) {
	etcd := func(status metav1.ConditionStatus) *configv1.ClusterOperator {
		operator := &configv1.ClusterOperator{}
		operator.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: "Available", Status: metav1.ConditionTrue}}
		if status != "" {
			operator.Status.Conditions = append(operator.Status.Conditions, configv1.ClusterOperatorStatusCondition{
				Type: "RecentBackup", Status: status, Reason: "NoBackup", Message: "Make one.",
			})
		}
		return operator
	}

	const blocked = `Precondition "EtcdRecentBackup" failed because of "NoBackup": RecentBackup: Make one.`
	for name, c := range map[string]struct {
		target string
		etcd   *configv1.ClusterOperator
		err    error
		want   string
	}{
		"no backup, minor":          {target: "4.14.2", etcd: etcd("False"), want: blocked},
		"unknown, minor":            {target: "4.14.2", etcd: etcd("Unknown"), want: blocked},
		"a backup, minor":           {target: "4.14.2", etcd: etcd("True")},
		"no backup, patch":          {target: "4.13.3", etcd: etcd("False")},
		"no backup, back":           {target: "4.13.1", etcd: etcd("False")},
		"a cluster without backups": {target: "4.14.2", etcd: etcd("")},
		"no operator of that name":  {target: "4.14.2"},
		"unreachable": {
			target: "4.14.2", err: errors.New("away"),
			want: `Precondition "EtcdRecentBackup" failed because of "UnableToGetEtcdOperator": RecentBackup: ClusterOperator "etcd" cannot be read: away`,
		},
		"unreachable, patch": {target: "4.13.3", err: errors.New("away")},
	} {
		t.Run(name, func(t *testing.T) {
			cv := withRecommended(newClusterVersion("4.13.2*", "4.13.1*"), c.target)
			text, blocks := Verdict(Check(Input{ClusterVersion: cv, Target: newRelease(c.target), Etcd: c.etcd, EtcdError: c.err}))
			if text != c.want || blocks != (c.want != "") {
				t.Errorf("got verdict %q, blocked %v; want %q", text, blocks, c.want)
			}
		})
	}
}
