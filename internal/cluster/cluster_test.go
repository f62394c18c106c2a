package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// An installation, an update to a signed release, and the operator of the new release taking
// over.
func TestUpdate(t *testing.T) {
	w := newWorld(t)
	first := w.content("1.0.0", nil)
	own := w.push(first)
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	cv := w.await("the installation", isAt("1.0.0"))
	for kind, want := range map[string]string{
		"Available": "True  Done applying 1.0.0", "Failing": "False  ", "Progressing": "False  Cluster version is 1.0.0",
		"ReleaseAccepted":               "True PayloadLoaded Payload loaded version=\"1.0.0\"",
		"RetrievedUpdates":              "False NoChannel ",
		"ImplicitlyEnabledCapabilities": "False AsExpected Capabilities match configured spec",
	} {
		c := conditionOf(cv, kind)
		if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, not %q", kind, got, want)
		}
	}

	if cv.Status.VersionHash == "" || cv.Status.Desired.URL != "https://example.com/1.0.0" || cv.Status.ObservedGeneration != cv.Generation ||
		len(cv.Status.Capabilities.KnownCapabilities) == 0 || cv.Status.History[0].Verified {
		t.Errorf("the status is %+v", cv.Status)
	}
	if w.note() != "1.0.0" {
		t.Errorf("the objects are those of %s", w.note())
	}

	next := w.push(w.content("1.0.1", nil))
	w.sign(next)
	w.update(configv1.Update{Version: "1.0.1", Image: next})
	cv = w.await("the update", isAt("1.0.1"))
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified || !strings.Contains(cv.Status.History[0].AcceptedRisks, `"NoChannel"`) ||
		cv.Status.History[1].State != configv1.CompletedUpdate {
		t.Errorf("the history is:\n%s", tell(cv))
	}
	if w.note() != "1.0.1" {
		t.Errorf("the objects are those of %s", w.note())
	}

	w.expectEvents("RetrievePayload", "LoadPayload", "PreconditionWarn", "PayloadLoaded")
	w.expectKept(next)

	// The operator of the next release finds its own work done.
	w.run(Options{ReleaseImage: next, Payload: w.content("1.0.1", nil)})
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.DesiredUpdate = nil })
	after := w.await("the new operator's look", func(cv *configv1.ClusterVersion) bool {
		return cv.Status.ObservedGeneration == cv.Generation && isAt("1.0.1")(cv)
	})
	if diff := cmp.Diff(cv.Status.History, after.Status.History); diff != "" {
		t.Errorf("history was changed (-was +is):\n%s", diff)
	}
}

// expectEvents waits for events about the ClusterVersion.
func (w *world) expectEvents(reasons ...string) {
	w.t.Helper()
	missing := ""
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		if err := w.client.List(ctx, &list, client.InNamespace("openshift-cluster-version")); err != nil {
			return false, err
		}

		seen := map[string]bool{}
		for _, event := range list.Items {
			seen[event.Reason] = seen[event.Reason] || event.Regarding.Kind == "ClusterVersion" && event.Regarding.Name == "version"
		}

		for _, reason := range reasons {
			if missing = reason; !seen[reason] {
				return false, nil
			}
		}

		return true, nil
	})
	if err != nil {
		w.t.Errorf("there is no event %s: %v", missing, err)
	}
}

// expectKept waits until the signature of a release is kept.
func (w *world) expectKept(ref string) {
	w.t.Helper()
	key := strings.Replace(signature.DigestOf(ref), ":", "-", 1) + "-1"
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var kept corev1.ConfigMap
		err := w.client.Get(ctx, client.ObjectKey{Namespace: signature.Namespace, Name: "signatures-managed"}, &kept)
		return len(kept.BinaryData[key]) > 0, client.IgnoreNotFound(err)
	})
	if err != nil {
		w.t.Errorf("the signature of %s is not kept: %v", ref, err)
	}
}

// foreign makes a release that brings keys of its own, and is signed with them.
func (w *world) foreign(version string) string {
	w.t.Helper()
	signer, keyring := w.signer, w.keyring
	w.makeKey()
	ref := w.push(w.content(version, nil))
	w.sign(ref)
	w.signer, w.keyring = signer, keyring
	return ref
}

// What is not accepted changes nothing, and says why.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	first := w.content("1.0.0", nil)
	own := w.push(first)
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	w.await("the installation", isAt("1.0.0"))

	unsigned, far := w.push(w.content("1.0.1", nil)), w.push(w.content("1.2.0", nil))
	broken := w.push(w.content("1.0.3", map[string]string{"0000_10_x_1.yaml": "a: ["}))
	// Signatures in the cluster are listed at most each 30 seconds.
	w.sign(far)
	w.sign(broken)
	foreign := w.foreign("1.0.2")
	w.update(configv1.Update{Version: "1.0.1", Image: unsigned})
	w.await("the refusal of an unsigned release", isRefused("RetrievePayload", "The update cannot be verified: unable to verify sha256:"))
	w.update(configv1.Update{Version: "1.0.2", Image: foreign})
	w.await("the refusal of a release that vouches for itself", isRefused("RetrievePayload", foreign+`" failure=The update cannot be verified: unable to verify sha256:`))
	w.update(configv1.Update{Version: "1.0.1", Image: w.registry + "/release:latest"})
	w.await("the refusal of a tag", isRefused("RetrievePayload", "release images that are not accessed via digest cannot be verified"))
	w.update(configv1.Update{Version: "1.0.1", Image: w.registry + "/none@sha256:" + strings.Repeat("0", 64), Force: true})
	w.await("the refusal of what is not there", isRefused("RetrievePayload", "Unable to download and prepare the update"))
	w.update(configv1.Update{Version: "1.0.2", Image: unsigned, Force: true})
	w.await("the refusal of another version", isRefused("VerifyPayloadVersion", "release image version 1.0.1 does not match the expected upstream version 1.0.2"))
	w.update(configv1.Update{Image: far})
	w.await("the refusal of two minor versions", isRefused("PreconditionChecks", `"MultipleMinorVersionsUpdate"`))
	w.update(configv1.Update{Image: broken})
	cv := w.await("the refusal of what cannot be read", isRefused("LoadPayload", "0000_10_x_1.yaml"))
	if len(cv.Status.History) != 1 || cv.Status.Desired.Version != "1.0.0" || w.note() != "1.0.0" {
		t.Errorf("a release that was not accepted left a trace:\n%s", tell(cv))
	}

	w.expectEvents("RetrievePayloadFailed", "VerifyPayloadVersionFailed", "PreconditionBlock", "LoadPayloadFailed")

	// The same release with force is another wish, and once it is there it is not.
	w.update(configv1.Update{Version: "1.0.1", Image: unsigned})
	w.await("the refusal again", isRefused("RetrievePayload", unsigned+`" failure=The update cannot be verified`))
	for _, force := range []bool{true, false} {
		w.update(configv1.Update{Version: "1.0.1", Image: unsigned, Force: force})
		cv = w.await("the forced update", func(cv *configv1.ClusterVersion) bool {
			return isAt("1.0.1")(cv) && cv.Status.ObservedGeneration == cv.Generation
		})
		if entry := cv.Status.History[0]; len(cv.Status.History) != 2 || entry.Verified || !strings.Contains(entry.AcceptedRisks, "cannot be verified, but continuing anyway because the update was forced") {
			t.Errorf("force %v, the history is:\n%s", force, tell(cv))
		}
	}

	w.change(func(spec *configv1.ClusterVersionSpec) { spec.ClusterID = "none" })
	w.await("the invalid spec", func(cv *configv1.ClusterVersion) bool {
		return conditionOf(cv, "Invalid").Reason == "InvalidClusterVersion" && conditionOf(cv, "Progressing").Message == "Stopped at 1.0.1: the cluster version is invalid"
	})
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.ClusterID = "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11" })
	w.await("the repaired spec", func(cv *configv1.ClusterVersion) bool { return conditionOf(cv, "Invalid").Type == "" })
}

// A version alone is found in what the update service offers; gates and operators stand
// against minor updates until they are seen to.
func TestUpdateService(t *testing.T) {
	w := newWorld(t)
	first := w.content("1.0.0", nil)
	own, next := w.push(first), w.push(w.content("1.1.0", nil))
	w.sign(next)
	w.offer(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q,"metadata":{"io.openshift.upgrades.graph.release.channels":"stable-1.1,fast-1.1"}},{"version":"1.1.0","payload":%q}],"edges":[[0,1]]}`, own, next))
	gates := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: signature.Namespace, Name: "admin-gates"}, Data: map[string]string{"ack-1.0-apis": "APIs are gone."}}
	if err := w.client.Create(t.Context(), gates); err != nil {
		t.Fatal(err)
	}

	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = w.url, "stable-1.1" })
	cv := w.await("the available update", func(cv *configv1.ClusterVersion) bool {
		return isAt("1.0.0")(cv) && len(cv.Status.AvailableUpdates) == 1 && conditionOf(cv, "RetrievedUpdates").Status == metav1.ConditionTrue
	})
	if diff := cmp.Diff([]string{"fast-1.1", "stable-1.1"}, cv.Status.Desired.Channels); diff != "" || cv.Status.AvailableUpdates[0].Image != next {
		t.Errorf("channels (-want +got):\n%s\nupdates: %+v", diff, cv.Status.AvailableUpdates)
	}
	if c := conditionOf(cv, "Upgradeable"); c.Status != metav1.ConditionFalse || c.Message != "APIs are gone." {
		t.Errorf("Upgradeable is %+v", c)
	}

	w.update(configv1.Update{Version: "1.1.0"})
	w.await("the refusal because of the gate", isRefused("PreconditionChecks", "APIs are gone."))

	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "olm"}}
	if err := w.client.Create(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	operator.Status.Conditions = []configv1.ClusterOperatorStatusCondition{
		{Type: configv1.OperatorUpgradeable, Status: metav1.ConditionFalse, Reason: "Old", Message: "Remove foo.", LastTransitionTime: metav1.Now()},
	}
	if err := w.client.Status().Update(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	acks := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "admin-acks"}, Data: map[string]string{"ack-1.0-apis": "true"}}
	if err := w.client.Create(t.Context(), acks); err != nil {
		t.Fatal(err)
	}

	w.await("the refusal because of the operator", isRefused("PreconditionChecks", "Remove foo."))
	if err := w.client.Delete(t.Context(), operator); err != nil {
		t.Fatal(err)
	}

	w.await("the update", isAt("1.1.0"))
}

// An operator that is part of no release image begins with the release that it is told,
// follows the cluster from there, and needs no registry for what it had.
func TestOperatorOutsideOfTheRelease(t *testing.T) {
	w := newWorld(t)
	cache := t.TempDir()
	own, next := w.push(w.content("1.0.0", nil)), w.push(w.content("1.0.1", nil))
	w.sign(next)
	w.run(Options{ReleaseImage: own, CacheDir: cache})
	w.create()
	w.await("the installation", isAt("1.0.0"))
	w.update(configv1.Update{Image: next})
	w.await("the update", isAt("1.0.1"))

	// What an earlier operator reported by another name goes away.
	w.stop()
	cv := w.await("the end of the operator", isAt("1.0.1"))
	cv.Status.Conditions = append(cv.Status.Conditions, configv1.ClusterOperatorStatusCondition{Type: "UpgradeableAdminAckRequired", Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now()})
	if err := w.client.Status().Update(t.Context(), cv); err != nil {
		t.Fatal(err)
	}

	w.run(Options{ReleaseImage: own, CacheDir: cache})
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.DesiredUpdate = nil })
	cv = w.await("the new operator's look", func(cv *configv1.ClusterVersion) bool {
		return cv.Status.ObservedGeneration == cv.Generation && isAt("1.0.1")(cv)
	})
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified || w.note() != "1.0.1" {
		t.Errorf("the cluster went back, with objects of %s:\n%s", w.note(), tell(cv))
	}
	if conditionOf(cv, "UpgradeableAdminAckRequired").Type != "" {
		t.Errorf("a condition that nobody sets any more stays:\n%s", tell(cv))
	}
}

func TestWithoutARelease(t *testing.T) {
	w := newWorld(t)
	w.run(Options{Prometheus: &updates.Prometheus{URL: "http://127.0.0.1:1"}})
	w.create()
	w.await("the complaint", func(cv *configv1.ClusterVersion) bool {
		c := conditionOf(cv, "Failing")
		return c.Status == metav1.ConditionTrue && c.Reason == "NoDesiredImage" && c.Message == "No configured operator version, unable to update cluster"
	})
}
