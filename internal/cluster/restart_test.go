package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
)

// waiting is a manifest of a ClusterOperator, whose version an update waits for.
func waiting(version string) map[string]string {
	return map[string]string{"0000_50_part_01_operator.yaml": `{apiVersion: config.openshift.io/v1, kind: ClusterOperator, metadata: {name: part, ` + fmt.Sprintf(included, "") + `},
spec: {}, status: {versions: [{name: operator, version: ` + version + `}]}}`}
}

// report has the part of the cluster say that it is well at a version.
func (w *world) report(version string) {
	w.t.Helper()
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "part"}}
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(operator), operator); err != nil {
			return false, client.IgnoreNotFound(err)
		}

		operator.Status.Versions = []configv1.OperandVersion{{Name: "operator", Version: version}}
		operator.Status.Conditions = nil
		for kind, status := range map[string]metav1.ConditionStatus{"Available": "True", "Degraded": "False", "Progressing": "False"} {
			operator.Status.Conditions = append(operator.Status.Conditions, configv1.ClusterOperatorStatusCondition{
				Type: kind, Status: status, Reason: "AsExpected", LastTransitionTime: metav1.Now(),
			})
		}

		return w.client.Status().Update(ctx, operator) == nil, nil
	})
	if err != nil {
		w.t.Fatalf("ClusterOperator part is never there: %v", err)
	}
}

// An operator that ends in the middle of an update, once as that of the old release and once
// as that of the new one: the end is the same.
func TestRestartInMidUpdate(t *testing.T) {
	w := newWorld(t)
	first, second := w.content("1.0.0", waiting("1.0.0")), w.content("1.0.1", waiting("1.0.1"))
	own, next := w.push(first), w.push(second)
	w.sign(next)
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	w.report("1.0.0")
	w.await("the installation", isAt("1.0.0"))
	w.update(configv1.Update{Version: "1.0.1", Image: next})
	waits := func(cv *configv1.ClusterVersion) bool {
		progressing := conditionOf(cv, "Progressing")
		return cv.Status.Desired.Version == "1.0.1" && progressing.Status == metav1.ConditionTrue && progressing.Reason == "ClusterOperatorUpdating" &&
			strings.HasSuffix(progressing.Message, "waiting on part")
	}
	w.await("the wait for a part", waits)
	if c := conditionOf(w.await("the risk", func(*configv1.ClusterVersion) bool { return true }), "Upgradeable"); c.Reason != "ClusterVersionUpdating" {
		t.Errorf("Upgradeable is %+v", c)
	}

	w.run(Options{ReleaseImage: own, Payload: first}) // the old one again
	w.await("the wait, after the old operator began anew", waits)
	if w.note() != "1.0.1" {
		t.Errorf("the old operator went back to %s", w.note())
	}

	w.run(Options{ReleaseImage: next, Payload: second}) // its successor
	w.await("the wait, after the new operator began", waits)
	w.report("1.0.1")
	cv := w.await("the update", isAt("1.0.1"))
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified {
		t.Errorf("the history is:\n%s", tell(cv))
	}
}

// A later release is taken in the middle of an update.
func TestRetargetInMidUpdate(t *testing.T) {
	w := newWorld(t)
	first := w.content("1.0.0", waiting("1.0.0"))
	own, next, after := w.push(first), w.push(w.content("1.1.0", waiting("1.1.0"))), w.push(w.content("1.1.1", waiting("1.1.1")))
	w.sign(next)
	w.sign(after)
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()

	// Before the first release is reached, no other is looked at.
	w.update(configv1.Update{Image: next})
	w.report("0.0.0")
	w.await("the first release", func(cv *configv1.ClusterVersion) bool {
		return len(cv.Status.History) > 0 && cv.Status.History[len(cv.Status.History)-1].Version == "1.0.0"
	})
	w.report("1.0.0")
	w.await("the update", func(cv *configv1.ClusterVersion) bool { return cv.Status.Desired.Version == "1.1.0" })
	w.update(configv1.Update{Image: after})
	w.report("1.1.1")
	cv := w.await("the later release", isAt("1.1.1"))
	var states []string
	for _, entry := range cv.Status.History {
		states = append(states, entry.Version+" "+string(entry.State))
	}

	if got := strings.Join(states, ", "); got != "1.1.1 Completed, 1.1.0 Partial, 1.0.0 Completed" || !strings.Contains(cv.Status.History[0].AcceptedRisks, "MinorVersionClusterUpdateInProgress") {
		t.Errorf("the history is:\n%s", tell(cv))
	}
}

// A capability that an object of the release moves into cannot be left out.
func TestImplicitCapability(t *testing.T) {
	w := newWorld(t)
	object := func(more string) map[string]string {
		return map[string]string{"0000_50_part_01_object.yaml": `{apiVersion: v1, kind: ConfigMap, metadata: {name: moving, namespace: openshift-cluster-version, ` + fmt.Sprintf(included, more) + `}}`}
	}
	first := w.content("1.0.0", object(""))
	own, next := w.push(first), w.push(w.content("1.0.1", object(`, capability.openshift.io/name: "Console"`)))
	w.sign(next)
	w.run(Options{ReleaseImage: own, Payload: first, AlwaysEnable: []string{"Ingress"}})
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	cv.Spec.ClusterID = "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11"
	cv.Spec.Capabilities = &configv1.ClusterVersionCapabilitiesSpec{BaselineCapabilitySet: configv1.CapabilitySetNone}
	if err := w.client.Create(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	cv = w.await("the installation", isAt("1.0.0"))
	if got := fmt.Sprint(cv.Status.Capabilities.EnabledCapabilities); got != "[Ingress]" {
		t.Errorf("capabilities are %s", got)
	}

	w.update(configv1.Update{Image: next})
	cv = w.await("the update", isAt("1.0.1"))
	if got := fmt.Sprint(cv.Status.Capabilities.EnabledCapabilities); got != "[Console Ingress]" {
		t.Errorf("capabilities are %s", got)
	}
	if c := conditionOf(cv, "ImplicitlyEnabledCapabilities"); c.Status != metav1.ConditionTrue || c.Message != "The following capabilities could not be disabled: Console" {
		t.Errorf("ImplicitlyEnabledCapabilities is %+v", c)
	}
}

// A release with a known issue that applies to the cluster is taken by its image, and once
// the issue is accepted, by its version.
func TestKnownIssue(t *testing.T) {
	w := newWorld(t)
	first := w.content("1.0.0", nil)
	own, next := w.push(first), w.push(w.content("1.0.1", nil))
	w.sign(next)
	w.offer(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q},{"version":"1.0.1","payload":%q}],"edges":[],"conditionalEdges":[
{"edges":[{"from":"1.0.0","to":"1.0.1"}],"risks":[{"url":"https://example.com/7","name":"Slow","message":"It is slow.","matchingRules":[{"type":"Always"}]}]}]}`, own, next))
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = w.url, "stable" })
	cv := w.await("the conditional update", func(cv *configv1.ClusterVersion) bool {
		return isAt("1.0.0")(cv) && len(cv.Status.ConditionalUpdates) == 1
	})
	if update := cv.Status.ConditionalUpdates[0]; update.Release.Version != "1.0.1" || update.Release.Image != next || len(update.Risks) != 1 || update.Risks[0].URL != "https://example.com/7" {
		t.Errorf("the update is %+v", update)
	}
	if c := cv.Status.ConditionalUpdates[0].Conditions[0]; c.Type != "Recommended" || c.Status != metav1.ConditionFalse || c.Reason != "Slow" || c.Message != "It is slow. https://example.com/7" || len(cv.Status.AvailableUpdates) != 0 {
		t.Errorf("the update is %+v, available are %v", c, cv.Status.AvailableUpdates)
	}
	if len(cv.Status.ConditionalUpdateRisks) != 1 || cv.Status.ConditionalUpdateRisks[0].Name != "Slow" {
		t.Errorf("risks are %+v", cv.Status.ConditionalUpdateRisks)
	}

	w.update(configv1.Update{Version: "1.0.1", AcceptRisks: []configv1.AcceptRisk{{Name: "Slow"}}})
	cv = w.await("the update", isAt("1.0.1"))
	if risks := cv.Status.History[0].AcceptedRisks; !strings.Contains(risks, "exposed to the risks [Slow]") {
		t.Errorf("accepted risks are %q", risks)
	}
}

// Of several processes one acts: every part waits for the lease.
func TestOneActs(t *testing.T) {
	for name, part := range map[string]any{
		"worker": leading{}, "updates": updates.NewWatcher(updates.Options{}), "acceptor": acceptance.NewAcceptor(&acceptance.Judge{}, nil),
	} {
		if elected, ok := part.(manager.LeaderElectionRunnable); !ok || !elected.NeedLeaderElection() {
			t.Errorf("%s acts without the lease", name)
		}
	}
}

func TestRetriever(t *testing.T) {
	own := nothing{}
	r := retriever{own: "own", files: own, next: away{}}
	if files, err := r.Retrieve(t.Context(), configv1.Release{Image: "own"}); err != nil || files != fs.FS(own) {
		t.Errorf("the operator's own release is %v: %v", files, err)
	}
	if _, err := r.Retrieve(t.Context(), configv1.Release{Image: "other"}); !errors.Is(err, errAway) {
		t.Errorf("another release: %v", err)
	}

	r.files = nil
	if _, err := r.Retrieve(t.Context(), configv1.Release{Image: "own"}); !errors.Is(err, errAway) {
		t.Errorf("the release of an operator that is part of none: %v", err)
	}
}

type nothing struct{}

func (nothing) Open(string) (fs.File, error) { return nil, fs.ErrNotExist }

var errAway = errors.New("away")

type away struct{ acceptance.Retriever }

func (away) Retrieve(context.Context, configv1.Release) (fs.FS, error) { return nil, errAway }
