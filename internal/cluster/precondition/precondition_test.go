package precondition

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

func release(version string) configv1.Release {
	return configv1.Release{Version: version, Image: "registry.example/release@sha256:" + version}
}

// cluster makes a ClusterVersion whose history is given from the newest; a version with a
// star was completed.
func cluster(history ...string) *configv1.ClusterVersion {
	cv := &configv1.ClusterVersion{}
	for _, version := range history {
		version, completed := strings.CutSuffix(version, "*")
		state := configv1.PartialUpdate
		if completed {
			state = configv1.CompletedUpdate
		}
		cv.Status.History = append(cv.Status.History, configv1.UpdateHistory{State: state, Version: version, Image: release(version).Image})
	}

	cv.Status.Desired = release(cv.Status.History[0].Version)
	return cv
}

func recommended(cv *configv1.ClusterVersion, target string) *configv1.ClusterVersion {
	cv.Status.AvailableUpdates = append(cv.Status.AvailableUpdates, release(target))
	return cv
}

func notUpgradeable(cv *configv1.ClusterVersion) *configv1.ClusterVersion {
	cv.Status.Conditions = append(cv.Status.Conditions, configv1.ClusterOperatorStatusCondition{
		Type: configv1.OperatorUpgradeable, Status: metav1.ConditionFalse, Reason: "Stop", Message: "Do this first.",
	})
	return cv
}

// of returns the findings as <check>/<reason>, with a question mark after warnings.
func of(findings []Finding) string {
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
		"patch":                          {recommended(cluster("4.13.1*"), "4.13.2"), "4.13.2", ""},
		"next minor":                     {recommended(cluster("4.13.1*"), "4.14.2"), "4.14.2", ""},
		"the same":                       {cluster("4.13.1*"), "4.13.1", ""},
		"two minors":                     {recommended(cluster("4.13.1*"), "4.15.0"), "4.15.0", "GiantHop/MultipleMinorVersionsUpdate"},
		"next major":                     {recommended(cluster("1.9.0*"), "2.0.0"), "2.0.0", "GiantHop/MajorVersionUpdate"},
		"4.x to 5.0":                     {recommended(cluster("4.22.0*"), "5.0.3"), "5.0.3", ""},
		"4.x to 5.1":                     {recommended(cluster("4.22.0*"), "5.1.0"), "5.1.0", "GiantHop/MajorVersionUpdate"},
		"4.x to 6.0":                     {recommended(cluster("4.22.0*"), "6.0.0"), "6.0.0", "GiantHop/MajorVersionUpdate"},
		"back to the previous patch":     {recommended(cluster("4.13.2*", "4.13.1*"), "4.13.1"), "4.13.1", ""},
		"back by two patches":            {recommended(cluster("4.13.3*", "4.13.2*", "4.13.1*"), "4.13.1"), "4.13.1", "Rollback/LowDesiredVersion"},
		"back to the previous minor":     {recommended(cluster("4.13.2*", "4.12.9*"), "4.12.9"), "4.12.9", "Rollback/LowDesiredVersion"},
		"back without a previous":        {recommended(cluster("4.13.2*"), "4.13.1"), "4.13.1", "Rollback/LowDesiredVersion"},
		"not upgradeable, minor":         {notUpgradeable(recommended(cluster("4.13.1*"), "4.14.2")), "4.14.2", "Upgradeable/Stop"},
		"not upgradeable, patch":         {notUpgradeable(recommended(cluster("4.13.1*"), "4.13.2")), "4.13.2", ""},
		"not upgradeable, back":          {notUpgradeable(recommended(cluster("4.13.2*", "4.13.1*"), "4.13.1")), "4.13.1", ""},
		"retarget within the new minor":  {notUpgradeable(recommended(cluster("4.14.1", "4.13.9*"), "4.14.2")), "4.14.2", "Upgradeable/MinorVersionClusterUpdateInProgress?"},
		"retarget within the new major":  {notUpgradeable(recommended(cluster("5.0.1", "4.22.9*"), "5.0.2")), "5.0.2", "Upgradeable/MajorVersionClusterUpdateInProgress?"},
		"a current version that is none": {recommended(cluster("latest*"), "4.13.2"), "4.13.2", "Rollback/InvalidCurrentVersion?"},
		"a target that is none":          {recommended(cluster("4.13.1*"), "latest"), "latest", "Rollback/InvalidDesiredVersion"},
		"unknown without a channel":      {cluster("4.13.1*"), "4.13.2", "RecommendedUpdate/NoChannel?"},
		"all at once":                    {notUpgradeable(cluster("4.13.1*")), "4.15.0", "GiantHop/MultipleMinorVersionsUpdate Upgradeable/Stop RecommendedUpdate/NoChannel?"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := of(Check(Input{ClusterVersion: c.cluster, Target: release(c.target)})); got != c.want {
				t.Errorf("found %q, not %q", got, c.want)
			}
		})
	}
}

func TestUpgradeableWithOverrides(t *testing.T) {
	cv := notUpgradeable(recommended(cluster("4.13.1*"), "4.13.2"))
	cv.Spec.Overrides = []configv1.ComponentOverride{{Unmanaged: true}}
	if got := of(Check(Input{ClusterVersion: cv, Target: release("4.13.2")})); got != "Upgradeable/ClusterVersionOverridesSet?" {
		t.Errorf("found %q", got)
	}
}

func TestUpgradeableUnknownPasses(t *testing.T) {
	cv := notUpgradeable(recommended(cluster("4.13.1*"), "4.14.2"))
	cv.Status.Conditions[0].Status = metav1.ConditionUnknown
	if got := of(Check(Input{ClusterVersion: cv, Target: release("4.14.2")})); got != "" {
		t.Errorf("found %q", got)
	}
}

// A rollback to the previous version is one to its content, from whichever registry.
func TestRollbackFromAMirror(t *testing.T) {
	cv := recommended(cluster("4.13.2*", "4.13.1*"), "4.13.1")
	target := release("4.13.1")
	target.Image = "mirror.example/copy@sha256:4.13.1"
	if got := of(Check(Input{ClusterVersion: cv, Target: target})); got != "" {
		t.Errorf("found %q", got)
	}

	target.Image = "registry.example/release@sha256:other"
	if got := of(Check(Input{ClusterVersion: cv, Target: target})); !strings.HasPrefix(got, "Rollback/LowDesiredVersion") {
		t.Errorf("another image of the previous version: found %q", got)
	}
}

func TestRecommended(t *testing.T) {
	conditional := func(conditions ...metav1.Condition) *configv1.ClusterVersion {
		cv := cluster("4.13.1*")
		cv.Status.ConditionalUpdates = []configv1.ConditionalUpdate{{Release: release("4.13.2"), Conditions: conditions}}
		return cv
	}
	retrieved := func(status metav1.ConditionStatus) *configv1.ClusterVersion {
		cv := cluster("4.13.1*")
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
			findings := Check(Input{ClusterVersion: c.cluster, Target: release("4.13.2")})
			if c.reason == "" {
				if len(findings) > 0 {
					t.Errorf("found %v", findings)
				}
				return
			}
			if len(findings) != 1 || findings[0].Reason != c.reason || !findings[0].Warning || !strings.Contains(findings[0].Message, c.text) {
				t.Errorf("found %+v, not %s with %q", findings, c.reason, c.text)
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
				t.Errorf("verdict %q, %v; not %q, %v", text, blocked, c.text, c.blocked)
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	text, blocked := Verdict(Unreadable(errors.New("away")))
	if !blocked || !strings.Contains(text, `"UnknownError"`) || !strings.Contains(text, "away") {
		t.Errorf("verdict %q, %v", text, blocked)
	}
}

func TestTextsOfRollbackAndHop(t *testing.T) {
	texts := map[string]string{
		"4.13.0": "4.13.0 is less than the current target 4.13.2, and the only supported rollback is to the cluster's previous version 4.12.9 (registry.example/release@sha256:4.12.9)",
		"4.12.9": "4.12.9 is less than the current target 4.13.2, and though it is the cluster's previous version, rollbacks that change the major or minor version are not supported",
		"4.15.1": "4.15.1 is more than one minor version beyond the current target 4.13.2 (4.15 > 4.(13+1)), and only updates within the current minor version or to the next minor version are supported.",
	}
	for target, want := range texts {
		findings := Check(Input{ClusterVersion: recommended(cluster("4.13.2*", "4.12.9*"), target), Target: release(target)})
		if len(findings) != 1 || findings[0].Message != want {
			t.Errorf("%s: %v", target, findings)
		}
	}
}

// Where somebody makes backups, there has to be one before the next minor version.
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
		"no backup, minor":         {target: "4.14.2", etcd: etcd("False"), want: blocked},
		"nobody knows, minor":      {target: "4.14.2", etcd: etcd("Unknown"), want: blocked},
		"a backup, minor":          {target: "4.14.2", etcd: etcd("True")},
		"no backup, patch":         {target: "4.13.3", etcd: etcd("False")},
		"no backup, back":          {target: "4.13.1", etcd: etcd("False")},
		"nobody makes backups":     {target: "4.14.2", etcd: etcd("")},
		"no operator of that name": {target: "4.14.2"},
		"away": {
			target: "4.14.2", err: errors.New("away"),
			want: `Precondition "EtcdRecentBackup" failed because of "UnableToGetEtcdOperator": RecentBackup: ClusterOperator "etcd" cannot be read: away`,
		},
		"away, patch": {target: "4.13.3", err: errors.New("away")},
	} {
		t.Run(name, func(t *testing.T) {
			cv := recommended(cluster("4.13.2*", "4.13.1*"), c.target)
			text, blocks := Verdict(Check(Input{ClusterVersion: cv, Target: release(c.target), Etcd: c.etcd, EtcdError: c.err}))
			if text != c.want || blocks != (c.want != "") {
				t.Errorf("verdict %q, %v; not %q", text, blocks, c.want)
			}
		})
	}
}
