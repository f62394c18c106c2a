package cluster

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/updateservice"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
)

// metadata is the file of a release that can be updated to from other versions.
func metadata(version string, previous ...string) map[string]string {
	return map[string]string{"release-metadata": fmt.Sprintf(
		`{"kind":"cincinnati-metadata-v0","version":%q,"previous":["%s"],"metadata":{"url":"https://example.com/%s"}}`, version, strings.Join(previous, `","`), version)}
}

// operated is the content of a release with its operator, a part that an update waits for,
// and an object of a later runlevel.
func (w *world) operated(version string) fstest.MapFS {
	note := fmt.Sprintf(included, "")
	more := waiting(version)
	more["0000_80_nodes_01_late.yaml"] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: late, namespace: openshift-cluster-version, " + note + "}, data: {version: '" + version + "'}}"
	files := w.content(version, more)
	files["manifests/0000_00_cvo_02_deployment.yaml"] = &fstest.MapFile{Data: []byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: cluster-version-operator, namespace: openshift-cluster-version, ` + note + `},
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: operator, image: '{{.ReleaseImage}}'}]}}}}`)}
	return files
}

// An update, step by step: a version is asked for and found in the graph, its release is
// verified, retrieved, validated, judged and recorded. Then the operator replaces itself, and
// its successor waits for a part of the cluster before it goes on to the last runlevel.
func TestTheOperatorReplacesItself(t *testing.T) {
	w := newWorld(t)
	first, second := w.operated("1.0.0"), w.operated("1.0.1")
	own, next := w.push(first), w.push(second)
	w.sign(next)
	w.offer(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q},{"version":"1.0.1","payload":%q}],"edges":[[0,1]]}`, own, next))
	t.Cleanup(func() {
		_ = w.client.Delete(context.Background(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-cluster-version", Name: "cluster-version-operator"}})
	})
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	w.report("1.0.0")
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = w.url, "stable" })
	w.await("the available update", func(cv *configv1.ClusterVersion) bool {
		return isAt("1.0.0")(cv) && len(cv.Status.AvailableUpdates) == 1
	})
	if got := w.deployed(t.Context()); got != own {
		t.Errorf("the operator is that of %s, not of %s", got, own)
	}

	w.update(configv1.Update{Version: "1.0.1"})
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) { return w.deployed(ctx) == next, nil }); err != nil {
		t.Fatalf("the operator does not replace itself: %v", err)
	}

	cv := w.await("the record", func(cv *configv1.ClusterVersion) bool { return cv.Status.Desired.Image == next })
	if entry := cv.Status.History[0]; entry.State != configv1.PartialUpdate || entry.Version != "1.0.1" || !entry.Verified || entry.AcceptedRisks != "" {
		t.Errorf("the history is:\n%s", tell(cv))
	}

	w.run(Options{ReleaseImage: next, Payload: second})
	w.await("the successor's wait for a part", func(cv *configv1.ClusterVersion) bool {
		return strings.HasSuffix(conditionOf(cv, "Progressing").Message, "waiting on part") && cv.Status.ObservedGeneration == cv.Generation
	})
	if got := w.versionIn("late"); got != "1.0.0" {
		t.Errorf("the last runlevel is at %s while an earlier one is awaited", got)
	}

	w.report("1.0.1")
	w.await("the update", isAt("1.0.1"))
	if got := w.versionIn("late"); got != "1.0.1" {
		t.Errorf("the last runlevel is at %s", got)
	}

	want, steps := []string{"RetrievePayload", "LoadPayload", "PreconditionsPassed", "PayloadLoaded"}, []string(nil)
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		steps = w.judged(ctx, next)
		return len(steps) >= len(want), nil // Events are written beside everything else.
	})
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("%v: steps, -want +got:\n%s", err, diff)
	}
}

// deployed is the release whose operator the cluster is to run.
func (w *world) deployed(ctx context.Context) string {
	w.t.Helper()
	var deployment appsv1.Deployment
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: "openshift-cluster-version", Name: "cluster-version-operator"}, &deployment); err != nil {
		w.t.Fatal(err)
	}
	return deployment.Spec.Template.Spec.Containers[0].Image
}

// judged returns the steps that the first judgement of a release took, from its events.
func (w *world) judged(ctx context.Context, ref string) []string {
	w.t.Helper()
	var list eventsv1.EventList
	if err := w.client.List(ctx, &list, client.InNamespace("openshift-cluster-version")); err != nil {
		w.t.Fatal(err)
	}

	about := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return !strings.Contains(e.Note, fmt.Sprintf("image=%q", ref)) })
	slices.SortFunc(about, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var steps []string
	for _, event := range about {
		if !slices.Contains(steps, event.Reason) {
			steps = append(steps, event.Reason)
		}
	}

	return steps
}

// A site without a network: its releases were copied to a registry of its own, signatures came
// as ConfigMaps, and an update service of its own offers what is there.
func TestDisconnected(t *testing.T) {
	w := newWorld(t)
	first, second := w.content("1.0.0", nil), w.content("1.0.1", metadata("1.0.1", "1.0.0"))
	own, next := w.push(first), w.push(second)
	w.sign(next)
	_, site := newRegistry(t)
	target := releaseimage.Target{Repository: site + "/platform/release"}
	images := image.NewClient(image.Options{})
	for _, ref := range []string{own, next} {
		opened, err := releaseimage.Open(t.Context(), images, ref)
		if err != nil {
			t.Fatal(err)
		}

		plan := releaseimage.NewPlan(opened)
		_ = opened.Close()
		if err := target.Copy(t.Context(), func(_, _ string) *image.Client { return images }, plan, nil); err != nil {
			t.Fatal(err)
		}
	}

	w.images.Close()

	service, err := updateservice.New(updateservice.Options{Releases: target.Repository, DataFolder: writeFolder(t, map[string]string{
		"version": "1.1.0\n", "channels/stable.yaml": "name: stable\nversions: [1.0.0, 1.0.1]\n",
	})})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}

	graphs := httptest.NewServer(service.Handler())
	defer graphs.Close()
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	w.change(func(spec *configv1.ClusterVersionSpec) {
		spec.Upstream, spec.Channel = graphs.URL+"/api/upgrades_info/graph", "stable"
	})
	w.await("the available update", func(cv *configv1.ClusterVersion) bool {
		return isAt("1.0.0")(cv) && len(cv.Status.AvailableUpdates) == 1
	})
	w.update(configv1.Update{Version: "1.0.1"})
	cv := w.await("the update", isAt("1.0.1"))
	if entry := cv.Status.History[0]; !entry.Verified || entry.AcceptedRisks != "" || !strings.HasPrefix(entry.Image, site+"/") {
		t.Errorf("the history is:\n%s", tell(cv))
	}
}

// A cluster moves to the release of its own version that is for several architectures.
func TestMoveToMulti(t *testing.T) {
	w := newWorld(t)
	first := w.content("1.0.0", nil)
	own, twin := w.push(first), w.push(w.content("1.0.0", map[string]string{
		"release-metadata": `{"kind":"cincinnati-metadata-v0","version":"1.0.0","metadata":{"url":"https://example.com/1.0.0","release.openshift.io/architecture":"multi"}}`,
	}))
	w.sign(twin)
	w.offer(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q,"metadata":{"release.openshift.io/architecture":"multi"}}],"edges":[]}`, twin))
	w.run(Options{ReleaseImage: own, Payload: first})
	w.create()
	w.change(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = w.url, "stable" })
	w.await("the installation", isAt("1.0.0"))
	w.update(configv1.Update{Version: "1.0.0", Architecture: configv1.ClusterVersionArchitectureMulti})
	cv := w.await("the move", func(cv *configv1.ClusterVersion) bool { return isAt("1.0.0")(cv) && cv.Status.Desired.Image == twin })
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified || cv.Status.Desired.Architecture != configv1.ClusterVersionArchitectureMulti {
		t.Errorf("at %+v, after:\n%s", cv.Status.Desired, tell(cv))
	}
	if c := conditionOf(cv, "ReleaseAccepted"); !strings.HasSuffix(c.Message, `architecture="Multi"`) {
		t.Errorf("ReleaseAccepted is %+v", c)
	}
}

// writeFolder makes a folder with files.
func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// versionIn is the version that a ConfigMap of the release names.
func (w *world) versionIn(name string) string {
	w.t.Helper()
	var object corev1.ConfigMap
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "openshift-cluster-version", Name: name}, &object); err != nil {
		w.t.Fatal(err)
	}
	return object.Data["version"]
}
