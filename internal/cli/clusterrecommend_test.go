package cli_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// newConditionalUpdate returns an update with risks. The argument applies lists names of risks, each
// followed by the status of its condition Applies.
func newConditionalUpdate(release configv1.Release, status metav1.ConditionStatus, reason, message string, applies ...string) configv1.ConditionalUpdate {
	update := configv1.ConditionalUpdate{Release: release, Conditions: []metav1.Condition{{
		Type: configv1.ConditionalUpdateRecommended, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(time.Hour),
	}}}
	for i := 0; i < len(applies); i += 2 {
		update.Risks = append(update.Risks, configv1.ConditionalUpdateRisk{
			Name: applies[i], URL: "https://issues.example.com/" + applies[i], Message: "It may break.",
			MatchingRules: []configv1.ClusterCondition{{Type: configv1.ClusterConditionAlways}},
			Conditions: []metav1.Condition{{
				Type: configv1.ConditionalUpdateRiskApplies, Status: metav1.ConditionStatus(applies[i+1]), Reason: "Evaluated", LastTransitionTime: ago(time.Hour),
			}},
		})
	}

	return update
}

// recommendCase is a state of a cluster. Its recommendations are printed in three forms: the newest
// updates, all updates, and one update.
type recommendCase struct {
	name, flags, version string
	state                func(*configv1.ClusterVersion)
}

var recommendCases = []recommendCase{
	{name: "two-minors", version: "4.11.1", state: func(cv *configv1.ClusterVersion) {
		cv.Spec.Upstream = "https://updates.example.com/graph"
		cv.Status.AvailableUpdates = append(cv.Status.AvailableUpdates, configv1.Release{Version: "4.11.1", Image: digest11, URL: "https://access.example.com/errata/RHBA-2022:1"})
	}},
	{name: "failing", version: "4.10.25", state: func(cv *configv1.ClusterVersion) {
		startUpdating(cv)
		cv.Status.Conditions[1] = newCondition("Failing", "True", "ClusterOperatorDegraded", "Cluster operator dns is degraded:\nno endpoints", time.Hour)
	}},
	{name: "alerts", flags: " --alerts testdata/clusterversion/alerts.json --accept PodDisruptionBudgetAtLimit,RPMOSTreeTimeout", version: "4.11.0", state: func(*configv1.ClusterVersion) {}},
	{name: "nothing", version: "4.10.25", state: func(cv *configv1.ClusterVersion) {
		cv.Spec.Channel, cv.Status.AvailableUpdates, cv.Status.ConditionalUpdates = "", nil, nil
	}},
	{name: "not-upgradeable", version: "4.11.1", state: func(cv *configv1.ClusterVersion) {
		cv.Status.Conditions = append(cv.Status.Conditions, newCondition("Upgradeable", "False", "AdminAckRequired", "Kubernetes 1.24 removes APIs.\nAcknowledge that with ack-4.10-kube-1.24-api-removals.", time.Hour))
		cv.Status.AvailableUpdates = append(cv.Status.AvailableUpdates, configv1.Release{Version: "4.11.1", Image: digest11, URL: "https://access.example.com/errata/RHBA-2022:1"})
	}},
	{name: "unknown-risks", flags: " --accept SlowDisks", version: "4.10.27", state: func(cv *configv1.ClusterVersion) {
		cv.Status.Conditions[3] = newCondition("RetrievedUpdates", "False", "RemoteFailed", "Unable to retrieve available updates: no route to host", time.Hour)
		cv.Status.AvailableUpdates = nil
		cv.Status.ConditionalUpdates = []configv1.ConditionalUpdate{
			newConditionalUpdate(configv1.Release{Version: "4.10.27", Image: digest24, URL: "https://access.example.com/errata/RHBA-2022:2"}, "False", "MultipleReasons",
				"It may break. https://issues.example.com/SlowDisks\n\nCould not evaluate exposure to update risk OldFirmware (EvaluationFailed). https://issues.example.com/OldFirmware",
				"SlowDisks", "True", "OldFirmware", "Unknown", "OtherCloud", "False"),
			newConditionalUpdate(configv1.Release{Version: "4.10.26", Image: digest26}, "True", "AsExpected", "", "OtherCloud", "False"),
			newConditionalUpdate(configv1.Release{Version: "4.10.24", Image: digest24}, "Unknown", "EvaluationFailed", "Could not evaluate exposure to update risk SlowDisks (EvaluationFailed).", "SlowDisks", "Unknown"),
		}
		cv.Status.AvailableUpdates = []configv1.Release{{Version: "4.10.26", Image: digest26}}
	}},
}

func TestClusterRecommend(t *testing.T) {
	c := newClusterVersionFixture(t)
	for _, test := range recommendCases {
		t.Run(test.name, func(t *testing.T) {
			c.T = t
			c.recreateClusterVersion(test.state)
			for form, flags := range map[string]string{"": "", "-outdated": " --show-outdated-releases", "-version": " --version " + test.version} {
				check(t, filepath.Join("clusterversion", "recommend", test.name+form), clusterCommand("recommend"+test.flags+flags))
			}
		})
	}

	// This continues with the last case.
	for name, line := range map[string]string{
		"quiet":      "recommend --version 4.10.27 --quiet",
		"quiet-none": "recommend --version 4.10.26 --quiet",
		"accepted":   "recommend --version 4.10.27 --accept OldFirmware,SlowDisks",
		"json":       "recommend --version 4.10.24 -o json",
	} {
		check(t, filepath.Join("clusterversion", "recommend", name), clusterCommand(line))
	}

	// A cluster that refuses minor updates.
	c.T = t
	c.recreateClusterVersion(recommendCases[slices.IndexFunc(recommendCases, func(test recommendCase) bool { return test.name == "not-upgradeable" })].state)
	for name, line := range map[string]string{
		"not-upgradeable-quiet":    "recommend --version 4.11.1 --quiet",
		"not-upgradeable-patch":    "recommend --version 4.10.26 --quiet",
		"not-upgradeable-accepted": "recommend --version 4.11.0 --accept UpgradeableFalse,RPMOSTreeTimeout",
		"not-upgradeable-json":     "recommend --version 4.11.0 -o json",
	} {
		check(t, filepath.Join("clusterversion", "recommend", name), clusterCommand(line))
	}

	c.recreateClusterVersion(recommendCases[len(recommendCases)-1].state)
	answer, err := os.ReadFile("testdata/clusterversion/alerts.json")
	if err != nil {
		t.Fatal(err)
	}

	line := clusterCommand("recommend --version 4.10.26 --quiet --alerts -")
	line.in = string(answer)
	check(t, filepath.Join("clusterversion", "recommend", "alerts-stdin"), line)
	for name, location := range map[string]string{"alerts-no-list": "testdata/catalog/kettle/catalog.yaml", "alerts-no-file": "testdata/nothing.json", "alerts-no-server": "http://admin:secret@127.0.0.1:1/"} {
		check(t, filepath.Join("clusterversion", "recommend", name), clusterCommand("recommend --alerts "+location))
	}
}

// Versions, channels and risks are completed from the ClusterVersion.
func TestClusterCompletion(t *testing.T) {
	c := newClusterVersionFixture(t)
	c.recreateClusterVersion(func(cv *configv1.ClusterVersion) {
		cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", AcceptRisks: []configv1.AcceptRisk{{Name: "SlowDisks"}}}
	})
	for name, words := range map[string][]string{
		"to":                 {"upgrade", "--to", ""},
		"to-not-recommended": {"upgrade", "--allow-not-recommended", "--to", "4.1"},
		"version":            {"recommend", "--version", "4.11"},
		"channel":            {"channel", "fast"},
		"accept":             {"accept", "Old,"},
		"issues":             {"recommend", "--accept", "Failing,"},
		"details":            {"status", "--details", ""},
	} {
		line := append([]string{"mainstay", "__complete", "cluster"}, words...)
		check(t, filepath.Join("clusterversion", "complete", name), command{line: line, now: testTime})
	}
}
