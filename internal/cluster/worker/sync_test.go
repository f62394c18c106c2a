package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// These are manifests of payloads. NAME is replaced.
const (
	namespaceText = "apiVersion: v1\nkind: Namespace\nmetadata: {included, name: NAME}\n"
	configMapText = "apiVersion: v1\nkind: ConfigMap\nmetadata: {included, name: NAME, namespace: NAME}\ndata: {a: release}\n"
	operatorText  = "apiVersion: config.openshift.io/v1\nkind: ClusterOperator\nmetadata: {included, name: NAME}\nspec: {}\nstatus:\n  versions: [{name: operator, version: 1.0.0}]\n  relatedObjects: [{group: \"\", resource: namespaces, name: NAME}]\n"
	workloadText  = `
apiVersion: apps/v1
kind: Deployment
metadata: {included, name: NAME, namespace: NAME, labels: {from: release}}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers: [{name: a, image: "example.com/a:v1"}]
`
)

func withName(text, name string) string { return strings.ReplaceAll(text, "NAME", name) }

func withNamespace(name string, files map[string]string) map[string]string {
	result := map[string]string{"0000_01_" + name + "_00_namespace": withName(namespaceText, name)}
	for file, text := range files {
		result[file] = withName(text, name)
	}
	return result
}

// updateObject edits an object like a user.
func updateObject(t testing.TB, c client.Client, u *unstructured.Unstructured, edit func()) {
	t.Helper()
	edit()
	if err := c.Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}

func setNestedField(t testing.TB, u *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

func TestDriftHeals(t *testing.T) {
	name := uniqueName("drift")
	c := newRecordingClient(t)
	w := newWorker(c)
	w.Update(work(loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": configMapText, "0000_10_a_02": workloadText})), release.Initializing))
	startWorker(t, w)
	waitForStatus(t, w, "initialized", completed(1))

	config := getObject(t, c, "v1", "ConfigMap", name, name)
	updateObject(t, c.Client, config, func() {
		setNestedField(t, config, "somebody", "data", "a")
		setNestedField(t, config, "more", "data", "b")
		config.SetLabels(map[string]string{"mine": "yes"})
	})
	deployment := getObject(t, c, "apps/v1", "Deployment", name, name)
	updateObject(t, c.Client, deployment, func() {
		setNestedField(t, deployment, int64(7), "spec", "replicas")
		setNestedField(t, deployment, int64(3), "spec", "revisionHistoryLimit")
		deployment.SetLabels(map[string]string{"from": "somebody", "mine": "yes"})
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		containers = append(containers, map[string]any{"name": "mine", "image": "example.com/b"})
		setNestedField(t, deployment, containers, "spec", "template", "spec", "containers")
	})

	waitForStatus(t, w, "another pass", completed(w.Status().Completed+2))
	config = getObject(t, c, "v1", "ConfigMap", name, name)
	if diff := cmp.Diff(map[string]any{"a": "release", "b": "more"}, config.Object["data"]); diff != "" || config.GetLabels()["mine"] != "yes" {
		t.Errorf("the ConfigMap has labels %v, data -want +got:\n%s", config.GetLabels(), diff)
	}

	deployment = getObject(t, c, "apps/v1", "Deployment", name, name)
	replicas, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	limit, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "revisionHistoryLimit")
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if replicas != 1 || limit != 3 || len(containers) != 1 {
		t.Errorf("got replicas %d, revisionHistoryLimit %d and %d containers, want 1, 3 and 1", replicas, limit, len(containers))
	}
	if diff := cmp.Diff(map[string]string{"from": "release", "mine": "yes"}, deployment.GetLabels()); diff != "" {
		t.Errorf("labels, -want +got:\n%s", diff)
	}

	if err := c.Delete(t.Context(), config); err != nil {
		t.Fatal(err)
	}

	waitForStatus(t, w, "another pass", completed(w.Status().Completed+2))
	if again := getObject(t, c, "v1", "ConfigMap", name, name); again.GetUID() == config.GetUID() {
		t.Error("got no ConfigMap after its deletion, want it recreated")
	}

	c.expectNoWrites(t, w, 2)
}

// After an update the Worker applies the new release, not the previous one.
func TestDriftAfterAnUpdate(t *testing.T) {
	name := uniqueName("updated")
	c := newRecordingClient(t)
	w := newWorker(c)
	w.Update(work(loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": configMapText})), release.Initializing))
	startWorker(t, w)
	waitForStatus(t, w, "initialized", completed(1))
	next := work(loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": strings.Replace(configMapText, "a: release", "a: next", 1)})), release.Updating)
	next.Desired = configv1.Release{Version: "1.1.0", Image: "example.com/next@sha256:1"}
	w.Update(next)
	updated := func(times int) func(worker.Status) bool {
		return func(s worker.Status) bool { return s.Actual.Version == "1.1.0" && s.Completed >= times }
	}
	waitForStatus(t, w, "the update", updated(1))

	config := getObject(t, c, "v1", "ConfigMap", name, name)
	updateObject(t, c.Client, config, func() { setNestedField(t, config, "release", "data", "a") })
	waitForStatus(t, w, "another pass", updated(w.Status().Completed+2))
	config = getObject(t, c, "v1", "ConfigMap", name, name)
	if diff := cmp.Diff(map[string]any{"a": "next"}, config.Object["data"]); diff != "" {
		t.Errorf("the ConfigMap, -want +got:\n%s", diff)
	}
}

func TestOwnersAndCreateOnly(t *testing.T) {
	name := uniqueName("owners")
	c := newRecordingClient(t)
	w := newWorker(c)
	requested := work(loadPayload(t, withNamespace(name, map[string]string{
		"0000_10_a_01": configMapText,
		"0000_10_a_02": `
apiVersion: v1
kind: ConfigMap
metadata:
  name: once
  namespace: NAME
  annotations: {INCLUDED, release.openshift.io/create-only: "true"}
data: {a: release}
`,
		"0000_10_a_03": `
apiVersion: v1
kind: ConfigMap
metadata:
  name: foreign
  namespace: NAME
  annotations: {INCLUDED}
  ownerReferences: [{apiVersion: v1, kind: Namespace, name: NAME, uid: 7f5c2d4e-0000-4000-8000-000000000009}]
`,
	})), release.Updating)

	requested.Owner = ownerReference("version")
	w.Update(requested)
	startWorker(t, w)
	waitForStatus(t, w, "a pass", completed(1))

	wanted := ownerReference("version")
	wanted.Controller = new(true)
	for object, want := range map[string][]metav1.OwnerReference{
		name: {wanted}, "once": nil, "foreign": {{APIVersion: "v1", Kind: "Namespace", Name: name, UID: "7f5c2d4e-0000-4000-8000-000000000009"}},
	} {
		if diff := cmp.Diff(want, getObject(t, c, "v1", "ConfigMap", name, object).GetOwnerReferences()); diff != "" {
			t.Errorf(name+" of %s, -want +got:\n%s", name, diff)
		}
	}

	once := getObject(t, c, "v1", "ConfigMap", name, "once")
	updateObject(t, c.Client, once, func() { setNestedField(t, once, "mine", "data", "a") })
	waitForStatus(t, w, "another pass", completed(w.Status().Completed+2))
	once = getObject(t, c, "v1", "ConfigMap", name, "once")
	if value, _, _ := unstructured.NestedString(once.Object, "data", "a"); value != "mine" {
		t.Errorf("got data %q of a create-only object, want the edited data mine", value)
	}
	if err := c.Delete(t.Context(), once); err != nil {
		t.Fatal(err)
	}

	waitForStatus(t, w, "another pass", completed(w.Status().Completed+2))
	once = getObject(t, c, "v1", "ConfigMap", name, "once")
	if value, _, _ := unstructured.NestedString(once.Object, "data", "a"); value != "release" {
		t.Errorf("got data %q of a deleted create-only object, want it recreated with release", value)
	}
}

const tombstoneText = `
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: default, annotations: {INCLUDED, release.openshift.io/delete: "true"}}
`

func TestTombstones(t *testing.T) {
	name := uniqueName("tomb")
	c := newRecordingClient(t)
	create := func(finalizers ...string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"}}}
		u.SetFinalizers(finalizers)
		if err := c.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		return u
	}

	exists := func() bool {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("ConfigMap")
		err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, u)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}

		return err == nil
	}

	payload := loadPayload(t, map[string]string{
		"0000_99_a_01": withName(tombstoneText, name),
		"0000_99_a_02": "apiVersion: example.com/v1\nkind: Gone\nmetadata: {name: gone, annotations: {INCLUDED, release.openshift.io/delete: \"true\"}}\n",
	})
	run := func(state release.Mode) (*worker.Worker, func()) {
		w := newWorker(c)
		w.Update(work(payload, state))
		stop := startWorker(t, w)
		waitForStatus(t, w, "a pass", completed(1))

		return w, stop
	}

	// A tombstone creates nothing.
	_, stop := run(release.Initializing)
	stop()
	if exists() {
		t.Fatal("got an object created from a tombstone, want none")
	}

	// Tombstones delete nothing while the cluster is reconciled.
	held := create("example.com/held")
	w, stop := run(release.Reconciling)
	if stop(); !exists() || len(w.Status().Deleting) > 0 {
		t.Fatalf("while reconciling: got exists %v and pending deletions %q, want the object and none", exists(), w.Status().Deleting)
	}

	// An update deletes the object, does not wait, and reports the pending deletion.
	w, stop = run(release.Updating)
	if diff := cmp.Diff([]string{`configmap "default/` + name + `"`}, w.Status().Deleting); diff != "" {
		t.Errorf("deletions, -want +got:\n%s", diff)
	}
	if status := w.Status(); status.Failure != nil || status.Done != 2 {
		t.Errorf("got status %+v, want a completed pass despite the pending deletion", status)
	}

	stop()
	// A new Worker reports it too.
	w, _ = run(release.Reconciling)
	if diff := cmp.Diff([]string{`configmap "default/` + name + `"`}, w.Status().Deleting); diff != "" {
		t.Errorf("deletions after a restart, -want +got:\n%s", diff)
	}

	held = getObject(t, c, "v1", "ConfigMap", "default", held.GetName())
	updateObject(t, c.Client, held, func() { held.SetFinalizers(nil) })
	waitForStatus(t, w, "the deletion has ended", func(s worker.Status) bool { return len(s.Deleting) == 0 })
}

// An object that is created again during an update is not deleted again.
func TestRecreatedTombstonedObject(t *testing.T) {
	name := uniqueName("again")
	c := newRecordingClient(t)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := c.Create(t.Context(), object.DeepCopy()); err != nil {
		t.Fatal(err)
	}

	w := newWorker(c)
	w.Update(work(loadPayload(t, map[string]string{"0000_10_a_01": withName(tombstoneText, name), "0000_20_b_01": withName(operatorText, name)}), release.Updating))
	startWorker(t, w)
	passes := func(more int) {
		before := w.Status().Errors
		waitForStatus(t, w, "passes that wait for an operator", func(s worker.Status) bool { return s.Errors >= before+more })
	}
	passes(1)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("creating the deleted object: %v", err)
	}

	passes(3)
	if again := getObject(t, c, "v1", "ConfigMap", "default", name); again.GetUID() != object.UID {
		t.Error("got a second deletion of the object, want none")
	}
	if deleting := w.Status().Deleting; len(deleting) > 0 {
		t.Errorf("got pending deletions %q, want none", deleting)
	}
}

func TestSkippedManifests(t *testing.T) {
	name := uniqueName("passed")
	c := newRecordingClient(t)
	config := func(object, annotations string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: NAME, annotations: {%s}}\n", object, annotations)
	}
	payload := loadPayload(t, withNamespace(name, map[string]string{
		"0000_10_a_01": config("both", "INCLUDED, capability.openshift.io/name: A+B"),
		"0000_10_a_02": config("one", "INCLUDED, capability.openshift.io/name: A+C"),
		"0000_10_a_03": config("unknown", "INCLUDED, capability.openshift.io/name: Z"),
		"0000_10_a_04": config("other-profile", `include.release.openshift.io/other: "true"`),
		"0000_10_a_05": config("unmanaged", "INCLUDED"),
		"0000_10_a_06": config("gated", "INCLUDED, release.openshift.io/feature-gate: New"),
	}))

	requested := work(payload, release.Updating)
	requested.Capabilities = newCapabilities([]string{"A", "B", "C"}, []string{"A", "B"})
	requested.Overrides = []configv1.ComponentOverride{{Kind: "ConfigMap", Namespace: name, Name: "unmanaged", Unmanaged: true}}
	w := newWorker(c)
	w.Update(requested)
	startWorker(t, w)
	status := waitForStatus(t, w, "a pass", completed(1))
	if status.Total != 5 || status.Done != 5 || status.VersionHash == "" {
		t.Errorf("got %d of %d done and hash %q, want 5 of 5 and a hash", status.Done, status.Total, status.VersionHash)
	}

	expect := func(want ...string) {
		t.Helper()
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("v1")
		list.SetKind("ConfigMapList")
		if err := c.List(t.Context(), list, client.InNamespace(name)); err != nil {
			t.Fatal(err)
		}

		var got []string
		for _, u := range list.Items {
			got = append(got, u.GetName())
		}

		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ConfigMaps, -want +got:\n%s", diff)
		}
	}

	expect("both")
	requested.Overrides = nil
	requested.Capabilities = newCapabilities([]string{"A", "B", "C"}, []string{"A", "B", "C"})
	requested.Generation = 2
	w.Update(requested)
	before := w.Status()
	if !before.Reconciling || before.Generation != 2 || before.VersionHash != status.VersionHash {
		t.Errorf("the same release with other capabilities and overrides: got status %+v, want generation 2 and the same hash while reconciling", before)
	}

	waitForStatus(t, w, "a pass", completed(before.Completed+1))
	expect("both", "one", "unmanaged")
	requested.Cluster.FeatureGates = sets.New("New")
	w.Update(requested)
	waitForStatus(t, w, "a pass", completed(w.Status().Completed+1))
	expect("both", "gated", "one", "unmanaged")
}

func TestUpdateFollowsRunlevels(t *testing.T) {
	name := uniqueName("levels")
	c := newRecordingClient(t)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	config := env.Start(t)
	informers, err := cache.New(config, cache.Options{Scheme: env.Scheme(t, configv1.AddToScheme)})
	if err != nil {
		t.Fatal(err)
	}

	go func() { _ = informers.Start(ctx) }()
	level := func(object string) string {
		return strings.ReplaceAll(configMapText, "name: NAME,", "name: "+object+",")
	}
	payload := loadPayload(t, withNamespace(name, map[string]string{
		"0000_20_first_01":      level("first"),
		"0000_20_first_02_co":   strings.ReplaceAll(operatorText, "NAME", name+"-first"),
		"0000_20_first_03":      level("behind-first"),
		"0000_20_neighbour_01":  level("neighbour"),
		"0000_25_second_01":     level("second"),
		"0000_25_second_02_co":  strings.ReplaceAll(operatorText, "NAME", name+"-second"),
		"0000_30_third_01_last": level("third"),
	}))

	// The Worker never waits for an operator that is not part of the release.
	foreign := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: name + "-foreign"}}
	if err := c.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}

	reportOperatorStatus(t, c, foreign.Name, "0.1.0", "Available=False", "Degraded=True")
	c.takeWrites()
	// Without the watch the next pass would start after minutes, even with the fast clock.
	w := worker.New(worker.Options{Client: c, Informers: informers, Clock: fastClock{}, ResyncInterval: 500 * time.Hour})
	w.Update(work(payload, release.Updating))
	startWorker(t, w)
	waiting := func(text string) func(worker.Status) bool {
		return func(s worker.Status) bool { return s.Failure != nil && strings.Contains(s.Failure.Error(), text) }
	}
	status := waitForStatus(t, w, "the update waits for the first operator", waiting(name+"-first is not available"))
	if verdict := status.Judge(time.Now()); verdict.Failing != metav1.ConditionTrue || status.Done != 3 || status.Waiting[name+"-first"].IsZero() {
		t.Errorf("got %d done and verdict %+v, want 3 and failing", status.Done, verdict)
	}

	first := getObject(t, c, "config.openshift.io/v1", "ClusterOperator", "", name+"-first")
	related, _, _ := unstructured.NestedSlice(first.Object, "status", "relatedObjects")
	if diff := cmp.Diff([]any{map[string]any{"group": "", "resource": "namespaces", "name": name + "-first"}}, related); diff != "" {
		t.Errorf("relatedObjects, -want +got:\n%s", diff)
	}

	reportOperatorStatus(t, c, name+"-first", "0.9.0", "Available=True", "Degraded=True")
	status = waitForStatus(t, w, "degraded", waiting(name+"-first is degraded"))
	if verdict := status.Judge(time.Now()); verdict.Failing != metav1.ConditionFalse || verdict.Waiting != "waiting up to 40 minutes on "+name+"-first" {
		t.Errorf("got verdict %+v, want it to wait for the first operator without failing", verdict)
	}

	reportOperatorStatus(t, c, name+"-first", "0.9.0", "Available=True", "Degraded=False", "Progressing=True")
	status = waitForStatus(t, w, "updating", waiting(name+"-first is updating versions"))
	if verdict := status.Judge(time.Now()); verdict.Failing != metav1.ConditionFalse || verdict.Waiting != "waiting on "+name+"-first" {
		t.Errorf("got verdict %+v, want it to wait for the first operator without failing", verdict)
	}

	writes := c.takeWrites()
	if !slices.Contains(writes, "create ConfigMap neighbour") || slices.Contains(writes, "create ConfigMap behind-first") || slices.Contains(writes, "create ConfigMap second") {
		t.Errorf("got writes %q, want that of neighbour and none behind the first operator", writes)
	}
	reportOperatorStatus(t, c, name+"-first", "1.0.0", "Available=True", "Degraded=False", "Progressing=True")
	status = waitForStatus(t, w, "the update waits for the second operator", waiting(name+"-second is not available"))
	if !status.Waiting[name+"-first"].IsZero() {
		t.Errorf("got awaited operators %v, want none that is healthy", status.Waiting)
	}
	if diff := cmp.Diff([]string{"create ConfigMap behind-first", "create ClusterOperator " + name + "-second", "create ConfigMap second"}, c.takeWrites()); diff != "" {
		t.Errorf("written, -want +got:\n%s", diff)
	}
	reportOperatorStatus(t, c, name+"-second", "1.0.0", "Available=True", "Degraded=False")
	status = waitForStatus(t, w, "all", completed(1))
	if status.Failure != nil || status.Done != status.Total || !status.Reconciling || status.Initial || len(status.Tasks) > 0 || status.LastProgress.Before(status.Started) {
		t.Errorf("got status %+v, want a completed update without a failure", status)
	}
}

func TestInitializeWithDegradedOperator(t *testing.T) {
	name := uniqueName("cloudy")
	c := newRecordingClient(t)
	payload := loadPayload(t, map[string]string{"0000_20_cloudy_01_co": withName(operatorText, name), "0000_30_cloudy_02_ns": withName(namespaceText, name)})
	w := newWorker(c)
	w.Update(work(payload, release.Initializing))
	startWorker(t, w)
	waitForStatus(t, w, "precreated", func(s worker.Status) bool { return s.Failure != nil })
	reportOperatorStatus(t, c, name, "0.1.0", "Available=True", "Degraded=True")
	status := waitForStatus(t, w, "a pass", completed(1))
	if status.Failure == nil || status.Failure.Error() != "Cluster operator "+name+" is degraded" || !status.Reconciling {
		t.Errorf("got status %+v, want a degraded operator while reconciling", status)
	}
	if verdict := status.Judge(time.Now()); verdict.Failing != metav1.ConditionTrue || verdict.Reason != worker.ReasonOperatorDegraded {
		t.Errorf("got verdict %+v, want failing with %s", verdict, worker.ReasonOperatorDegraded)
	}

	// In Reconciling the version must match too.
	reportOperatorStatus(t, c, name, "0.1.0", "Available=True", "Degraded=False")
	waitForStatus(t, w, "the pass waits for the version", func(s worker.Status) bool {
		return s.Failure != nil && s.Failure.Error() == "Cluster operator "+name+" is updating versions"
	})
	reportOperatorStatus(t, c, name, "1.0.0", "Available=True", "Degraded=False")
	waitForStatus(t, w, "the failure is resolved", func(s worker.Status) bool { return s.Failure == nil })
	c.expectNoWrites(t, w, 2)
}
