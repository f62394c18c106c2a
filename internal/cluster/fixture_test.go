package cluster

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
	"github.com/mainstay-dev/mainstay/internal/testing/signingkey"
)

func TestMain(m *testing.M) {
	os.Exit(env.RunAndCheckRights(m, env.ShippedRights{
		Files:   []string{"config/cluster-version-operator/role.yaml"},
		Account: func(string) string { return operatorUser },
		Unused:  unusedRights,
	}))
}

const (
	// operatorNamespace is the namespace of the operator.
	operatorNamespace = "openshift-cluster-version"
	// operatorUser is the user name of its service account.
	operatorUser = "system:serviceaccount:" + operatorNamespace + ":" + Name
)

// Situations that the tests of this package do not have.
const (
	inFirstStart = "the program starts in a cluster without the kinds of Mainstay, see package run"
	inJobs       = "releases are retrieved by Jobs, see package retrieval"
	inMetrics    = "a monitoring stack reads the metrics, see package run"
	inMirrors    = "the program pulls from mirrors, see package pull"
	inPlatform   = "the platform has the kinds FeatureGate and Proxy, see package version"
)

// unusedRights are the rights that the tests of this package need not use, each with the situation in which the operator
// uses it.
var unusedRights = map[string]string{
	"cluster-version-operator-role: create customresourcedefinitions.apiextensions.k8s.io":  inFirstStart,
	"cluster-version-operator-role: create jobs.batch":                                      inJobs,
	"cluster-version-operator-role: delete jobs.batch":                                      inJobs,
	"cluster-version-operator-role: get jobs.batch":                                         inJobs,
	"cluster-version-operator-role: list jobs.batch":                                        inJobs,
	"cluster-version-operator-role: list pods":                                              inJobs,
	"cluster-version-operator-role: create subjectaccessreviews.authorization.k8s.io":       inMetrics,
	"cluster-version-operator-role: create tokenreviews.authentication.k8s.io":              inMetrics,
	"cluster-version-operator-role: get featuregates.config.openshift.io":                   inPlatform,
	"cluster-version-operator-role: get proxies.config.openshift.io":                        inPlatform,
	"cluster-version-operator-role: list imagecontentsourcepolicies.operator.openshift.io":  inMirrors,
	"cluster-version-operator-role: list imagedigestmirrorsets.config.openshift.io":         inMirrors,
	"cluster-version-operator-role: list imagetagmirrorsets.config.openshift.io":            inMirrors,
	"cluster-version-operator-role: watch imagecontentsourcepolicies.operator.openshift.io": inMirrors,
	"cluster-version-operator-role: watch imagedigestmirrorsets.config.openshift.io":        inMirrors,
	"cluster-version-operator-role: watch imagetagmirrorsets.config.openshift.io":           inMirrors,
	"cluster-version-operator-role: get secrets":                                            "the service account of the program names a pull secret, see package pull",
	"cluster-version-operator-role: patch events.events.k8s.io":                             "an event repeats",
	"cluster-version-operator-role: patch clusterversions.config.openshift.io":              "updates are automatic, see package version",
}

// fixture holds a cluster, a registry, an update service and a signing key.
type fixture struct {
	*env.Fixture
	registry *ociregistry.Server
	signer   *signature.Signer
	keyring  string
	// graph is the response of the update service.
	mu sync.Mutex
	// graph is the response of the update service.
	graph string
	url   string
	stop  func()
	// log is the logger of the operator. The zero value discards logs.
	log logr.Logger
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, clientgoscheme.AddToScheme, configv1.AddToScheme), graph: `{"nodes":[],"edges":[]}`}
	f.registry = ociregistry.Start(t)
	updates := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		answer.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(answer, f.graph)
	}))

	t.Cleanup(updates.Close)
	f.url = updates.URL
	f.createSigningKey()
	for _, file := range []string{"namespaces", "service_account", "role", "rbac", "cluster_admin"} {
		f.CreateConfig("cluster-version-operator/" + file + ".yaml")
	}
	f.waitForAuthorizer(true)

	t.Cleanup(f.cleanUp)
	return f
}

// waitForAuthorizer waits until the authorizer of the API server allows the operator everything, or no longer does.
func (f *fixture) waitForAuthorizer(isAdmin bool) {
	f.T.Helper()
	f.Eventually("the authorizer applies the change", func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: operatorUser, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		}}
		if err := f.Create(f.T.Context(), review); err != nil {
			return err
		}
		if review.Status.Allowed != isAdmin {
			return fmt.Errorf("every right: got %t, want %t", review.Status.Allowed, isAdmin)
		}
		return nil
	})
}

// cleanUp removes the objects of a test.
func (f *fixture) cleanUp() {
	if f.stop != nil {
		f.stop()
	}

	ctx := context.Background()
	for _, object := range []client.Object{
		&configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: signature.Namespace, Name: "admin-gates"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "admin-acks"}},
	} {
		if err := f.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			f.T.Errorf("cleaning up: %v", err)
		}
	}

	// No garbage collector removes the objects that the ClusterVersion owns.
	for _, namespace := range []string{signature.Namespace, "openshift-cluster-version"} {
		for _, kind := range []client.Object{&corev1.ConfigMap{}, &appsv1.Deployment{}} {
			if err := f.DeleteAllOf(ctx, kind, client.InNamespace(namespace)); err != nil {
				f.T.Errorf("cleaning up: %v", err)
			}
		}
	}

	if err := f.DeleteAllOf(ctx, &configv1.ClusterOperator{}); err != nil {
		f.T.Errorf("cleaning up: %v", err)
	}
}

func (f *fixture) createSigningKey() {
	f.T.Helper()
	key := signingkey.NewEdDSA(f.T, "releases")
	signer, err := signature.ParseSigner(key.Private, nil)
	f.Must(err)
	f.signer, f.keyring = signer, string(key.Public)
}

// setGraph sets the response of the update service.
func (f *fixture) setGraph(graph string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.graph = graph
}

const included = `annotations: {include.release.openshift.io/self-managed-high-availability: "true"%s}`

// newReleaseFiles returns the files of a release: its trusted keys, a ConfigMap with its
// version, and additional manifests by file name.
func (f *fixture) newReleaseFiles(version string, more map[string]string) fstest.MapFS {
	note := fmt.Sprintf(included, "")
	keys := fmt.Sprintf(included, `, release.openshift.io/verification-config-map: ""`)
	files := fstest.MapFS{
		"manifests/0000_00_cvo_00_note.yaml": {Data: []byte(
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: note, namespace: openshift-cluster-version, " + note + "}, data: {version: '" + version + "'}}")},
		"manifests/0000_00_cvo_01_keys.yaml": {Data: []byte(
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: keys, namespace: openshift-cluster-version, " + keys + "}, data: {store-none: '" + f.url + "/store'}, binaryData: {verifier-public-key-releases: '" + base64.StdEncoding.EncodeToString([]byte(f.keyring)) + "'}}")},
		"release-manifests/release-metadata": {Data: []byte(`{"kind":"cincinnati-metadata-v0","version":"` + version + `","metadata":{"url":"https://example.com/` + version + `"}}`)},
		"release-manifests/image-references": {Data: []byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"` + version + `","creationTimestamp":"2030-01-02T03:04:05Z"}}`)},
	}

	for name, text := range more {
		files["release-manifests/"+name] = &fstest.MapFile{Data: []byte(text)}
	}

	return files
}

// pushRelease pushes a release image and returns its pull spec by digest.
func (f *fixture) pushRelease(files fs.FS) string {
	f.T.Helper()
	return ociregistry.Push(f.T, f.registry.Host+"/release:latest", image.Spec{Layers: []image.Layer{{Tree: files}}})
}

// signRelease stores a signature of a release in the cluster.
func (f *fixture) signRelease(ref string) {
	f.T.Helper()
	digest, err := signature.ParseDigest(signature.DigestOf(ref))
	f.Must(err)

	statement, err := f.signer.Sign(digest, signature.SignOptions{Reference: "registry.example.com/release:1", Time: time.Now()})
	f.Must(err)
	f.Must(f.Create(f.T.Context(), signature.ConfigMapOf(digest, [][]byte{statement})))
}

// startOperator starts an operator after it stopped the running one.
func (f *fixture) startOperator(o Options) {
	f.T.Helper()
	if f.stop != nil {
		f.stop()
	}
	_, f.stop = f.StartManager(f.newManager(o))
}

// startReplica starts an operator that runs alone, or as one of several with the same lease.
func (f *fixture) startReplica(o Options, lease string) *env.Replica {
	f.T.Helper()
	return f.StartReplica(f.newManager(o), lease)
}

// newManager returns the manager of an operator.
func (f *fixture) newManager(o Options) env.Manager {
	f.T.Helper()
	if o.CacheDir == "" {
		o.CacheDir = f.T.TempDir()
	}

	images := image.NewClient(image.Options{})
	o.Images = func(context.Context) (*image.Client, error) { return images, nil }
	o.Namespace, o.Program = operatorNamespace, "v1.2.3"
	return env.Manager{
		Connect: func(connection *rest.Config) { *connection = *env.ConnectAs(f.T, operatorNamespace, Name) },
		Options: ctrl.Options{
			Logger:                  f.log,
			LeaderElectionNamespace: operatorNamespace,
			Client:                  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		},
		Setup: func(mgr ctrl.Manager) error { return Setup(mgr, o) },
	}
}

// createClusterVersion creates the ClusterVersion.
func (f *fixture) createClusterVersion() {
	f.T.Helper()
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}, Spec: configv1.ClusterVersionSpec{ClusterID: "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11"}}
	f.Must(f.Create(f.T.Context(), cv))
}

// patchSpec patches the spec of the ClusterVersion.
func (f *fixture) patchSpec(how func(*configv1.ClusterVersionSpec)) {
	f.T.Helper()
	cv := &configv1.ClusterVersion{}
	f.Must(f.Get(f.T.Context(), client.ObjectKey{Name: "version"}, cv))

	f.PatchObject(cv, func() { how(&cv.Spec) })
}

func (f *fixture) requestUpdate(u configv1.Update) {
	f.T.Helper()
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.DesiredUpdate = &u })
}

// waitForVersion waits until the ClusterVersion meets a condition, and returns it.
func (f *fixture) waitForVersion(what string, is func(*configv1.ClusterVersion) bool) *configv1.ClusterVersion {
	f.T.Helper()
	cv := &configv1.ClusterVersion{}
	f.EventuallyTrue(what, func() bool {
		f.Must(f.Get(f.T.Context(), client.ObjectKey{Name: "version"}, cv))
		return is(cv)
	}, func() string { return describeVersion(cv) })

	return cv
}

// describeVersion returns the status of a ClusterVersion as text.
func describeVersion(cv *configv1.ClusterVersion) string {
	var out strings.Builder
	fmt.Fprintf(&out, "desired %s %s\n", cv.Status.Desired.Version, cv.Status.Desired.Image)
	for _, entry := range cv.Status.History {
		fmt.Fprintf(&out, "history %s %s verified=%v risks=%q\n", entry.State, entry.Version, entry.Verified, entry.AcceptedRisks)
	}

	for _, c := range cv.Status.Conditions {
		fmt.Fprintf(&out, "%s=%s [%s] %s\n", c.Type, c.Status, c.Reason, c.Message)
	}

	return out.String()
}

func getCondition(cv *configv1.ClusterVersion, kind string) configv1.ClusterOperatorStatusCondition {
	for _, c := range cv.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return configv1.ClusterOperatorStatusCondition{}
}

// isComplete returns a condition that is met if the cluster has completed the update to a
// version.
func isComplete(version string) func(*configv1.ClusterVersion) bool {
	return func(cv *configv1.ClusterVersion) bool {
		return cv.Status.Desired.Version == version && len(cv.Status.History) > 0 && cv.Status.History[0].State == configv1.CompletedUpdate &&
			cv.Status.History[0].Version == version && getCondition(cv, "Progressing").Message == "Cluster version is "+version
	}
}

// isRejected returns a condition that is met if the requested release is rejected with a reason
// and text.
func isRejected(reason, text string) func(*configv1.ClusterVersion) bool {
	return func(cv *configv1.ClusterVersion) bool {
		accepted := getCondition(cv, "ReleaseAccepted")
		return accepted.Status == metav1.ConditionFalse && accepted.Reason == reason && strings.Contains(accepted.Message, text)
	}
}

// noteVersion returns the version in the ConfigMap of the release.
func (f *fixture) noteVersion() string {
	f.T.Helper()
	return f.versionIn("note")
}
