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

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/updateservice"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/releaseimage"
	"github.com/mainstay-dev/mainstay/internal/testing/ociregistry"
)

// metadata returns the metadata file of a release that other versions can be updated to.
func metadata(version string, previous ...string) map[string]string {
	return map[string]string{"release-metadata": fmt.Sprintf(
		`{"kind":"cincinnati-metadata-v0","version":%q,"previous":["%s"],"metadata":{"url":"https://example.com/%s"}}`, version, strings.Join(previous, `","`), version)}
}

// newOperatorReleaseFiles returns the files of a release with its operator, a ClusterOperator
// that an update waits for, and an object of a later runlevel.
func (f *fixture) newOperatorReleaseFiles(version string) fstest.MapFS {
	note := fmt.Sprintf(included, "")
	more := operatorManifest(version)
	more["0000_80_nodes_01_late.yaml"] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: late, namespace: openshift-cluster-version, " + note + "}, data: {version: '" + version + "'}}"
	files := f.newReleaseFiles(version, more)
	files["manifests/0000_00_cvo_02_deployment.yaml"] = &fstest.MapFile{Data: []byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: cluster-version-operator, namespace: openshift-cluster-version, ` + note + `},
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: operator, image: '{{.ReleaseImage}}'}]}}}}`)}
	return files
}

// A requested version is found in the graph, and its release is verified, retrieved, validated,
// accepted and recorded. Then the operator replaces itself, and its successor waits for a
// ClusterOperator before it applies the last runlevel.
func TestOperatorReplacesItself(t *testing.T) {
	f := newFixture(t)
	first, second := f.newOperatorReleaseFiles("1.0.0"), f.newOperatorReleaseFiles("1.0.1")
	own, next := f.pushRelease(first), f.pushRelease(second)
	f.signRelease(next)
	f.setGraph(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q},{"version":"1.0.1","payload":%q}],"edges":[[0,1]]}`, own, next))
	t.Cleanup(func() {
		_ = f.Delete(context.Background(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-cluster-version", Name: "cluster-version-operator"}})
	})
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	f.reportOperator("1.0.0")
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = f.url, "stable" })
	f.waitForVersion("the available update", func(cv *configv1.ClusterVersion) bool {
		return isComplete("1.0.0")(cv) && len(cv.Status.AvailableUpdates) == 1
	})
	if got := f.deployedRelease(t.Context()); got != own {
		t.Errorf("got the operator of release %s, want %s", got, own)
	}

	f.requestUpdate(configv1.Update{Version: "1.0.1"})
	f.EventuallyTrue("the operator replaces itself", func() bool { return f.deployedRelease(t.Context()) == next }, nil)

	cv := f.waitForVersion("the recorded update", func(cv *configv1.ClusterVersion) bool { return cv.Status.Desired.Image == next })
	if entry := cv.Status.History[0]; entry.State != configv1.PartialUpdate || entry.Version != "1.0.1" || !entry.Verified || entry.AcceptedRisks != "" {
		t.Errorf("got the history\n%s\nwant a partial, verified update to 1.0.1 without risks", describeVersion(cv))
	}

	f.startOperator(Options{ReleaseImage: next, Payload: second})
	f.waitForVersion("the successor waits for a ClusterOperator", func(cv *configv1.ClusterVersion) bool {
		return strings.HasSuffix(getCondition(cv, "Progressing").Message, "waiting on part") && cv.Status.ObservedGeneration == cv.Generation
	})
	if got := f.versionIn("late"); got != "1.0.0" {
		t.Errorf("got version %s of the last runlevel while the update waits for an earlier one, want 1.0.0", got)
	}

	f.reportOperator("1.0.1")
	f.waitForVersion("the update", isComplete("1.0.1"))
	if got := f.versionIn("late"); got != "1.0.1" {
		t.Errorf("got version %s of the last runlevel, want 1.0.1", got)
	}

	want, steps := []string{"RetrievePayload", "LoadPayload", "PreconditionsPassed", "PayloadLoaded"}, []string(nil)
	f.EventuallyTrue("the events of all steps exist", func() bool {
		steps = f.acceptanceSteps(t.Context(), next)
		return len(steps) >= len(want)
	}, func() string { return fmt.Sprintf("got %v", steps) })
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// deployedRelease returns the release image of the operator's Deployment.
func (f *fixture) deployedRelease(ctx context.Context) string {
	f.T.Helper()
	var deployment appsv1.Deployment
	f.Must(f.Get(ctx, client.ObjectKey{Namespace: "openshift-cluster-version", Name: "cluster-version-operator"}, &deployment))
	return deployment.Spec.Template.Spec.Containers[0].Image
}

// acceptanceSteps returns the steps of the first acceptance of a release, from its events.
func (f *fixture) acceptanceSteps(ctx context.Context, ref string) []string {
	f.T.Helper()
	var list eventsv1.EventList
	f.Must(f.List(ctx, &list, client.InNamespace("openshift-cluster-version")))

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

// In a disconnected cluster, releases come from a mirror registry, signatures from ConfigMaps,
// and the graph from a local update service.
func TestDisconnected(t *testing.T) {
	f := newFixture(t)
	first, second := f.newReleaseFiles("1.0.0", nil), f.newReleaseFiles("1.0.1", metadata("1.0.1", "1.0.0"))
	own, next := f.pushRelease(first), f.pushRelease(second)
	f.signRelease(next)
	site := ociregistry.Start(t).Host
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

	f.registry.Close()

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
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) {
		spec.Upstream, spec.Channel = graphs.URL+"/api/upgrades_info/graph", "stable"
	})
	f.waitForVersion("the available update", func(cv *configv1.ClusterVersion) bool {
		return isComplete("1.0.0")(cv) && len(cv.Status.AvailableUpdates) == 1
	})
	f.requestUpdate(configv1.Update{Version: "1.0.1"})
	cv := f.waitForVersion("the update", isComplete("1.0.1"))
	if entry := cv.Status.History[0]; !entry.Verified || entry.AcceptedRisks != "" || !strings.HasPrefix(entry.Image, site+"/") {
		t.Errorf("got the history\n%s\nwant a verified update from the mirror without risks", describeVersion(cv))
	}
}

// A cluster moves to the multi-architecture release of its version.
func TestMoveToMulti(t *testing.T) {
	f := newFixture(t)
	first := f.newReleaseFiles("1.0.0", nil)
	own, twin := f.pushRelease(first), f.pushRelease(f.newReleaseFiles("1.0.0", map[string]string{
		"release-metadata": `{"kind":"cincinnati-metadata-v0","version":"1.0.0","metadata":{"url":"https://example.com/1.0.0","release.openshift.io/architecture":"multi"}}`,
	}))
	f.signRelease(twin)
	f.setGraph(fmt.Sprintf(`{"nodes":[{"version":"1.0.0","payload":%q,"metadata":{"release.openshift.io/architecture":"multi"}}],"edges":[]}`, twin))
	f.startOperator(Options{ReleaseImage: own, Payload: first})
	f.createClusterVersion()
	f.patchSpec(func(spec *configv1.ClusterVersionSpec) { spec.Upstream, spec.Channel = f.url, "stable" })
	f.waitForVersion("the installation", isComplete("1.0.0"))
	f.requestUpdate(configv1.Update{Version: "1.0.0", Architecture: configv1.ClusterVersionArchitectureMulti})
	cv := f.waitForVersion("the move", func(cv *configv1.ClusterVersion) bool {
		return isComplete("1.0.0")(cv) && cv.Status.Desired.Image == twin
	})
	if len(cv.Status.History) != 2 || !cv.Status.History[0].Verified || cv.Status.Desired.Architecture != configv1.ClusterVersionArchitectureMulti {
		t.Errorf("got the desired release %+v and the history\n%s\nwant the verified multi-architecture release", cv.Status.Desired, describeVersion(cv))
	}
	if c := getCondition(cv, "ReleaseAccepted"); !strings.HasSuffix(c.Message, `architecture="Multi"`) {
		t.Errorf("got condition ReleaseAccepted %+v, want the architecture Multi", c)
	}
}

// writeFolder creates a directory with files.
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

// versionIn returns the version in a ConfigMap of the release.
func (f *fixture) versionIn(name string) string {
	f.T.Helper()
	var object corev1.ConfigMap
	f.Must(f.Get(f.T.Context(), client.ObjectKey{Namespace: "openshift-cluster-version", Name: name}, &object))
	return object.Data["version"]
}
