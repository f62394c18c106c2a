package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// TestUpdate installs a cluster, updates it to a signed release, and starts the operator of the
// new release.
func TestUpdate(t *testing.T) {
	f := newFixture(t)
	first := f.newReleaseFiles("1.0.0", nil)
	own := f.pushRelease(first)
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	cv := f.waitForVersion("the installation", isComplete("1.0.0"))
	for kind, want := range map[string]string{
		"Available": "True  Done applying 1.0.0", "Failing": "False  ", "Progressing": "False  Cluster version is 1.0.0",
		"ReleaseAccepted":               "True PayloadLoaded Payload loaded version=\"1.0.0\"",
		"RetrievedUpdates":              "False NoChannel ",
		"ImplicitlyEnabledCapabilities": "False AsExpected Capabilities match configured spec",
	} {
		c := getCondition(cv, kind)
		if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}

	if cv.Status.VersionHash == "" || cv.Status.Desired.URL != "https://example.com/1.0.0" || cv.Status.ObservedGeneration != cv.Generation ||
		len(cv.Status.Capabilities.KnownCapabilities) == 0 || cv.Status.History[0].Verified {
		t.Errorf("got status %+v, want an unverified release 1.0.0 with a hash, a URL, capabilities and the current generation", cv.Status)
	}
	if f.noteVersion() != "1.0.0" {
		t.Errorf("got objects of release %s, want 1.0.0", f.noteVersion())
	}

	next := f.pushRelease(f.newReleaseFiles("1.0.1", nil))
	f.signRelease(next)
	f.requestUpdate(configv1.Update{Version: "1.0.1", Image: next})
	cv = f.waitForVersion("the update", isComplete("1.0.1"))
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified || !strings.Contains(cv.Status.History[0].AcceptedRisks, `"NoChannel"`) ||
		cv.Status.History[1].State != configv1.CompletedUpdate {
		t.Errorf("got the history\n%s\nwant a verified update with the risk NoChannel after a completed installation", describeVersion(cv))
	}
	if f.noteVersion() != "1.0.1" {
		t.Errorf("got objects of release %s, want 1.0.1", f.noteVersion())
	}

	f.expectEvents("RetrievePayload", "LoadPayload", "PreconditionWarn", "PayloadLoaded")
	f.expectStoredSignature(next)

	// The operator of the next release has nothing left to apply.
	f.startOperator(Options{ReleaseImage: next, Payload: f.newReleaseFiles("1.0.1", nil)})
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.DesiredUpdate = nil })
	after := f.waitForVersion("a reconciliation by the new operator", func(cv *configv1.ClusterVersion) bool {
		return cv.Status.ObservedGeneration == cv.Generation && isComplete("1.0.1")(cv)
	})
	if diff := cmp.Diff(cv.Status.History, after.Status.History); diff != "" {
		t.Errorf("history (-before +after):\n%s", diff)
	}
}

// expectEvents waits for events about the ClusterVersion.
func (f *fixture) expectEvents(reasons ...string) {
	f.T.Helper()
	for _, reason := range reasons {
		f.WaitForEvent(reason, func(e *eventsv1.Event) bool {
			return e.Reason == reason && e.Regarding.Kind == "ClusterVersion" && e.Regarding.Name == "version"
		}, client.InNamespace(operatorNamespace))
	}
}

// expectStoredSignature waits until the signature of a release is stored.
func (f *fixture) expectStoredSignature(ref string) {
	f.T.Helper()
	key := strings.Replace(signature.DigestOf(ref), ":", "-", 1) + "-1"
	f.EventuallyTrue("the signature of "+ref+" is stored", func() bool {
		var stored corev1.ConfigMap
		err := f.Get(f.T.Context(), client.ObjectKey{Namespace: signature.Namespace, Name: "signatures-managed"}, &stored)
		f.Must(client.IgnoreNotFound(err))
		return len(stored.BinaryData[key]) > 0
	}, nil)
}

// pushForeignRelease pushes a release that is signed with keys that only it contains.
func (f *fixture) pushForeignRelease(version string) string {
	f.T.Helper()
	signer, keyring := f.signer, f.keyring
	f.createSigningKey()
	ref := f.pushRelease(f.newReleaseFiles(version, nil))
	f.signRelease(ref)
	f.signer, f.keyring = signer, keyring
	return ref
}

// A rejected release changes nothing and reports a reason.
func TestRejectedReleases(t *testing.T) {
	f := newFixture(t)
	first := f.newReleaseFiles("1.0.0", nil)
	own := f.pushRelease(first)
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	f.waitForVersion("the installation", isComplete("1.0.0"))

	unsigned, far := f.pushRelease(f.newReleaseFiles("1.0.1", nil)), f.pushRelease(f.newReleaseFiles("1.2.0", nil))
	broken := f.pushRelease(f.newReleaseFiles("1.0.3", map[string]string{"0000_10_x_1.yaml": "a: ["}))
	// Signatures in the cluster are listed at most every 30 seconds.
	f.signRelease(far)
	f.signRelease(broken)
	foreign := f.pushForeignRelease("1.0.2")
	f.requestUpdate(configv1.Update{Version: "1.0.1", Image: unsigned})
	f.waitForVersion("the rejection of an unsigned release", isRejected("RetrievePayload", "The update cannot be verified: unable to verify sha256:"))
	f.requestUpdate(configv1.Update{Version: "1.0.2", Image: foreign})
	f.waitForVersion("the rejection of a release with its own trusted keys", isRejected("RetrievePayload", foreign+`" failure=The update cannot be verified: unable to verify sha256:`))
	f.requestUpdate(configv1.Update{Version: "1.0.1", Image: f.registry.Host + "/release:latest"})
	f.waitForVersion("the rejection of a tag", isRejected("RetrievePayload", "release images that are not accessed via digest cannot be verified"))
	f.requestUpdate(configv1.Update{Version: "1.0.1", Image: f.registry.Host + "/none@sha256:" + strings.Repeat("0", 64), Force: true})
	f.waitForVersion("the rejection of a missing image", isRejected("RetrievePayload", "Unable to download and prepare the update"))
	f.requestUpdate(configv1.Update{Version: "1.0.2", Image: unsigned, Force: true})
	f.waitForVersion("the rejection of another version", isRejected("VerifyPayloadVersion", "release image version 1.0.1 does not match the expected upstream version 1.0.2"))
	f.requestUpdate(configv1.Update{Image: far})
	f.waitForVersion("the rejection of an update by two minor versions", isRejected("PreconditionChecks", `"MultipleMinorVersionsUpdate"`))
	f.requestUpdate(configv1.Update{Image: broken})
	cv := f.waitForVersion("the rejection of an invalid manifest", isRejected("LoadPayload", "0000_10_x_1.yaml"))
	if len(cv.Status.History) != 1 || cv.Status.Desired.Version != "1.0.0" || f.noteVersion() != "1.0.0" {
		t.Errorf("got the history\n%s\nwant no entry of a rejected release", describeVersion(cv))
	}

	f.expectEvents("RetrievePayloadFailed", "VerifyPayloadVersionFailed", "PreconditionBlock", "LoadPayloadFailed")

	// The same release with force is another target until it is applied.
	f.requestUpdate(configv1.Update{Version: "1.0.1", Image: unsigned})
	f.waitForVersion("the second rejection of the unsigned release", isRejected("RetrievePayload", unsigned+`" failure=The update cannot be verified`))
	for _, force := range []bool{true, false} {
		f.requestUpdate(configv1.Update{Version: "1.0.1", Image: unsigned, Force: force})
		cv = f.waitForVersion("the forced update", func(cv *configv1.ClusterVersion) bool {
			return isComplete("1.0.1")(cv) && cv.Status.ObservedGeneration == cv.Generation
		})
		if entry := cv.Status.History[0]; len(cv.Status.History) != 2 || entry.Verified || !strings.Contains(entry.AcceptedRisks, "cannot be verified, but continuing anyway because the update was forced") {
			t.Errorf("force %v: got the history\n%s\nwant an unverified update with the accepted risk", force, describeVersion(cv))
		}
	}

	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.ClusterID = "none" })
	f.waitForVersion("the invalid spec", func(cv *configv1.ClusterVersion) bool {
		return getCondition(cv, "Invalid").Reason == "InvalidClusterVersion" && getCondition(cv, "Progressing").Message == "Stopped at 1.0.1: the cluster version is invalid"
	})
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.ClusterID = "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11" })
	f.waitForVersion("the repaired spec", func(cv *configv1.ClusterVersion) bool { return getCondition(cv, "Invalid").Type == "" })
}

// A version without an image is resolved by the available updates. Gates and operators block
// minor updates until they are resolved.
func TestUpdateService(t *testing.T) {
	f := newFixture(t)
	first := f.newReleaseFiles("1.0.0", nil)
	own, next := f.pushRelease(first), f.pushRelease(f.newReleaseFiles("1.1.0", nil))
	f.signRelease(next)
	f.setGraph(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q,"metadata":{"io.openshift.upgrades.graph.release.channels":"stable-1.1,fast-1.1"}},{"version":"1.1.0","payload":%q}],"edges":[[0,1]]}`, own, next))
	gates := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: signature.Namespace, Name: "admin-gates"}, Data: map[string]string{"ack-1.0-apis": "APIs are gone."}}
	if err := f.Create(t.Context(), gates); err != nil {
		t.Fatal(err)
	}

	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = f.url, "stable-1.1" })
	cv := f.waitForVersion("the available update", func(cv *configv1.ClusterVersion) bool {
		return isComplete("1.0.0")(cv) && len(cv.Status.AvailableUpdates) == 1 && getCondition(cv, "RetrievedUpdates").Status == metav1.ConditionTrue
	})
	if diff := cmp.Diff([]string{"fast-1.1", "stable-1.1"}, cv.Status.Desired.Channels); diff != "" || cv.Status.AvailableUpdates[0].Image != next {
		t.Errorf("channels (-want +got):\n%s\nupdates: %+v", diff, cv.Status.AvailableUpdates)
	}
	if c := getCondition(cv, "Upgradeable"); c.Status != metav1.ConditionFalse || c.Message != "APIs are gone." {
		t.Errorf("got condition Upgradeable %+v, want False with the message of the gate", c)
	}

	f.requestUpdate(configv1.Update{Version: "1.1.0"})
	f.waitForVersion("the rejection because of the gate", isRejected("PreconditionChecks", "APIs are gone."))

	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "olm"}}
	if err := f.Create(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	operator.Status.Conditions = []configv1.ClusterOperatorStatusCondition{
		{Type: configv1.OperatorUpgradeable, Status: metav1.ConditionFalse, Reason: "Old", Message: "Remove foo.", LastTransitionTime: metav1.Now()},
	}
	if err := f.Status().Update(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	acks := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "admin-acks"}, Data: map[string]string{"ack-1.0-apis": "true"}}
	if err := f.Create(t.Context(), acks); err != nil {
		t.Fatal(err)
	}

	f.waitForVersion("the rejection because of the operator", isRejected("PreconditionChecks", "Remove foo."))
	if err := f.Delete(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	f.waitForVersion("the update", isComplete("1.1.0"))
}

// An operator that is not part of a release image starts with the configured release and then
// follows the cluster. It needs no registry for releases that it already had.
func TestOperatorOutsideOfTheRelease(t *testing.T) {
	f := newFixture(t)
	cache := t.TempDir()
	own, next := f.pushRelease(f.newReleaseFiles("1.0.0", nil)), f.pushRelease(f.newReleaseFiles("1.0.1", nil))
	f.signRelease(next)
	f.startOperator(Options{ReleaseImage: own, CacheDir: cache})
	f.createClusterVersion()
	f.waitForVersion("the installation", isComplete("1.0.0"))
	f.requestUpdate(configv1.Update{Image: next})
	f.waitForVersion("the update", isComplete("1.0.1"))

	// Conditions that only earlier operators reported are removed.
	f.stop()
	cv := f.waitForVersion("the status after the operator has stopped", isComplete("1.0.1"))
	cv.Status.Conditions = append(cv.Status.Conditions, configv1.ClusterOperatorStatusCondition{Type: "UpgradeableAdminAckRequired", Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now()})
	if err := f.Status().Update(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	f.startOperator(Options{ReleaseImage: own, CacheDir: cache})
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.DesiredUpdate = nil })
	cv = f.waitForVersion("a reconciliation by the new operator", func(cv *configv1.ClusterVersion) bool {
		return cv.Status.ObservedGeneration == cv.Generation && isComplete("1.0.1")(cv)
	})
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified || f.noteVersion() != "1.0.1" {
		t.Errorf("got objects of release %s and the history\n%s\nwant the updated release", f.noteVersion(), describeVersion(cv))
	}
	if getCondition(cv, "UpgradeableAdminAckRequired").Type != "" {
		t.Errorf("got an obsolete condition in\n%s\nwant it removed", describeVersion(cv))
	}
}

func TestWithoutARelease(t *testing.T) {
	f := newFixture(t)
	f.startOperator(Options{Prometheus: &updates.Prometheus{URL: "http://127.0.0.1:1"}})
	f.createClusterVersion()
	f.waitForVersion("the report of the missing release", func(cv *configv1.ClusterVersion) bool {
		c := getCondition(cv, "Failing")
		return c.Status == metav1.ConditionTrue && c.Reason == "NoDesiredImage" && c.Message == "No configured operator version, unable to update cluster"
	})
}
