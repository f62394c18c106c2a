package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/fetch"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture is the environment of a catalog: an API server, a registry, a store and a clock.
type fixture struct {
	*env.Fixture
	clock      *testclock.FakePassiveClock
	dir        string
	store      *catalogstore.Store
	limits     catalogstore.Limits
	reconciler *Reconciler

	// host is the host of the registry. requests counts all of its requests, and blobRequests those for
	// blobs of images.
	host                   string
	requests, blobRequests atomic.Int32
	down                   atomic.Bool
	// images are the limits of images.
	images image.Limits
	// override can handle requests instead of the registry. It reports whether it has done so.
	override atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]

	name string
	// rejection is the message of the last rejected image.
	rejection string
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{
		Fixture: env.NewFixture(t, olmv1.AddToScheme), dir: t.TempDir(),
		clock: testclock.NewFakePassiveClock(time.Now()), images: image.Limits{FileBytes: 1 << 20},
		name: strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ",", "").Replace(t.Name())),
	}
	content := ociregistry.NewHandler()
	w.host = ociregistry.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			w.blobRequests.Add(1)
		}
		if answer := w.override.Load(); answer != nil && (*answer)(rw, r) {
			return
		}
		if w.down.Load() {
			http.Error(rw, "down", http.StatusInternalServerError)
			return
		}

		content.ServeHTTP(rw, r)
	})).Host
	w.start()
	t.Cleanup(func() {
		w.store.Close()
		catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: w.name}}
		// t.Context has ended.
		ctx := context.Background()
		if err := w.Delete(ctx, catalog); apierrors.IsNotFound(err) {
			return
		}

		patch := client.RawPatch(ctrlPatchType, []byte(`{"metadata":{"finalizers":null}}`))
		_ = w.Patch(ctx, catalog, patch) // The catalog may already be deleted.
	})

	return w
}

const ctrlPatchType = "application/merge-patch+json"

// start simulates a restart of the program with the existing disk.
func (w *fixture) start() {
	w.T.Helper()
	if w.store != nil {
		w.store.Close()
	}

	var err error
	if w.store, err = catalogstore.Open(w.dir, w.limits); err != nil {
		w.T.Fatal(err)
	}

	images := image.NewClient(image.Options{Limits: w.images})
	w.reconciler = &Reconciler{
		Client: w.Client, Store: w.store, Fetcher: fetch.New(images, w.store), Resolver: images,
		Retrievals: &pull.Retrievals[catalogstore.Info]{},
		BaseURL:    func(name string) string { return "https://catalogd.example/catalogs/" + name },
		Clock:      w.clock,
	}
}

// file is one entry of an image.
type file struct{ path, text, link string }

const labelConfigs = "operators.operatorframework.io.index.configs.v1"

// push pushes an image to a tag and returns its digest reference.
func (w *fixture) push(tag string, labels map[string]string, files ...file) string {
	w.T.Helper()
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for _, f := range files {
		header := &tar.Header{Name: f.path, Mode: 0o644, Size: int64(len(f.text)), Typeflag: tar.TypeReg}
		if f.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		w.Must(tw.WriteHeader(header))
		if _, err := io.WriteString(tw, f.text); err != nil {
			w.T.Fatal(err)
		}
	}

	w.Must(tw.Close())

	return w.pushLayer(tag, labels, "application/vnd.oci.image.layer.v1.tar", archive.Bytes())
}

// pushLayer pushes an image of one layer to a tag and returns its digest reference.
func (w *fixture) pushLayer(tag string, labels map[string]string, layerType string, layer []byte) string {
	w.T.Helper()
	config, err := json.Marshal(map[string]any{"os": "linux", "architecture": runtime.GOARCH, "config": map[string]any{"Labels": labels}})
	w.Must(err)
	return w.pushManifest(tag, typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest,
		"config": w.blob("application/vnd.oci.image.config.v1+json", config),
		"layers": []any{w.blob(layerType, layer)},
	})
}

func (w *fixture) pushManifest(tag, mediaType string, content any) string {
	w.T.Helper()
	manifest, err := json.Marshal(content)
	w.Must(err)
	w.send(http.MethodPut, "manifests/"+tag, mediaType, manifest)
	return w.host + "/test/catalog@" + digest(manifest)
}

const typeManifest = "application/vnd.oci.image.manifest.v1+json"

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// blob uploads a blob of an image and returns its descriptor.
func (w *fixture) blob(mediaType string, data []byte) map[string]any {
	w.T.Helper()
	w.send(http.MethodPost, "blobs/uploads/?digest="+digest(data), "application/octet-stream", data)
	return map[string]any{"mediaType": mediaType, "digest": digest(data), "size": len(data)}
}

func (w *fixture) send(method, path, contentType string, data []byte) {
	w.T.Helper()
	req, err := http.NewRequestWithContext(w.T.Context(), method, "http://"+w.host+"/v2/test/catalog/"+path, bytes.NewReader(data))
	w.Must(err)

	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	w.Must(err)

	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		w.T.Fatalf("%s %s: %s", method, path, resp.Status)
	}
}

// pushCatalog pushes a valid catalog.
func (w *fixture) pushCatalog(tag, text string) string {
	w.T.Helper()
	return w.push(tag, map[string]string{labelConfigs: "/configs"}, file{path: "configs/p/catalog.json", text: text})
}

func (w *fixture) ref(tag string) string { return w.host + "/test/catalog:" + tag }

// create creates a ClusterCatalog for a tag. Zero minutes disable polling.
func (w *fixture) create(tag string, pollMinutes int32) {
	w.T.Helper()
	catalog := &olmv1.ClusterCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: map[string]string{"example.com/support": "true"}},
		Spec: olmv1.ClusterCatalogSpec{Source: olmv1.CatalogSource{
			Type: olmv1.SourceTypeImage, Image: &olmv1.ImageSource{Ref: w.ref(tag)},
		}},
	}
	if pollMinutes > 0 {
		catalog.Spec.Source.Image.PollIntervalMinutes = ptr.To(pollMinutes)
	}
	w.Must(w.Create(w.T.Context(), catalog))
}

// change changes the catalog.
func (w *fixture) change(f func(*olmv1.ClusterCatalog)) {
	w.T.Helper()
	catalog := w.get()
	w.PatchObject(catalog, func() { f(catalog) })
}

func (w *fixture) get() *olmv1.ClusterCatalog {
	w.T.Helper()
	catalog := &olmv1.ClusterCatalog{}
	w.Must(w.Get(w.T.Context(), client.ObjectKey{Name: w.name}, catalog))
	return catalog
}

// reconcile reconciles until no retrieval is pending, and returns the last result.
func (w *fixture) reconcile() (ctrl.Result, error) {
	w.T.Helper()
	return reconcileToEnd(w.T.Context(), w.reconciler, w.name)
}

// reconcileToEnd reconciles like the controller: once, and again after the retrieval that it has started.
func reconcileToEnd(ctx context.Context, r *Reconciler, name string) (ctrl.Result, error) {
	ended := make(chan struct{}, 1)
	r.Retrievals.OnEnd(func(string) {
		select {
		case ended <- struct{}{}:
		default:
		}
	})

	for {
		result, err := r.newObjectReconciler().Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		if r.Retrievals.IsPending(name) {
			select {
			case <-ended:
			case <-ctx.Done():
				return result, ctx.Err()
			}
			continue
		}
		select {
		case <-ended:
		default:
			return result, err
		}
	}
}

// mustReconcile reconciles and fails the test if there is an error.
func (w *fixture) mustReconcile() ctrl.Result {
	w.T.Helper()
	result, err := w.reconcile()
	w.Must(err)
	return result
}

// content returns the served content.
func (w *fixture) content() string {
	w.T.Helper()
	content, err := w.store.Content(w.name)
	if errors.Is(err, catalogstore.ErrNotFound) {
		return ""
	}
	w.Must(err)
	defer content.Close()
	text, err := io.ReadAll(content.All().Reader())
	w.Must(err)

	return string(text)
}

// expect compares the conditions, given as "Type Status/Reason: message". A message may
// be a part.
func (w *fixture) expect(want ...string) {
	w.T.Helper()
	catalog := w.get()
	if len(catalog.Status.Conditions) != len(want) {
		w.T.Fatalf("there are %d conditions, want %d: %+v", len(catalog.Status.Conditions), len(want), catalog.Status.Conditions)
	}

	for i, c := range catalog.Status.Conditions {
		head, message, _ := strings.Cut(want[i], ": ")
		if got := fmt.Sprintf("%s %s/%s", c.Type, c.Status, c.Reason); got != head || !strings.Contains(c.Message, message) {
			w.T.Errorf("condition is %s: %s\nwant         %s", got, c.Message, want[i])
		}
		if c.ObservedGeneration != catalog.Generation || c.LastTransitionTime.IsZero() {
			w.T.Errorf("condition %s is of generation %d at %v, want generation %d", c.Type, c.ObservedGeneration, c.LastTransitionTime, catalog.Generation)
		}
	}
}

var digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// conditions returns the conditions of the catalog as text, without values that differ between runs.
func (w *fixture) conditions() string {
	w.T.Helper()
	var text strings.Builder
	for _, c := range w.get().Status.Conditions {
		message := digests.ReplaceAllString(strings.ReplaceAll(c.Message, w.host, "registry.example"), "sha256:<digest>")
		fmt.Fprintf(&text, "%s %s %s\n  %s\n", c.Type, c.Status, c.Reason, message)
	}
	return text.String()
}
