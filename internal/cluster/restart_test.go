package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
)

// operatorManifest returns the manifest of a ClusterOperator whose version an update waits for.
func operatorManifest(version string) map[string]string {
	return map[string]string{"0000_50_part_01_operator.yaml": `{apiVersion: config.openshift.io/v1, kind: ClusterOperator, metadata: {name: part, ` + fmt.Sprintf(included, "") + `},
spec: {}, status: {versions: [{name: operator, version: ` + version + `}]}}`}
}

// reportOperator makes the ClusterOperator report that it is healthy at a version.
func (f *fixture) reportOperator(version string) {
	f.T.Helper()
	f.reportOperatorState(version, metav1.ConditionTrue)
}

// reportOperatorState reports a version and whether the operator is available.
func (f *fixture) reportOperatorState(version string, available metav1.ConditionStatus) {
	f.T.Helper()
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "part"}}
	f.Eventually("ClusterOperator part reports "+version, func() error {
		if err := f.Get(f.T.Context(), client.ObjectKeyFromObject(operator), operator); err != nil {
			return err
		}

		operator.Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: version}}
		operator.Status.Conditions = nil
		for kind, status := range map[string]metav1.ConditionStatus{"Available": available, "Degraded": "False", "Progressing": "False"} {
			operator.Status.Conditions = append(operator.Status.Conditions, configv1.ClusterOperatorStatusCondition{
				Type: kind, Status: status, Reason: "AsExpected", LastTransitionTime: metav1.Now(),
			})
		}

		return f.Status().Update(f.T.Context(), operator)
	})
}

// An operator restarts in the middle of an update, once with the old and once with the new
// release. The result is the same.
func TestRestartInMidUpdate(t *testing.T) {
	f := newFixture(t)
	first, second := f.newReleaseFiles("1.0.0", operatorManifest("1.0.0")), f.newReleaseFiles("1.0.1", operatorManifest("1.0.1"))
	own, next := f.pushRelease(first), f.pushRelease(second)
	f.signRelease(next)
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	f.reportOperator("1.0.0")
	f.waitForVersion("the installation", isComplete("1.0.0"))
	f.requestUpdate(configv1.Update{Version: "1.0.1", Image: next})
	waits := func(cv *configv1.ClusterVersion) bool {
		progressing := getCondition(cv, "Progressing")
		return cv.Status.Desired.Version == "1.0.1" && progressing.Status == metav1.ConditionTrue && progressing.Reason == "ClusterOperatorUpdating" &&
			strings.HasSuffix(progressing.Message, "waiting on part")
	}
	f.waitForVersion("the update waits for a ClusterOperator", waits)
	if c := getCondition(f.waitForVersion("the risk", func(*configv1.ClusterVersion) bool { return true }), "Upgradeable"); c.Reason != "ClusterVersionUpdating" {
		t.Errorf("got condition Upgradeable %+v, want reason ClusterVersionUpdating", c)
	}

	f.startOperator(Options{ReleaseImage: own, Payload: first}) // restart of the old operator
	f.waitForVersion("the update waits after the old operator has restarted", waits)
	if f.noteVersion() != "1.0.1" {
		t.Errorf("got objects of release %s after a restart of the old operator, want 1.0.1", f.noteVersion())
	}

	f.startOperator(Options{ReleaseImage: next, Payload: second}) // the new operator
	f.waitForVersion("the update waits after the new operator has started", waits)
	f.reportOperator("1.0.1")
	cv := f.waitForVersion("the update", isComplete("1.0.1"))
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified {
		t.Errorf("got the history\n%s\nwant two entries, the first of them verified", describeVersion(cv))
	}
}

// A later release is requested in the middle of an update.
func TestRetargetInMidUpdate(t *testing.T) {
	f := newFixture(t)
	first := f.newReleaseFiles("1.0.0", operatorManifest("1.0.0"))
	own, next, after := f.pushRelease(first), f.pushRelease(f.newReleaseFiles("1.1.0", operatorManifest("1.1.0"))), f.pushRelease(f.newReleaseFiles("1.1.1", operatorManifest("1.1.1")))
	f.signRelease(next)
	f.signRelease(after)
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()

	// No other release is considered before the first one is complete.
	f.requestUpdate(configv1.Update{Image: next})
	f.reportOperator("0.0.0")
	f.waitForVersion("the first release", func(cv *configv1.ClusterVersion) bool {
		return len(cv.Status.History) > 0 && cv.Status.History[len(cv.Status.History)-1].Version == "1.0.0"
	})
	f.reportOperator("1.0.0")
	f.waitForVersion("the update", func(cv *configv1.ClusterVersion) bool { return cv.Status.Desired.Version == "1.1.0" })
	f.requestUpdate(configv1.Update{Image: after})
	f.reportOperator("1.1.1")
	cv := f.waitForVersion("the later release", isComplete("1.1.1"))
	var states []string
	for _, entry := range cv.Status.History {
		states = append(states, entry.Version+" "+string(entry.State))
	}

	if got := strings.Join(states, ", "); got != "1.1.1 Completed, 1.1.0 Partial, 1.0.0 Completed" || !strings.Contains(cv.Status.History[0].AcceptedRisks, "MinorVersionClusterUpdateInProgress") {
		t.Errorf("got the history\n%s\nwant a completed 1.1.1 after a partial 1.1.0 and a completed 1.0.0, with the accepted risk", describeVersion(cv))
	}
}

// A capability is enabled implicitly when an object of the release moves into it.
func TestImplicitCapability(t *testing.T) {
	f := newFixture(t)
	object := func(more string) map[string]string {
		return map[string]string{"0000_50_part_01_object.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: moving, namespace: openshift-cluster-version, ` + fmt.Sprintf(included, more) + `}}`}
	}
	first := f.newReleaseFiles("1.0.0", object(""))
	own, next := f.pushRelease(first), f.pushRelease(f.newReleaseFiles("1.0.1", object(`, capability.openshift.io/name: "Console"`)))
	f.signRelease(next)
	f.startOperator(Options{ReleaseImage: own, Payload: first, AlwaysEnable: []string{"Ingress"}})
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	cv.Spec.ClusterID = "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11"
	cv.Spec.Capabilities = &configv1.ClusterVersionCapabilitiesSpec{BaselineCapabilitySet: configv1.CapabilitySetNone}
	if err := f.Create(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	cv = f.waitForVersion("the installation", isComplete("1.0.0"))
	if got := fmt.Sprint(cv.Status.Capabilities.EnabledCapabilities); got != "[Ingress]" {
		t.Errorf("got capabilities %s, want [Ingress]", got)
	}

	f.requestUpdate(configv1.Update{Image: next})
	cv = f.waitForVersion("the update", isComplete("1.0.1"))
	if got := fmt.Sprint(cv.Status.Capabilities.EnabledCapabilities); got != "[Console Ingress]" {
		t.Errorf("got capabilities %s, want [Console Ingress]", got)
	}
	if c := getCondition(cv, "ImplicitlyEnabledCapabilities"); c.Status != metav1.ConditionTrue || c.Message != "The following capabilities could not be disabled: Console" {
		t.Errorf("got condition ImplicitlyEnabledCapabilities %+v, want True with Console", c)
	}
}

// A release with a known issue can be requested by its image and, once the issue is accepted, by
// its version.
func TestKnownIssue(t *testing.T) {
	f := newFixture(t)
	first := f.newReleaseFiles("1.0.0", nil)
	own, next := f.pushRelease(first), f.pushRelease(f.newReleaseFiles("1.0.1", nil))
	f.signRelease(next)
	f.setGraph(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q},{"version":"1.0.1","payload":%q}],"edges":[],"conditionalEdges":[
{"edges":[{"from":"1.0.0","to":"1.0.1"}],"risks":[{"url":"https://example.com/7","name":"Slow","message":"It is slow.","matchingRules":[{"type":"Always"}]}]}]}`, own, next))
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = f.url, "stable" })
	cv := f.waitForVersion("the conditional update", func(cv *configv1.ClusterVersion) bool {
		return isComplete("1.0.0")(cv) && len(cv.Status.ConditionalUpdates) == 1
	})
	if update := cv.Status.ConditionalUpdates[0]; update.Release.Version != "1.0.1" || update.Release.Image != next || len(update.Risks) != 1 || update.Risks[0].URL != "https://example.com/7" {
		t.Errorf("got conditional update %+v, want release 1.0.1 with one risk", update)
	}
	if c := cv.Status.ConditionalUpdates[0].Conditions[0]; c.Type != "Recommended" || c.Status != metav1.ConditionFalse || c.Reason != "Slow" || c.Message != "It is slow. https://example.com/7" || len(cv.Status.AvailableUpdates) != 0 {
		t.Errorf("got condition %+v and available updates %v, want Recommended False with the risk Slow and no available update", c, cv.Status.AvailableUpdates)
	}
	if len(cv.Status.ConditionalUpdateRisks) != 1 || cv.Status.ConditionalUpdateRisks[0].Name != "Slow" {
		t.Errorf("got risks %+v, want Slow", cv.Status.ConditionalUpdateRisks)
	}

	f.requestUpdate(configv1.Update{Version: "1.0.1", AcceptRisks: []configv1.AcceptRisk{{Name: "Slow"}}})
	cv = f.waitForVersion("the update", isComplete("1.0.1"))
	if risks := cv.Status.History[0].AcceptedRisks; !strings.Contains(risks, "exposed to the risks [Slow]") {
		t.Errorf("got accepted risks %q, want Slow in them", risks)
	}
}

// Every component of the operator waits for the lease.
func TestLeaderElection(t *testing.T) {
	for name, part := range map[string]any{
		"worker": leaderRunnable{}, "updates": updates.NewWatcher(updates.Options{}), "acceptor": acceptance.NewAcceptor(&acceptance.Judge{}, nil),
	} {
		if elected, ok := part.(manager.LeaderElectionRunnable); !ok || !elected.NeedLeaderElection() {
			t.Errorf("%s does not require leader election, want it to", name)
		}
	}
}

func TestRetriever(t *testing.T) {
	own := emptyFS{}
	r := payloadRetriever{own: "own", files: own, next: failingRetriever{}}
	if files, err := r.Retrieve(t.Context(), configv1.Release{Image: "own"}); err != nil || files != fs.FS(own) {
		t.Errorf("the operator's own release: got files %v and error %v, want its files", files, err)
	}
	if _, err := r.Retrieve(t.Context(), configv1.Release{Image: "other"}); !errors.Is(err, errRetrieverFailed) {
		t.Errorf("another release: got error %v, want that of the next retriever", err)
	}

	r.files = nil
	if _, err := r.Retrieve(t.Context(), configv1.Release{Image: "own"}); !errors.Is(err, errRetrieverFailed) {
		t.Errorf("without files of its own: got error %v, want that of the next retriever", err)
	}
}

type emptyFS struct{}

func (emptyFS) Open(string) (fs.File, error) { return nil, fs.ErrNotExist }

var errRetrieverFailed = errors.New("away")

type failingRetriever struct{ acceptance.Retriever }

func (failingRetriever) Retrieve(context.Context, configv1.Release) (fs.FS, error) {
	return nil, errRetrieverFailed
}
