package cli_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The releases of the documented example.
const (
	releases = "quay.io/openshift-release-dev/ocp-release@sha256:"
	digest22 = releases + "1111111111111111111111111111111111111111111111111111111111111111"
	digest23 = releases + "e40e49d722cb36a95fa1c03002942b967ccbd7d68de10e003f0baa69abad457b"
	digest24 = releases + "aab51636460b5a9757b736a29bc92ada6e6e6282e46b06e6fd483063d590d62a"
	digest25 = releases + "ed84fb3fbe026b3bbb4a2637ddd874452ac49c6ead1e15675f257e28664879cc"
	digest26 = releases + "e1fa1f513068082d97d78be643c369398b0e6820afab708d26acda2262940954"
	digest11 = releases + "300bce8246cf880e792e106607925de0a404484637627edf5f517375517d54a4"
)

// clusterVersionFixture is a fixture with a ClusterVersion.
type clusterVersionFixture struct{ *fixture }

func newClusterVersionFixture(t *testing.T) *clusterVersionFixture {
	t.Helper()
	kubeconfig(t, env.Start(t))
	c := &clusterVersionFixture{&fixture{env.NewFixture(t, configv1.AddToScheme)}}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(c.Delete(context.Background(), &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}})); err != nil {
			t.Error(err)
		}
	})

	return c
}

// testTime returns the current time of these tests.
func testTime() time.Time { return time.Date(2024, 2, 27, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(testTime().Add(-d)) }

func newCondition(name string, status metav1.ConditionStatus, reason, message string, since time.Duration) configv1.ClusterOperatorStatusCondition {
	return configv1.ClusterOperatorStatusCondition{Type: name, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(since)}
}

// clusterCommand returns a command line of `mainstay cluster`.
func clusterCommand(line string) command {
	return command{line: append([]string{"mainstay", "cluster"}, words(line)...), now: testTime}
}

// recreateClusterVersion replaces the ClusterVersion by an edited newClusterVersion.
func (c *clusterVersionFixture) recreateClusterVersion(edit func(*configv1.ClusterVersion)) {
	c.T.Helper()
	wanted := newClusterVersion()
	edit(wanted)
	c.Must(client.IgnoreNotFound(c.Delete(c.T.Context(), &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}})))
	status := wanted.Status
	c.Must(c.Create(c.T.Context(), wanted))
	wanted.Status = status
	c.Must(c.Status().Update(c.T.Context(), wanted))
}

// newClusterVersion returns the ClusterVersion of the documented example.
func newClusterVersion() *configv1.ClusterVersion {
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	cv.Spec = configv1.ClusterVersionSpec{ClusterID: "0f2c6f0e-1b2a-4c3d-8e4f-5a6b7c8d9e0f", Channel: "fast-4.11"}
	cv.Status = configv1.ClusterVersionStatus{
		Desired: configv1.Release{
			Version: "4.10.22", Image: digest22,
			Channels: []string{"candidate-4.10", "candidate-4.11", "eus-4.10", "fast-4.10", "fast-4.11", "stable-4.10"},
		},
		VersionHash: "x",
		Conditions: []configv1.ClusterOperatorStatusCondition{
			newCondition("Available", "True", "", "Done applying 4.10.22", time.Hour), newCondition("Failing", "False", "", "", time.Hour),
			newCondition("Progressing", "False", "", "Cluster version is 4.10.22", time.Hour), newCondition("RetrievedUpdates", "True", "", "", time.Hour),
			newCondition("ReleaseAccepted", "True", "PayloadLoaded", "Payload loaded", time.Hour),
		},
		History: []configv1.UpdateHistory{
			newHistoryEntry("4.10.22", digest22, configv1.CompletedUpdate, 50*time.Hour, 48*time.Hour),
			newHistoryEntry("4.10.20", releases+"2222222222222222222222222222222222222222222222222222222222222222", configv1.CompletedUpdate, 100*time.Hour, 99*time.Hour),
		},
		AvailableUpdates: []configv1.Release{
			{Version: "4.10.24", Image: digest24}, {Version: "4.10.26", Image: digest26}, {Version: "4.10.23", Image: digest23}, {Version: "4.10.25", Image: digest25},
		},
		ConditionalUpdates: []configv1.ConditionalUpdate{{
			Release: configv1.Release{Version: "4.11.0", Image: digest11},
			Risks: []configv1.ConditionalUpdateRisk{{
				Name: "RPMOSTreeTimeout", URL: "https://bugzilla.redhat.com/show_bug.cgi?id=2111817#c22",
				Message:       "Nodes with substantial numbers of containers and CPU contention may not reconcile machine configuration",
				MatchingRules: []configv1.ClusterCondition{{Type: configv1.ClusterConditionAlways}},
			}},
			Conditions: []metav1.Condition{{
				Type: "Recommended", Status: "False", Reason: "RPMOSTreeTimeout", LastTransitionTime: ago(time.Hour),
				Message: "Nodes with substantial numbers of containers and CPU contention may not reconcile machine configuration https://bugzilla.redhat.com/show_bug.cgi?id=2111817#c22",
			}},
		}},
	}

	return cv
}

// newHistoryEntry returns an entry of the update history. A zero ended means that the update is in
// progress.
func newHistoryEntry(version, image string, state configv1.UpdateState, began, ended time.Duration) configv1.UpdateHistory {
	e := configv1.UpdateHistory{Version: version, Image: image, State: state, Verified: true, StartedTime: ago(began)}
	if ended != 0 {
		t := ago(ended)
		e.CompletionTime = &t
	}
	return e
}

// startUpdating starts an update of the example to 4.10.26.
func startUpdating(cv *configv1.ClusterVersion) {
	cv.Status.Desired = configv1.Release{Version: "4.10.26", Image: digest26}
	cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.26", Image: digest26}
	cv.Status.History = append([]configv1.UpdateHistory{newHistoryEntry("4.10.26", digest26, configv1.PartialUpdate, 14*time.Minute, 0)}, cv.Status.History...)
	for i := range cv.Status.Conditions {
		if cv.Status.Conditions[i].Type == "Progressing" {
			cv.Status.Conditions[i] = newCondition("Progressing", "True", "ClusterOperatorUpdating", "Working towards 4.10.26: 700 of 800 done (87% complete), waiting on dns, machine-config", 14*time.Minute)
		}
	}
}

// blockUpdates sets all conditions that block the request of another update.
func blockUpdates(cv *configv1.ClusterVersion) {
	startUpdating(cv)
	cv.Status.Conditions[1] = newCondition("Failing", "True", "ClusterOperatorDegraded", "Cluster operator dns is degraded", time.Hour)
	cv.Status.Conditions = append(cv.Status.Conditions, newCondition("Invalid", "True", "InvalidClusterVersion", "The cluster version is invalid: spec.upstream: Invalid value", time.Hour))
}

// blockMinorUpdates sets Upgradeable=False, which blocks minor updates.
func blockMinorUpdates(cv *configv1.ClusterVersion) {
	cv.Status.Conditions = append(cv.Status.Conditions, newCondition("Upgradeable", "False", "AdminAckRequired", "Something must be agreed to", time.Hour))
}

// Requests of an administrator and their results, on a cluster in the state of the documented example.
func TestClusterUpgrade(t *testing.T) {
	c := newClusterVersionFixture(t)
	check := func(name, line string) {
		t.Helper()
		shown := run(t, clusterCommand(line))
		cv := &configv1.ClusterVersion{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "version"}, cv); err == nil {
			shown += "--- asked for\n" + describeSpec(cv)
		}
		goldenCheck(t, filepath.Join("clusterversion", name), shown)
	}
	check("none", "upgrade")
	none := func(*configv1.ClusterVersion) {}
	for _, test := range []struct {
		name, line string
		state      func(*configv1.ClusterVersion)
	}{
		{"example", "upgrade --include-not-recommended", none},
		{"hint", "upgrade", none},
		{"hint-unknown", "upgrade", func(cv *configv1.ClusterVersion) { cv.Status.ConditionalUpdates[0].Conditions[0].Status = "Unknown" }},
		{"nothing", "upgrade --include-not-recommended", func(cv *configv1.ClusterVersion) {
			cv.Status.AvailableUpdates, cv.Status.ConditionalUpdates = nil, nil
		}},
		{"unretrieved", "upgrade", func(cv *configv1.ClusterVersion) {
			cv.Status.AvailableUpdates, cv.Status.ConditionalUpdates = nil, nil
			cv.Status.Conditions[3] = newCondition("RetrievedUpdates", "False", "RemoteFailed", "Unable to retrieve available updates: no route to host", time.Hour)
		}},
		{"unrefreshed", "upgrade", func(cv *configv1.ClusterVersion) {
			cv.Status.Conditions[3] = newCondition("RetrievedUpdates", "False", "RemoteFailed", "Unable to retrieve available updates: no route to host", time.Hour)
		}},
		{"not-evaluated", "upgrade --include-not-recommended", func(cv *configv1.ClusterVersion) { cv.Status.ConditionalUpdates[0].Conditions = nil }},
		{"troubled", "upgrade", func(cv *configv1.ClusterVersion) {
			startUpdating(cv)
			cv.Spec.Upstream = "https://updates.example.com/graph"
			cv.Status.Conditions[1] = newCondition("Failing", "True", "MultipleErrors", "Multiple errors are preventing progress:\n* one\n* two", time.Hour)
			cv.Status.Conditions[4] = newCondition("ReleaseAccepted", "False", "RetrievePayload", "Retrieving payload failed", time.Hour)
			cv.Status.Conditions = append(cv.Status.Conditions, newCondition("Upgradeable", "False", "AdminAckRequired", "Something must be agreed to", time.Hour))
		}},
		{"conditionless", "upgrade", func(cv *configv1.ClusterVersion) { cv.Status.Conditions, cv.Spec.Channel = nil, "" }},

		{"to", "upgrade --to 4.10.25", none},
		{"to-current", "upgrade --to 4.10.22", none},
		{"to-unknown", "upgrade --to 4.10.99", none},
		{"to-unknown-nothing", "upgrade --to 4.10.99", func(cv *configv1.ClusterVersion) {
			cv.Status.AvailableUpdates, cv.Status.ConditionalUpdates = nil, nil
		}},
		{"to-unknown-unretrieved", "upgrade --to 4.10.99", func(cv *configv1.ClusterVersion) {
			cv.Status.Conditions[3] = newCondition("RetrievedUpdates", "False", "RemoteFailed", "Unable to retrieve available updates: no route to host", time.Hour)
		}},
		{"to-unknown-nothing-allowed", "upgrade --to 4.10.99 --allow-not-recommended", func(cv *configv1.ClusterVersion) {
			cv.Status.AvailableUpdates, cv.Status.ConditionalUpdates = nil, nil
		}},
		{"to-latest-unretrieved", "upgrade --to-latest", func(cv *configv1.ClusterVersion) {
			cv.Status.AvailableUpdates = nil
			cv.Status.Conditions[3] = newCondition("RetrievedUpdates", "False", "RemoteFailed", "Unable to retrieve available updates: no route to host", time.Hour)
		}},
		{"to-conditional", "upgrade --to 4.11.0", none},
		{"to-conditional-allowed", "upgrade --to 4.11.0 --allow-not-recommended", none},
		{"to-minor-blocked", "upgrade --to 4.11.0 --allow-not-recommended", blockMinorUpdates},
		{"to-minor-blocked-forced", "upgrade --to 4.11.0 --allow-not-recommended --force", blockMinorUpdates},
		{"to-patch-not-blocked", "upgrade --to 4.10.26", blockMinorUpdates},
		{"to-image-perhaps-blocked", "upgrade --to-image mirror.example.com/releases@sha256:3333333333333333333333333333333333333333333333333333333333333333 --allow-explicit-upgrade", blockMinorUpdates},
		{"to-latest", "upgrade --to-latest", none},
		{"to-latest-conditional", "upgrade --to-latest --allow-not-recommended", none},
		{"to-latest-none", "upgrade --to-latest", func(cv *configv1.ClusterVersion) { cv.Status.AvailableUpdates = nil }},
		{"to-image", "upgrade --to-image " + digest24, none},
		{"to-image-mirror", "upgrade --to-image mirror.example.com/releases@" + digest24[len(releases)-len("sha256:"):], none},
		{"to-image-current", "upgrade --to-image " + digest22, none},
		{"to-image-unknown", "upgrade --to-image mirror.example.com/releases@sha256:3333333333333333333333333333333333333333333333333333333333333333", none},
		{"to-image-explicit", "upgrade --to-image mirror.example.com/releases@sha256:3333333333333333333333333333333333333333333333333333333333333333 --allow-explicit-upgrade", none},
		{"to-image-tag", "upgrade --to-image mirror.example.com/releases:4.10.30", none},
		{"to-image-tag-forced", "upgrade --to-image mirror.example.com/releases:4.10.30 --force --allow-explicit-upgrade", none},
		{"to-multi-arch", "upgrade --to-multi-arch", none},
		{"to-multi-arch-again", "upgrade --to-multi-arch", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", Architecture: "Multi"}
		}},
		{"risks-survive", "upgrade --to 4.10.25", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", Image: digest22, Force: true, AcceptRisks: []configv1.AcceptRisk{{Name: "RPMOSTreeTimeout"}}}
		}},

		{"updating-refused", "upgrade --to 4.10.25", startUpdating},
		{"updating-forced", "upgrade --to 4.10.25 --force", startUpdating},
		{"guards", "upgrade --to 4.10.25", blockUpdates},
		{"guards-bypassed", "upgrade --to 4.10.25 --allow-upgrade-with-warnings", blockUpdates},
		{"updating-allowed", "upgrade --to 4.10.25 --allow-upgrade-with-warnings", startUpdating},
		{"clear-none", "upgrade --clear", none},
		{"clear-there", "upgrade --clear", startUpdating},
		{"clear-cancels", "upgrade --clear", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.26", Image: digest26, AcceptRisks: []configv1.AcceptRisk{{Name: "RPMOSTreeTimeout"}}}
		}},

		{"clear-risks-alone", "upgrade --clear", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{AcceptRisks: []configv1.AcceptRisk{{Name: "RPMOSTreeTimeout"}}}
		}},
		{"accept-clear-risks-alone", "accept --clear", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{AcceptRisks: []configv1.AcceptRisk{{Name: "C"}}}
		}},
		{"clear-again", "upgrade --clear", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", Image: digest22, AcceptRisks: []configv1.AcceptRisk{{Name: "RPMOSTreeTimeout"}}}
		}},

		{"channel", "channel stable-4.10", none},
		{"channel-same", "channel fast-4.11", none},
		{"channel-unknown", "channel x", none},
		{"channel-explicit", "channel x --allow-explicit-channel", none},
		{"channel-no-channels", "channel x", func(cv *configv1.ClusterVersion) { cv.Status.Desired.Channels = nil }},
		{"channel-clear", "channel", none},
		{"channel-clear-explicit", "channel --allow-explicit-channel", none},
		{"channel-clear-again", "channel", func(cv *configv1.ClusterVersion) { cv.Spec.Channel = "" }},

		{"accept", "accept B,A,C-", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", AcceptRisks: []configv1.AcceptRisk{{Name: "C"}, {Name: "D"}}}
		}},
		{"accept-first", "accept A", none},
		{"accept-empty-items", "accept ,B,,A,", none},
		{"accept-replace", "accept A --replace", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", AcceptRisks: []configv1.AcceptRisk{{Name: "C"}}}
		}},
		{"accept-clear", "accept --clear", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", AcceptRisks: []configv1.AcceptRisk{{Name: "C"}}}
		}},
		{"control-characters", "upgrade --to 4.11.0", func(cv *configv1.ClusterVersion) {
			cv.Status.ConditionalUpdates[0].Conditions[0].Message = "It may \x1b[8mnot\x1b[0m break"
		}},
		{"accept-same", "accept C", func(cv *configv1.ClusterVersion) {
			cv.Spec.DesiredUpdate = &configv1.Update{Version: "4.10.22", AcceptRisks: []configv1.AcceptRisk{{Name: "C"}}}
		}},

		{"history", "history", none},
		{"rollback", "rollback", none},
		{"rollback-updating", "rollback", startUpdating},
		{"rollback-newer", "rollback", func(cv *configv1.ClusterVersion) { cv.Status.History[1].Version = "4.10.30" }},
		{"rollback-json", "rollback -o json", none},
		{"rollback-preview", "rollback-preview", none},
		{"rollback-preview-updating", "rollback-preview", startUpdating},
		{"rollback-minor", "rollback", func(cv *configv1.ClusterVersion) { cv.Status.History[1].Version = "4.9.40" }},
		{"rollback-first", "rollback", func(cv *configv1.ClusterVersion) { cv.Status.History = cv.Status.History[:1] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.T = t
			c.recreateClusterVersion(test.state)
			check(test.name, test.line)
		})
	}
}

// describeSpec returns the requested channel and update of the spec, one field per line.
func describeSpec(cv *configv1.ClusterVersion) string {
	lines := []string{"channel " + cv.Spec.Channel}
	if u := cv.Spec.DesiredUpdate; u != nil {
		lines = append(lines, "version "+u.Version, "image "+u.Image)
		if u.Architecture != "" {
			lines = append(lines, "architecture "+string(u.Architecture))
		}
		if u.Force {
			lines = append(lines, "force")
		}
		for _, risk := range u.AcceptRisks {
			lines = append(lines, "accepts "+risk.Name)
		}
	}

	return strings.Join(lines, "\n") + "\n"
}

// Invalid combinations of flags are rejected without access to the cluster.
func TestClusterMistakes(t *testing.T) {
	for name, line := range map[string]string{
		"clear-and-to":            "upgrade --clear --to 4.10.25",
		"clear-and-image":         "upgrade --clear --to-image " + digest24,
		"clear-and-latest":        "upgrade --clear --to-latest",
		"clear-and-multi":         "upgrade --clear --to-multi-arch",
		"clear-and-force":         "upgrade --clear --force",
		"clear-and-allow":         "upgrade --clear --allow-not-recommended",
		"clear-and-explicit":      "upgrade --clear --allow-explicit-upgrade",
		"clear-and-warnings":      "upgrade --clear --allow-upgrade-with-warnings",
		"clear-and-include":       "upgrade --clear --include-not-recommended",
		"multi-and-to":            "upgrade --to-multi-arch --to 4.10.25",
		"multi-and-image":         "upgrade --to-multi-arch --to-image " + digest24,
		"multi-and-latest":        "upgrade --to-multi-arch --to-latest",
		"to-and-to-image":         "upgrade --to 4.10.25 --to-image " + digest24,
		"latest-and-to":           "upgrade --to-latest --to 4.10.25",
		"latest-and-image":        "upgrade --to-latest --to-image " + digest24,
		"image-tag":               "upgrade --to-image quay.io/releases/x:4.10.30",
		"accept-clear-and-names":  "accept A --clear",
		"accept-replace-and-less": "accept A- --replace",
		"accept-empty-names":      "accept ,,",
		"to-no-version":           "upgrade --to 4.10",
		"image-bad":               "upgrade --to-image UPPER@x",
		"image-bare":              "upgrade --to-image releases:1",
		"image-untagged":          "upgrade --to-image quay.io/releases/x",
		"details":                 "status --details everything",
		"recommend-quiet":         "recommend --quiet",
		"recommend-no":            "recommend --version 4.10",
		"accept-both":             "accept A,A-",
		"accept-none":             "accept",
		"accept-exclusive":        "accept --replace --clear",
	} {
		t.Run(name, func(t *testing.T) {
			check(t, filepath.Join("clusterversion", "mistakes", name), clusterCommand(line))
		})
	}
}
