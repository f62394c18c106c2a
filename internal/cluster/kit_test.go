package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/registry"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// patience bounds every wait of a test: what has not happened by then never will.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(env.Run(m))
}

// world is a cluster, a registry, an update service, and somebody who signs releases.
type world struct {
	t        *testing.T
	client   client.Client
	registry string
	images   *httptest.Server
	signer   *signature.Signer
	keyring  string
	// graph is what the update service answers.
	mu    sync.Mutex
	graph string
	url   string
	stop  func()
	// log is where the operator logs; the zero value logs nothing.
	log logr.Logger
	// as is who the operator acts as; empty for an administrator.
	as string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, client: env.Client(t, clientgoscheme.AddToScheme, configv1.AddToScheme), graph: `{"nodes":[],"edges":[]}`}
	w.images, w.registry = newRegistry(t)
	updates := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		w.mu.Lock()
		defer w.mu.Unlock()
		answer.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(answer, w.graph)
	}))

	t.Cleanup(updates.Close)
	w.url = updates.URL
	w.makeKey()
	for _, name := range []string{signature.Namespace, "openshift-config", "openshift-cluster-version"} {
		err := w.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}

	t.Cleanup(w.clean)
	return w
}

// newRegistry returns one, and its name.
func newRegistry(t *testing.T) (*httptest.Server, string) {
	t.Helper()
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	return images, strings.TrimPrefix(images.URL, "http://")
}

// clean removes what a test leaves, so that the next one begins with none.
func (w *world) clean() {
	if w.stop != nil {
		w.stop()
	}

	ctx := context.Background()
	for _, object := range []client.Object{
		&configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: signature.Namespace, Name: "admin-gates"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "admin-acks"}},
	} {
		if err := w.client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			w.t.Errorf("cleaning up: %v", err)
		}
	}

	// No garbage collector runs that would remove what the ClusterVersion owned.
	for _, namespace := range []string{signature.Namespace, "openshift-cluster-version"} {
		if err := w.client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(namespace)); err != nil {
			w.t.Errorf("cleaning up: %v", err)
		}
	}

	if err := w.client.DeleteAllOf(ctx, &configv1.ClusterOperator{}); err != nil {
		w.t.Errorf("cleaning up: %v", err)
	}
}

func (w *world) makeKey() {
	w.t.Helper()
	entity, err := openpgp.NewEntity("releases", "", "releases@example.com", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		w.t.Fatal(err)
	}

	var public, private bytes.Buffer
	if err := entity.Serialize(&public); err != nil {
		w.t.Fatal(err)
	}
	if err := entity.SerializePrivate(&private, nil); err != nil {
		w.t.Fatal(err)
	}
	if w.signer, err = signature.ParseSigner(private.Bytes(), nil); err != nil {
		w.t.Fatal(err)
	}

	w.keyring = public.String()
}

// offer is what the update service answers from now on.
func (w *world) offer(graph string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.graph = graph
}

const included = `annotations: {include.release.openshift.io/self-managed-high-availability: "true"%s}`

// content is the payload of a release: the keys that it trusts, a ConfigMap that names its
// version, and what more is given as files with manifests.
func (w *world) content(version string, more map[string]string) fstest.MapFS {
	note := fmt.Sprintf(included, "")
	keys := fmt.Sprintf(included, `, release.openshift.io/verification-config-map: ""`)
	files := fstest.MapFS{
		"manifests/0000_00_cvo_00_note.yaml": {Data: []byte(
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: note, namespace: openshift-cluster-version, " + note + "}, data: {version: '" + version + "'}}")},
		"manifests/0000_00_cvo_01_keys.yaml": {Data: []byte(
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: keys, namespace: openshift-cluster-version, " + keys + "}, data: {store-none: '" + w.url + "/store'}, binaryData: {verifier-public-key-releases: '" + base64.StdEncoding.EncodeToString([]byte(w.keyring)) + "'}}")},
		"release-manifests/release-metadata": {Data: []byte(`{"kind":"cincinnati-metadata-v0","version":"` + version + `","metadata":{"url":"https://example.com/` + version + `"}}`)},
		"release-manifests/image-references": {Data: []byte(`{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"` + version + `","creationTimestamp":"2030-01-02T03:04:05Z"}}`)},
	}

	for name, text := range more {
		files["release-manifests/"+name] = &fstest.MapFile{Data: []byte(text)}
	}

	return files
}

// push makes a release image, and gives its pull spec by digest.
func (w *world) push(files fs.FS) string {
	w.t.Helper()
	built, err := image.Build(image.Spec{Layers: []image.Layer{{Tree: files}}})
	if err != nil {
		w.t.Fatal(err)
	}

	ref := w.registry + "/release"
	digest, err := image.NewClient(image.Options{}).Push(w.t.Context(), ref+":latest", nil, built)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, of, ok := strings.Cut(digest, "@"); ok {
		digest = of
	}

	return ref + "@" + digest
}

// sign puts a signature of a release into the cluster.
func (w *world) sign(ref string) {
	w.t.Helper()
	digest, err := signature.ParseDigest(signature.DigestOf(ref))
	if err != nil {
		w.t.Fatal(err)
	}

	statement, err := w.signer.Sign(digest, signature.SignOptions{Reference: "registry.example.com/release:1", Time: time.Now()})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Create(w.t.Context(), signature.ConfigMapOf(digest, [][]byte{statement})); err != nil {
		w.t.Fatal(err)
	}
}

// run starts an operator, in place of one that runs.
func (w *world) run(o Options) {
	w.t.Helper()
	if w.stop != nil {
		w.stop()
	}

	connection := env.Start(w.t)
	connection.Impersonate.UserName = w.as
	mgr, err := ctrl.NewManager(connection, ctrl.Options{
		Logger: w.log,
		Scheme: env.Scheme(w.t, clientgoscheme.AddToScheme, configv1.AddToScheme), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if o.CacheDir == "" {
		o.CacheDir = w.t.TempDir()
	}

	images := image.NewClient(image.Options{})
	o.Images = func(context.Context) (*image.Client, error) { return images, nil }
	o.Namespace, o.Program = "openshift-cluster-version", "v1.2.3"
	if err := Setup(mgr, o); err != nil {
		w.t.Fatal(err)
	}

	w.stop = env.Manage(w.t, mgr)
}

// create makes the ClusterVersion.
func (w *world) create() {
	w.t.Helper()
	cv := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}, Spec: configv1.ClusterVersionSpec{ClusterID: "3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11"}}
	if err := w.client.Create(w.t.Context(), cv); err != nil {
		w.t.Fatal(err)
	}
}

// change changes the spec.
func (w *world) change(how func(*configv1.ClusterVersionSpec)) {
	w.t.Helper()
	cv := &configv1.ClusterVersion{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "version"}, cv); err != nil {
		w.t.Fatal(err)
	}

	before := cv.DeepCopy()
	how(&cv.Spec)
	if err := w.client.Patch(w.t.Context(), cv, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) update(u configv1.Update) {
	w.t.Helper()
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.DesiredUpdate = &u })
}

// await waits for a state of the ClusterVersion, and gives it.
func (w *world) await(what string, is func(*configv1.ClusterVersion) bool) *configv1.ClusterVersion {
	w.t.Helper()
	cv := &configv1.ClusterVersion{}
	err := wait.PollUntilContextTimeout(w.t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		if err := w.client.Get(ctx, client.ObjectKey{Name: "version"}, cv); err != nil {
			return false, err
		}
		return is(cv), nil
	})
	if err != nil {
		w.t.Fatalf("%s never happened (%v):\n%s", what, err, tell(cv))
	}

	return cv
}

// tell tells of a ClusterVersion in lines.
func tell(cv *configv1.ClusterVersion) string {
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

func conditionOf(cv *configv1.ClusterVersion, kind string) configv1.ClusterOperatorStatusCondition {
	for _, c := range cv.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return configv1.ClusterOperatorStatusCondition{}
}

// isAt reports whether a cluster is at a version, and nothing is left to do.
func isAt(version string) func(*configv1.ClusterVersion) bool {
	return func(cv *configv1.ClusterVersion) bool {
		return cv.Status.Desired.Version == version && len(cv.Status.History) > 0 && cv.Status.History[0].State == configv1.CompletedUpdate &&
			cv.Status.History[0].Version == version && conditionOf(cv, "Progressing").Message == "Cluster version is "+version
	}
}

// isRefused reports whether the wanted release is not accepted for a reason.
func isRefused(reason, text string) func(*configv1.ClusterVersion) bool {
	return func(cv *configv1.ClusterVersion) bool {
		accepted := conditionOf(cv, "ReleaseAccepted")
		return accepted.Status == metav1.ConditionFalse && accepted.Reason == reason && strings.Contains(accepted.Message, text)
	}
}

// note is the version that the objects of the release name.
func (w *world) note() string {
	w.t.Helper()
	return w.versionIn("note")
}
