package unpack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const (
	good     = `{"name":"a","schema":"olm.package"}` + "\n"
	better   = `{"name":"b","schema":"olm.package"}` + "\n"
	unpacked = "Progressing True/Succeeded: Successfully unpacked and stored content from resolved source"
	served   = "Serving True/Available: Serving desired content from resolved source"
	nothing  = "Serving False/Unavailable: No content is stored"
)

func TestAGoodCatalog(t *testing.T) {
	w := newFixture(t)
	resolved := w.pushCatalog("v1", good)
	w.create("v1", 0)
	if result := w.mustReconcile(); result != (ctrl.Result{}) {
		t.Errorf("got result %+v, want no requeue", result)
	}

	w.expect(unpacked, served)
	catalog := w.get()
	wantLabels := map[string]string{"olm.operatorframework.io/metadata.name": w.name, "example.com/support": "true"}
	if diff := cmp.Diff(wantLabels, catalog.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"olm.operatorframework.io/delete-server-cache"}, catalog.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}

	want := olmv1.ClusterCatalogStatus{
		ResolvedSource: &olmv1.ResolvedCatalogSource{Type: "Image", Image: &olmv1.ResolvedImageSource{Ref: resolved}},
		URLs:           &olmv1.ClusterCatalogURLs{Base: "https://catalogd.example/catalogs/" + w.name},
	}
	if diff := cmp.Diff(want, catalog.Status, cmpopts.IgnoreFields(olmv1.ClusterCatalogStatus{}, "Conditions", "LastUnpacked")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if catalog.Spec.AvailabilityMode != olmv1.AvailabilityModeAvailable || len(catalog.Annotations) > 0 {
		t.Errorf("got mode %q and annotations %v, want Available and none", catalog.Spec.AvailabilityMode, catalog.Annotations)
	}
	if catalog.Status.LastUnpacked.IsZero() {
		t.Error("lastUnpacked is not set")
	}
	if got := w.content(); got != good {
		t.Errorf("got content %q, want %q", got, good)
	}

	w.mustReconcile()
	if again := w.get(); again.ResourceVersion != catalog.ResourceVersion {
		t.Error("got a write of the catalog by a second reconciliation, want none")
	}

	w.change(func(c *olmv1.ClusterCatalog) {
		c.Labels["olm.operatorframework.io/metadata.name"] = "x"
		c.Spec.Priority = 1000
	})
	w.mustReconcile()
	w.expect(unpacked, served)
	changed := w.get()
	if diff := cmp.Diff(wantLabels, changed.Labels); diff != "" || changed.Spec.Priority != 1000 {
		t.Errorf("the priority is %d; labels after one was changed (-want +got):\n%s", changed.Spec.Priority, diff)
	}
}

func TestARestartPullsNothing(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 10)
	w.mustReconcile()
	before, requests := w.get(), w.requests.Load()
	w.start()
	metrics.ForgetCatalog(w.name) // A new process starts without metrics.
	result := w.mustReconcile()
	if got := w.metricValue("mainstay_catalog_stored_bytes"); got != float64(len(good)) {
		t.Errorf("got mainstay_catalog_stored_bytes %v, want %d", got, len(good))
	}
	if w.requests.Load() != requests {
		t.Errorf("the registry received %d requests after the restart, want none", w.requests.Load()-requests)
	}
	if diff := cmp.Diff(before, w.get()); diff != "" {
		t.Errorf("the catalog has changed (-before +after):\n%s", diff)
	}
	if w.content() != good {
		t.Errorf("got content %q, want %q", w.content(), good)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > 11*time.Minute {
		t.Errorf("the next poll is in %v, want about 10 minutes", result.RequeueAfter)
	}
}

// metricValue returns the value of a gauge for the catalog, or 0 if it does not exist.
func (w *fixture) metricValue(name string) float64 {
	w.T.Helper()
	metrics.Register()
	families, err := crmetrics.Registry.Gather()
	w.Must(err)

	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == name && label.GetName() == "catalog" && label.GetValue() == w.name {
					return metric.GetGauge().GetValue()
				}
			}
		}
	}

	return 0
}

func TestPolling(t *testing.T) {
	w := newFixture(t)
	first := w.pushCatalog("v1", good)
	w.create("v1", 10)
	// The jitter of up to a tenth and the duration of unpacking are added to the interval.
	result := w.mustReconcile()
	if result.RequeueAfter < 9*time.Minute || result.RequeueAfter > 12*time.Minute {
		t.Errorf("the first poll is in %v, want about 10 minutes", result.RequeueAfter)
	}

	second := w.pushCatalog("v1", better)
	w.mustReconcile()
	if got := w.get().Status.ResolvedSource.Image.Ref; got != first || w.content() != good {
		t.Errorf("before the poll is due: got resolved image %s, want %s", got, first)
	}

	w.clock.SetTime(w.clock.Now().Add(12 * time.Minute))
	w.mustReconcile()
	if got := w.get().Status.ResolvedSource.Image.Ref; got != second || w.content() != better {
		t.Errorf("after the poll: got resolved image %s, want %s", got, second)
	}

	w.expect(unpacked, served)

	// A poll without a new image does not pull.
	w.clock.SetTime(w.clock.Now().Add(24 * time.Minute))
	before, requests, blobs := w.get(), w.requests.Load(), w.blobRequests.Load()
	result = w.mustReconcile()
	if diff := cmp.Diff(before, w.get()); diff != "" {
		t.Errorf("the catalog has changed (-before +after):\n%s", diff)
	}
	if w.requests.Load() == requests || w.blobRequests.Load() != blobs || result.RequeueAfter < 9*time.Minute {
		t.Errorf("got %d requests, %d blob requests and the next poll in %v; want at least one request, no blob request and about 10 minutes", w.requests.Load()-requests, w.blobRequests.Load()-blobs, result.RequeueAfter)
	}

	// The same image is not pulled again by another process either.
	w.start()
	w.clock.SetTime(w.clock.Now().Add(36 * time.Minute))
	w.mustReconcile()
	if w.blobRequests.Load() != blobs {
		t.Errorf("got %d blob requests after a restart, want none", w.blobRequests.Load()-blobs)
	}
}

func TestWithoutPollingAMovedTagIsNotPickedUp(t *testing.T) {
	w := newFixture(t)
	first := w.pushCatalog("v1", good)
	w.create("v1", 0)
	w.mustReconcile()
	w.pushCatalog("v1", better)
	w.clock.SetTime(w.clock.Now().Add(24 * time.Hour))
	w.change(func(c *olmv1.ClusterCatalog) { c.Spec.Priority = 7 })
	w.mustReconcile()
	if got := w.get().Status.ResolvedSource.Image.Ref; got != first || w.content() != good {
		t.Errorf("resolved is %s, want %s", got, first)
	}
	// The same is true if the store is lost and the registry does not respond at first.
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}

	w.start()
	w.down.Store(true)
	if _, err := w.reconcile(); err == nil {
		t.Error("got no error while the registry does not respond, want one")
	}

	w.expect("Progressing True/Retrying: ", nothing)
	w.down.Store(false)
	w.mustReconcile()
	if got := w.get().Status.ResolvedSource.Image.Ref; got != first || w.content() != good {
		t.Errorf("after the store was lost: resolved is %s, want %s", got, first)
	}

	// Another reference is resolved.
	second := w.pushCatalog("v2", better)
	w.change(func(c *olmv1.ClusterCatalog) { c.Spec.Source.Image.Ref = w.ref("v2") })
	w.mustReconcile()
	if got := w.get().Status.ResolvedSource.Image.Ref; got != second || w.content() != better {
		t.Errorf("with another reference: resolved is %s, want %s", got, second)
	}
}

// TestANewLeaderPicksUpNoMovedTag tests a new leader that has stored the image of the previous leader or an earlier
// one.
func TestANewLeaderPicksUpNoMovedTag(t *testing.T) {
	for name, test := range map[string]struct {
		behind, requested bool
		poll              int32
		moves             bool
	}{
		"as decided":   {},
		"behind":       {behind: true},
		"with polling": {poll: 10, moves: true},
		"on request":   {requested: true, moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			earlier := w.pushCatalog("v0", `{"name":"c","schema":"olm.package"}`+"\n")
			decided := w.pushCatalog("v1", good)
			w.create("v1", test.poll)
			w.mustReconcile()
			moved := w.pushCatalog("v1", better)

			// The new leader has its own disk.
			w.dir = t.TempDir()
			w.start()
			followed := catalogstore.Source{Resolved: decided}
			if test.behind {
				followed.Resolved = earlier
			}
			if _, err := w.reconciler.Fetcher.Fetch(t.Context(), w.name, followed); err != nil {
				t.Fatal(err)
			}

			if test.requested {
				w.change(func(c *olmv1.ClusterCatalog) {
					c.Annotations = map[string]string{olmv1.AnnotationRefresh: time.Now().Add(time.Hour).Format(time.RFC3339Nano)}
				})
			}

			requests := w.requests.Load()
			if test.behind {
				// The image is still known if the registry does not respond at first.
				w.down.Store(true)
				if _, err := w.reconcile(); err == nil {
					t.Error("got no error while the registry does not respond, want one")
				}
				w.down.Store(false)
			}

			w.mustReconcile()
			want, content := decided, good
			if test.moves {
				want, content = moved, better
			}
			if got := w.get().Status.ResolvedSource.Image.Ref; got != want || w.content() != content {
				t.Errorf("resolved is %s with the content %q, want %s", got, w.content(), want)
			}
			if n := w.requests.Load() - requests; !test.behind && !test.moves && n != 0 {
				t.Errorf("the registry received %d requests, want none", n)
			}

			// It continues like the previous leader.
			requests = w.requests.Load()
			w.mustReconcile()
			if n := w.requests.Load() - requests; n != 0 {
				t.Errorf("the registry received %d more requests, want none", n)
			}
		})
	}
}

func TestBadImages(t *testing.T) {
	labels := map[string]string{labelConfigs: "/configs"}
	for name, test := range map[string]struct {
		labels map[string]string
		files  []file
		want   string
	}{
		"no label":       {nil, []file{{path: "configs/a.json", text: good}}, "it is not a catalog: the label operators.operatorframework.io.index.configs.v1, which specifies the directory of the catalog, is missing"},
		"sqlite":         {map[string]string{"operators.operatorframework.io.index.database.v1": "/database/index.db"}, []file{{path: "database/index.db", text: "x"}}, "it contains a SQLite catalog"},
		"no folder":      {labels, []file{{path: "other/a.json", text: good}}, "it has no directory /configs"},
		"broken json":    {labels, []file{{path: "configs/a.json", text: good + "{\"schema\" 1}"}}, "configs/a.json: document 2 (line 2, byte 46): is not valid JSON: invalid character '1' after object key"},
		"broken yaml":    {labels, []file{{path: "configs/a.yaml", text: "schema: a\n---\nschema: [\n"}}, "a.yaml: document 2 (line 3, byte 14): cannot be parsed as YAML"},
		"no schema":      {labels, []file{{path: "configs/a.json", text: "{}"}}, "a.json: document 1 (line 1, byte 0): missing root schema field"},
		"traversal":      {labels, []file{{path: "configs/../../a.json", text: good}}, "configs/../../a.json"},
		"link out":       {labels, []file{{path: "configs/a.json", text: good}, {path: "configs/b.json", link: "/etc/passwd"}}, "configs/b.json"},
		"file too large": {labels, []file{{path: "configs/a.json", text: good + strings.Repeat(" ", 1<<20)}}, "configs/a.json"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			push := func() { w.push("v1", test.labels, test.files...) }
			want := "Progressing False/Blocked: " + strings.TrimPrefix(test.want, "configs/")

			// Without polling, the controller waits for a change of the catalog.
			push()
			w.create("v1", 0)
			if _, err := w.reconcile(); !errors.Is(err, ctrlreconcile.TerminalError(nil)) {
				t.Errorf("got error %v, want a terminal error", err)
			}

			w.expect(want, nothing)
			golden.Check(t, "bad-images/"+strings.ReplaceAll(name, " ", "-")+".txt", []byte(w.conditions()))
			if status := w.get().Status; status.URLs != nil || status.ResolvedSource != nil || status.LastUnpacked != nil {
				t.Errorf("got status %+v, want no URLs, resolved source and unpack time", status)
			}

			// With polling, the tag is resolved again, but the invalid image is not pulled again.
			w.change(func(c *olmv1.ClusterCatalog) { c.Spec.Source.Image.PollIntervalMinutes = ptr.To(int32(10)) })
			requests := w.requests.Load()
			if result := w.mustReconcile(); result.RequeueAfter < 9*time.Minute || result.RequeueAfter > 11*time.Minute {
				t.Errorf("got the next poll in %v, want about 10 minutes", result.RequeueAfter)
			}

			w.expect(want, nothing)
			if n := w.requests.Load() - requests; n > 2 {
				t.Errorf("the registry received %d requests, want at most 2 that resolve the digest", n)
			}

			w.pushCatalog("v1", better)
			w.mustReconcile()
			w.expect(unpacked, served)

			// The previous content is still served if the tag moves to an invalid image.
			push()
			w.clock.SetTime(w.clock.Now().Add(12 * time.Minute))
			w.mustReconcile()
			w.expect(want, served)
			if status := w.get().Status; status.URLs == nil || status.ResolvedSource == nil || w.content() != better {
				t.Errorf("got status %+v with the content %q, want the last valid content", status, w.content())
			}
			if scratch, _ := os.ReadDir(filepath.Join(w.dir, ".scratch")); len(scratch) > 0 {
				t.Errorf("the scratch folder contains %v, want nothing", scratch)
			}
		})
	}
}

func TestACatalogOverTheLimitIsBlocked(t *testing.T) {
	w := newFixture(t)
	w.limits = catalogstore.Limits{Walk: fbc.Limits{BlobBytes: 20}}
	w.start()
	w.pushCatalog("v1", good)
	w.create("v1", 0)
	if _, err := w.reconcile(); err == nil {
		t.Error("got no error, want one")
	}

	w.expect("Progressing False/Blocked: p/catalog.json: document 1 (line 1, byte 0): is larger than 20 bytes", nothing)
}

func TestAFailingRegistryIsRetried(t *testing.T) {
	w := newFixture(t)
	w.create("v1", 10)
	if _, err := w.reconcile(); err == nil || errors.Is(err, ctrlreconcile.TerminalError(nil)) {
		t.Errorf("got error %v, want one that is retried", err)
	}

	w.expect("Progressing True/Retrying: check the name and the tag", nothing)

	w.pushCatalog("v1", good)
	w.mustReconcile()
	w.expect(unpacked, served)

	w.down.Store(true)
	w.clock.SetTime(w.clock.Now().Add(12 * time.Minute))
	if _, err := w.reconcile(); err == nil {
		t.Error("got no error while the registry does not respond, want one")
	}

	w.expect("Progressing True/Retrying: resolve image", served)
	w.down.Store(false)
	w.mustReconcile()
	w.expect(unpacked, served)
}

func TestUnavailable(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 10)
	w.mustReconcile()
	w.change(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeUnavailable })
	for range 2 {
		if result := w.mustReconcile(); result != (ctrl.Result{}) {
			t.Errorf("result is %+v, want no polling", result)
		}

		const message = "Catalog availability mode is set to Unavailable"
		w.expect("Progressing True/Succeeded: "+message, "Serving False/UserSpecifiedUnavailable: "+message)
		catalog := w.get()
		if status := catalog.Status; status.URLs != nil || status.ResolvedSource != nil || status.LastUnpacked != nil {
			t.Errorf("got status %+v, want no URLs, resolved source and unpack time", status)
		}
		if len(catalog.Finalizers) > 0 {
			t.Errorf("finalizers are %v, want none", catalog.Finalizers)
		}
		if w.content() != "" || w.store.Serves(w.name) {
			t.Error("got served content, want none")
		}
	}

	w.change(func(c *olmv1.ClusterCatalog) { c.Spec.AvailabilityMode = olmv1.AvailabilityModeAvailable })
	w.mustReconcile()
	w.expect(unpacked, served)
	if catalog := w.get(); len(catalog.Finalizers) != 1 || w.content() != good {
		t.Errorf("got finalizers %v with the content %q, want one finalizer and %q", catalog.Finalizers, w.content(), good)
	}
}

func TestDeletionRemovesTheContent(t *testing.T) {
	w := newFixture(t)
	w.pushCatalog("v1", good)
	w.create("v1", 0)
	w.mustReconcile()
	if err := w.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}

	w.mustReconcile()
	if err := w.Get(t.Context(), client.ObjectKey{Name: w.name}, &olmv1.ClusterCatalog{}); !apierrors.IsNotFound(err) {
		t.Errorf("getting the catalog: got error %v, want NotFound", err)
	}
	if w.store.Serves(w.name) {
		t.Error("got served content, want none")
	}
	if names := w.store.Names(); len(names) > 0 {
		t.Errorf("the store contains %v, want nothing", names)
	}

	w.mustReconcile() // The catalog does not exist anymore.
}

func TestALostStoreIsFilledAgain(t *testing.T) {
	for name, damage := range map[string]func(dir, file string) error{
		"deleted":   func(dir, _ string) error { return os.RemoveAll(dir) },
		"truncated": func(_, file string) error { return os.Truncate(file, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.pushCatalog("v1", good)
			w.create("v1", 10)
			w.mustReconcile()
			var woken []string
			w.store.OnLost(func(name string) { woken = append(woken, name) })
			info, err := w.store.Stored(w.name)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(w.dir, filepath.Join(w.dir, "content", info.Sum)); err != nil {
				t.Fatal(err)
			}

			w.store.Check()
			if diff := cmp.Diff([]string{w.name}, woken); diff != "" {
				t.Errorf("enqueued catalogs (-want +got):\n%s", diff)
			}

			w.mustReconcile()
			w.expect(unpacked, served)
			if w.content() != good {
				t.Errorf("got content %q, want %q", w.content(), good)
			}
		})
	}
}
