package acceptance

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

const image = "registry.example/release@sha256:4a1f"

// newReleaseFiles returns the files of a release. Each additional argument is a manifest of the
// operator.
func newReleaseFiles(version string, own ...string) fstest.MapFS {
	files := fstest.MapFS{
		"release-manifests/release-metadata": {Data: []byte(`{"kind":"cincinnati-metadata-v0","version":"` + version + `","metadata":{"url":"https://example.com/` + version + `"}}`)},
		"release-manifests/image-references": {Data: []byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"` + version + `"}}`)},
		"manifests/0000_00_a_readme.txt":     {},
	}
	for i, text := range own {
		files["manifests/0000_00_cvo_0"+string(rune('0'+i))+".yaml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func deploymentManifest(name, command string) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ` + name + `, namespace: ns, annotations: {include.release.openshift.io/self-managed-high-availability: "true"}},
spec: {template: {spec: {containers: [{name: c, args: [run, ` + command + `]}]}}}}`
}

type fakeRetriever struct {
	files      fs.FS
	err        error
	retrievals int
}

func (r *fakeRetriever) Retrieve(context.Context, configv1.Release) (fs.FS, error) {
	r.retrievals++
	return r.files, r.err
}

type fakeVerifier struct{ err error }

func (v fakeVerifier) Verify(context.Context, string) error { return v.err }

// newClusterVersion returns a ClusterVersion at 1.2.3 that may be updated to 1.2.4.
func newClusterVersion() *configv1.ClusterVersion {
	return &configv1.ClusterVersion{Status: configv1.ClusterVersionStatus{
		Desired:          configv1.Release{Version: "1.2.3", Image: "registry.example/release@sha256:0000"},
		AvailableUpdates: []configv1.Release{{Version: "1.2.4", Image: image}},
	}}
}

func noEtcd(context.Context) (*configv1.ClusterOperator, error) { return nil, nil }

func TestAccept(t *testing.T) {
	unsigned := fakeVerifier{errors.New("unable to verify")}
	newUpdateRequest := func(version string, force bool, v Verifier) Request {
		return Request{Target: configv1.Release{Version: version, Image: image}, Force: force, Verifier: v, Architecture: "amd64"}
	}
	away := func(cv *configv1.ClusterVersion) { cv.Status.AvailableUpdates = nil }
	cases := map[string]struct {
		files   fs.FS
		away    error
		request Request
		change  func(*configv1.ClusterVersion)
		// reason is the reason of the failure. It is empty if the release is accepted.
		reason, text string
		risks        []string
		events       string
	}{
		"good": {
			files: newReleaseFiles("1.2.4"), request: newUpdateRequest("1.2.4", false, fakeVerifier{}),
			events: "RetrievePayload LoadPayload PreconditionsPassed PayloadLoaded",
		},
		"without a version": {
			files: newReleaseFiles("1.2.4"), request: newUpdateRequest("", false, fakeVerifier{}),
			events: "RetrievePayload LoadPayload PreconditionsPassed PayloadLoaded",
		},
		"unsigned": {
			files: newReleaseFiles("1.2.4"), request: newUpdateRequest("1.2.4", false, unsigned), reason: ReasonRetrieve,
			text:   `Retrieving payload failed version="1.2.4" image="` + image + `" failure=The update cannot be verified: unable to verify`,
			events: "RetrievePayload !RetrievePayloadFailed",
		},
		"unsigned and forced": {
			files: newReleaseFiles("1.2.4"), request: newUpdateRequest("1.2.4", true, unsigned),
			risks:  []string{`Target release version="1.2.4" image="` + image + `" cannot be verified, but continuing anyway because the update was forced: unable to verify`},
			events: "RetrievePayload !RetrievePayload LoadPayload PreconditionsPassed PayloadLoaded",
		},
		"not retrieved": {
			away: errors.New("manifest unknown"), request: newUpdateRequest("1.2.4", false, fakeVerifier{}), reason: ReasonRetrieve,
			text:   "failure=Unable to download and prepare the update: manifest unknown",
			events: "RetrievePayload !RetrievePayloadFailed",
		},
		"no payload": {
			files: fstest.MapFS{}, request: newUpdateRequest("1.2.4", false, fakeVerifier{}), reason: ReasonLoad, text: "Loading payload failed version=",
			events: "RetrievePayload LoadPayload !LoadPayloadFailed",
		},
		"a manifest that does not parse": {
			files: newReleaseFiles("1.2.4", "{"), request: newUpdateRequest("1.2.4", false, fakeVerifier{}), reason: ReasonLoad, text: "0000_00_cvo_00.yaml",
			events: "RetrievePayload LoadPayload !LoadPayloadFailed",
		},
		"another version": {
			files: newReleaseFiles("1.2.5"), request: newUpdateRequest("1.2.4", false, fakeVerifier{}), reason: ReasonVersion,
			text:   "release image version 1.2.5 does not match the expected upstream version 1.2.4",
			events: "RetrievePayload LoadPayload !VerifyPayloadVersionFailed",
		},
		"two operators": {
			files:   newReleaseFiles("1.2.4", deploymentManifest("cluster-version-operator", "x"), deploymentManifest("other", "cluster-version-operator")),
			request: newUpdateRequest("1.2.4", false, fakeVerifier{}), reason: ReasonLoad, text: "the release has 2 Deployments of cluster-version-operator",
			events: "RetrievePayload LoadPayload !LoadPayloadFailed",
		},
		"one operator": {
			files: newReleaseFiles("1.2.4", deploymentManifest("cluster-version-operator", "x"), deploymentManifest("other", "else")), request: newUpdateRequest("1.2.4", false, fakeVerifier{}),
			events: "RetrievePayload LoadPayload PreconditionsPassed PayloadLoaded",
		},
		"a precondition blocks it": {
			files: newReleaseFiles("1.4.0"), request: newUpdateRequest("1.4.0", false, fakeVerifier{}), reason: ReasonPreconditions,
			text:   `Preconditions failed for payload loaded version="1.4.0" image="` + image + `": Multiple precondition checks failed:`,
			events: "RetrievePayload LoadPayload !PreconditionBlock",
		},
		"a precondition, and forced": {
			files: newReleaseFiles("1.4.0"), request: newUpdateRequest("1.4.0", true, fakeVerifier{}),
			risks:  []string{"Forced through blocking failures: Multiple precondition checks failed:"},
			events: "RetrievePayload LoadPayload !PreconditionWarn PayloadLoaded",
		},
		"not recommended": {
			files: newReleaseFiles("1.2.4"), request: newUpdateRequest("1.2.4", false, fakeVerifier{}), change: away,
			risks:  []string{`Precondition "ClusterVersionRecommendedUpdate" failed because of "NoChannel"`},
			events: "RetrievePayload LoadPayload !PreconditionWarn PayloadLoaded",
		},
		"accepted before": {
			files:   newReleaseFiles("1.4.0"),
			request: Request{Target: configv1.Release{Version: "1.4.0", Image: image}, Verifier: unsigned, AlreadyAccepted: true},
			events:  "RetrievePayload LoadPayload PayloadLoaded",
		},
		"the program's own": {
			files:   newReleaseFiles("1.4.0"),
			request: Request{Target: configv1.Release{Version: "1.4.0", Image: image}, Verifier: unsigned, IsOwnRelease: true},
			events:  "RetrievePayload LoadPayload PayloadLoaded",
		},
		"accepted risks": {
			files: newReleaseFiles("1.2.4"), request: newUpdateRequest("1.2.4", false, fakeVerifier{}),
			change: func(cv *configv1.ClusterVersion) {
				risk := func(name string, applies metav1.ConditionStatus) configv1.ConditionalUpdateRisk {
					return configv1.ConditionalUpdateRisk{Name: name, Conditions: []metav1.Condition{{Type: "Applies", Status: applies}}}
				}
				cv.Spec.DesiredUpdate = &configv1.Update{AcceptRisks: []configv1.AcceptRisk{{Name: "Slow"}, {Name: "Loud"}, {Name: "Absent"}}}
				cv.Status.ConditionalUpdates = []configv1.ConditionalUpdate{{
					Release:    configv1.Release{Version: "1.2.4", Image: image},
					Risks:      []configv1.ConditionalUpdateRisk{risk("Slow", "True"), risk("Absent", "False"), risk("Loud", "True")},
					Conditions: []metav1.Condition{{Type: "Recommended", Status: "True", Reason: "AllExposedRisksAccepted"}},
				}}
			},
			risks:  []string{"The target release " + image + " is exposed to the risks [Loud,Slow] which were all explicitly accepted by the cluster administrator."},
			events: "RetrievePayload LoadPayload PreconditionsPassed PayloadLoaded",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cv := newClusterVersion()
			if c.change != nil {
				c.change(cv)
			}
			var events []string
			judge := &Judge{
				Retriever:      &fakeRetriever{files: c.files, err: c.away},
				ClusterVersion: func(context.Context) (*configv1.ClusterVersion, error) { return cv, nil },
				Etcd:           noEtcd,
				RecordStep: func(_ configv1.Release, reason string, warning bool, _ string) {
					if warning {
						reason = "!" + reason
					}
					events = append(events, reason)
				},
			}
			accepted, err := judge.Accept(t.Context(), c.request)
			if got := strings.Join(events, " "); got != c.events {
				t.Errorf("got events %q, want %q", got, c.events)
			}
			failure := (*Failure)(nil)
			if c.reason != "" {
				if !errors.As(err, &failure) || failure.Reason != c.reason || !strings.Contains(failure.Message, c.text) {
					t.Errorf("got error %v, want %s with %q", err, c.reason, c.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if accepted.Release.Image != image || accepted.Release.Version == "" || accepted.Release.URL == "" {
				t.Errorf("got release %+v, want image %s with a version and a URL", accepted.Release, image)
			}
			if c.request.Verifier != unsigned && !c.request.IsOwnRelease != accepted.Verified {
				t.Errorf("got verified %v, want %v", accepted.Verified, !c.request.IsOwnRelease)
			}
			for _, risk := range c.risks {
				if !strings.Contains(accepted.Risks, risk) {
					t.Errorf("got accepted risks %q, want them to contain %q", accepted.Risks, risk)
				}
			}
			if len(c.risks) == 0 && accepted.Risks != "" {
				t.Errorf("got accepted risks %q, want none", accepted.Risks)
			}
		})
	}
}

func TestUnreadableClusterVersion(t *testing.T) {
	judge := &Judge{
		Retriever:      &fakeRetriever{files: newReleaseFiles("1.2.4")},
		ClusterVersion: func(context.Context) (*configv1.ClusterVersion, error) { return nil, errors.New("away") },
		Etcd:           noEtcd, RecordStep: func(configv1.Release, string, bool, string) {},
	}
	_, err := judge.Accept(t.Context(), Request{Target: configv1.Release{Image: image}, Verifier: fakeVerifier{}})
	if err == nil || !strings.Contains(err.Error(), `"UnknownError"`) {
		t.Errorf("got error %v, want UnknownError", err)
	}
}

// Verification and retrieval have four minutes together, of which verification has two.
func TestBudget(t *testing.T) {
	hangs := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		verifier func(context.Context) error
		force    bool
		want     time.Duration
		cause    string
	}{
		"verification hangs":    {hangs, false, 2 * time.Minute, "ImageVerificationFailed"},
		"both hang, and forced": {hangs, true, 4 * time.Minute, "UpdatePayloadRetrievalFailed"},
		"retrieval hangs":       {func(context.Context) error { return nil }, false, 4 * time.Minute, "UpdatePayloadRetrievalFailed"},
		"verification is slow":  {func(context.Context) error { time.Sleep(time.Minute); return nil }, false, 4 * time.Minute, "UpdatePayloadRetrievalFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				judge := &Judge{Retriever: blockingFunc(hangs), Etcd: noEtcd, RecordStep: func(configv1.Release, string, bool, string) {}}
				began := time.Now()
				_, err := judge.Accept(t.Context(), Request{Target: configv1.Release{Image: image}, Force: c.force, Verifier: blockingFunc(c.verifier)})
				failure := (*Failure)(nil)
				if !errors.As(err, &failure) || failure.Reason != ReasonRetrieve || failure.Cause != c.cause || time.Since(began) != c.want {
					t.Errorf("got failure %+v after %s, want %s with %s after %s", failure, time.Since(began), ReasonRetrieve, c.cause, c.want)
				}
			})
		})
	}
}

// blockingFunc is a Verifier and Retriever that calls a function, which can block.
type blockingFunc func(context.Context) error

func (h blockingFunc) Verify(ctx context.Context, _ string) error { return h(ctx) }

func (h blockingFunc) Retrieve(ctx context.Context, _ configv1.Release) (fs.FS, error) {
	return nil, h(ctx)
}

// The cause of the failure and the details of the verification are reported.
func TestDetailsOfVerification(t *testing.T) {
	var messages []string
	judge := &Judge{
		Retriever: &fakeRetriever{}, RecordStep: func(_ configv1.Release, _ string, _ bool, message string) { messages = append(messages, message) },
		DescribeError: func(err error) string { return err.Error() + " in full" },
	}
	_, err := judge.Accept(t.Context(), Request{Target: configv1.Release{Image: image}, Verifier: fakeVerifier{errors.New("bad")}})
	failure := (*Failure)(nil)
	if !errors.As(err, &failure) || failure.Cause != "ImageVerificationFailed" || strings.Contains(failure.Message, "in full") {
		t.Errorf("got failure %+v, want ImageVerificationFailed without details", failure)
	}
	if last := messages[len(messages)-1]; !strings.HasSuffix(last, "The update cannot be verified: bad in full") {
		t.Errorf("got event %q, want the details of the verification", last)
	}
}

func TestLoadedMessage(t *testing.T) {
	got := []string{
		LoadedMessage(configv1.Release{Version: "1.0.0", Image: "a"}, "arm64"),
		LoadedMessage(configv1.Release{Version: "1.0.0", Image: "a", Architecture: "Multi"}, "arm64"),
	}
	want := []string{`Payload loaded version="1.0.0" image="a" architecture="arm64"`, `Payload loaded version="1.0.0" image="a" architecture="Multi"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestIgnoredOperators(t *testing.T) {
	parse := func(own ...string) *release.Payload {
		p, err := release.Load(newReleaseFiles("1.0.0", own...), release.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}

	cvo := deploymentManifest("cluster-version-operator", "x")
	foreign := strings.Replace(deploymentManifest("other", "cluster-version-operator"), "self-managed-high-availability", "hosted", 1)
	tombstone := strings.Replace(deploymentManifest("old", "cluster-version-operator"), "annotations: {", `annotations: {release.openshift.io/delete: "true", `, 1)
	service := strings.Replace(cvo, "Deployment", "StatefulSet", 1)
	for name, p := range map[string]*release.Payload{
		"none": parse(), "of another profile": parse(cvo, foreign), "a tombstone": parse(cvo, tombstone), "another kind": parse(cvo, service), "the same twice": parse(cvo, cvo),
	} {
		if err := CheckOperators(p, release.Cluster{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
