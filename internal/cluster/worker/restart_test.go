package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
)

func TestRetries(t *testing.T) {
	name := uniqueName("retries")
	c := newRecordingClient(t)
	var mu sync.Mutex
	tried := map[string]int{}
	c.before = func(what string) error {
		mu.Lock()
		defer mu.Unlock()
		tried[what]++
		switch {
		case what == "create ConfigMap soon" && tried[what] < 3:
			return apierrors.NewInternalError(errors.New("a moment"))
		case what == "create ConfigMap never":
			return apierrors.NewForbidden(configv1.GroupVersion.WithResource("a").GroupResource(), "never", errors.New("for a reason"))
		}

		return nil
	}

	config := func(object string) string {
		return strings.ReplaceAll(configMapText, "name: NAME,", "name: "+object+",")
	}
	w := worker.New(worker.Options{Client: c, Clock: fastClock{}, ResyncInterval: 500 * time.Hour})
	w.Update(work(loadPayload(t, withNamespace(name, map[string]string{
		"0000_10_a_01": config("soon"), "0000_10_b_01": config("never"), "0000_20_d_01": config("later"),
	})), release.Updating))
	startWorker(t, w)
	status := waitForStatus(t, w, "a pass failed", func(s worker.Status) bool { return s.Failure != nil })
	want := `Could not update configmap "` + name + `/never" (3 of 4): the server has forbidden updates to this resource`
	if diff := cmp.Diff(want, status.Failure.Error()); diff != "" {
		t.Errorf("failure, -want +got:\n%s", diff)
	}

	mu.Lock()
	defer mu.Unlock()
	if tried["create ConfigMap soon"] != 3 || tried["create ConfigMap never"] != 3 || tried["create ConfigMap later"] != 0 || status.Done != 2 || status.Errors < 5 {
		t.Errorf("got attempts %v, %d done, %d errors; want 3 attempts each of soon and never, none of later, 2 done and at least 5 errors", tried, status.Done, status.Errors)
	}
}

func TestARefusedManifest(t *testing.T) {
	c := newRecordingClient(t)
	w := newWorker(c)
	w.Update(work(loadPayload(t, map[string]string{
		"0000_10_a_01": "apiVersion: batch/v1\nkind: Job\nmetadata: {included, name: refused, namespace: default}\nspec: {selector: {}}\n",
	}), release.Updating))
	startWorker(t, w)
	status := waitForStatus(t, w, "a pass failed", func(s worker.Status) bool { return s.Failure != nil })
	want := `Could not update job "default/refused" (1 of 1): spec.selector must not be set: the server sets the selector of a Job`
	if diff := cmp.Diff(want, status.Failure.Error()); diff != "" {
		t.Errorf("failure, -want +got:\n%s", diff)
	}
}

// The work of a completed Job is not repeated automatically.
func TestImmutableJob(t *testing.T) {
	name := uniqueName("job")
	c := newRecordingClient(t)
	job := func(image string) worker.Work {
		return work(loadPayload(t, map[string]string{
			"0000_10_a_01": "apiVersion: batch/v1\nkind: Job\nmetadata: {included, name: " + name + ", namespace: default}\n" +
				"spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: " + image + "}]}}}\n",
		}), release.Updating)
	}

	w := newWorker(c)
	w.Update(job("example.com/a:v1"))
	stop := startWorker(t, w)
	waitForStatus(t, w, "a pass", completed(1))
	stop()
	w = newWorker(c)
	w.Update(job("example.com/a:v2"))
	startWorker(t, w)
	status := waitForStatus(t, w, "a pass failed", func(s worker.Status) bool { return s.Failure != nil })
	want := `Could not update job "default/` + name + `" (1 of 1): spec.template cannot be changed while the object exists: delete the object so that it is created again, or give it another name in the release`
	if diff := cmp.Diff(want, status.Failure.Error()); diff != "" {
		t.Errorf("failure, -want +got:\n%s", diff)
	}
}

// Another client writes the object between the read and the write.
func TestContention(t *testing.T) {
	name := uniqueName("contention")
	c := newRecordingClient(t)
	w := newWorker(c)
	payload := loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": configMapText}))
	w.Update(work(payload, release.Updating))
	stop := startWorker(t, w)
	waitForStatus(t, w, "a pass", completed(1))
	stop()
	live := getObject(t, c, "v1", "ConfigMap", name, name)
	updateObject(t, c.Client, live, func() { setNestedField(t, live, "mine", "data", "a") })
	others := 0
	c.mu.Lock()
	c.before = func(what string) error {
		if what == "update ConfigMap "+name && others < 2 {
			others++
			live := getObject(t, c, "v1", "ConfigMap", name, name)
			live.SetLabels(map[string]string{"other": strconv.Itoa(others)})
			return c.Patch(context.Background(), live, client.Merge)
		}
		return nil
	}

	c.mu.Unlock()
	w = newWorker(c)
	w.Update(work(payload, release.Updating))
	startWorker(t, w)
	waitForStatus(t, w, "a pass", completed(1))
	live = getObject(t, c, "v1", "ConfigMap", name, name)
	if value, _, _ := unstructured.NestedString(live.Object, "data", "a"); value != "release" || others != 2 {
		t.Errorf("got data %q after %d other writes, want release after 2", value, others)
	}
}

func TestUpdate(t *testing.T) {
	name := uniqueName("replaced")
	c := newRecordingClient(t)
	w := newWorker(c)
	if status := w.Status(); status.Total != 0 || status.State() != release.Updating {
		t.Errorf("without work: got status %+v, want no manifests and state %s", status, release.Updating)
	}

	startWorker(t, w)
	payload := loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": configMapText}))
	requested := work(payload, release.Initializing)
	requested.Verified, requested.AcceptedRisks = true, "a risk"
	w.Update(requested)
	status := waitForStatus(t, w, "a pass", completed(1))
	if !status.Verified || status.AcceptedRisks != "a risk" || status.Actual.Version != "1.0.0" || status.Generation != 1 {
		t.Errorf("got status %+v, want the verified release 1.0.0 with its risk", status)
	}

	// The same work again only changes the generation, even with another state.
	requested.Generation = 2
	w.Update(requested)
	if status := w.Status(); status.Generation != 2 || !status.Reconciling || status.Completed < 1 {
		t.Errorf("the same work: got status %+v, want generation 2 and the same progress", status)
	}

	// Another release resets the progress.
	other := work(loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": strings.Replace(configMapText, "a: release", "a: other", 1)})), release.Updating)
	other.Desired = configv1.Release{Version: "1.0.1", Image: "registry.example.com/release@sha256:1"}
	other.Generation = 3
	w.Update(other)
	if status := w.Status(); status.Reconciling || status.Initial || status.Completed != 0 && status.Actual.Version != "1.0.1" {
		t.Errorf("another release: got status %+v, want its progress reset", status)
	}

	waitForStatus(t, w, "the other release", func(s worker.Status) bool { return s.Completed >= 1 && s.Reconciling && s.Actual.Version == "1.0.1" })
	live := getObject(t, c, "v1", "ConfigMap", name, name)
	if value, _, _ := unstructured.NestedString(live.Object, "data", "a"); value != "other" {
		t.Errorf("got data %q, want other", value)
	}
}

// Replacing the work ends the running pass.
func TestReplacedInTheMiddle(t *testing.T) {
	name := uniqueName("middle")
	c := newRecordingClient(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.before = func(what string) error {
		if what == "create ConfigMap "+name {
			once.Do(func() { close(reached); <-goOn })
		}
		return nil
	}

	w := newWorker(c)
	w.Update(work(loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": configMapText, "0000_20_a_01": strings.Replace(configMapText, "name: NAME,", "name: behind,", 1)})), release.Updating))
	startWorker(t, w)
	<-reached
	if diff := cmp.Diff([]string{`configmap "` + name + `/` + name + `" (2 of 3)`}, w.Status().Tasks); diff != "" {
		t.Errorf("in flight, -want +got:\n%s", diff)
	}

	other := work(loadPayload(t, map[string]string{"0000_10_a_01": withName(namespaceText, name+"-other")}), release.Updating)
	other.Desired.Image += "1"
	w.Update(other)
	close(goOn)
	waitForStatus(t, w, "the other work", func(s worker.Status) bool { return s.Completed >= 1 && s.Total == 1 })
	if writes := c.takeWrites(); slices.Contains(writes, "create ConfigMap behind") || !slices.Contains(writes, "create Namespace "+name+"-other") {
		t.Errorf("got writes %q, want those of the other work only", writes)
	}
}

// A Worker that is killed at any write leaves a state from which the next one reaches the same
// result.
func TestKilledAnywhere(t *testing.T) {
	c := newRecordingClient(t)
	files := map[string]string{
		"0000_10_cluster-version-operator_01": workloadText,
		"0000_20_a_01":                        configMapText,
		"0000_20_a_02":                        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {included, name: NAME}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n",
		"0000_20_b_01":                        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {included, name: NAMEs.example.net}\nspec: {group: example.net, scope: Cluster, names: {kind: KNAME, plural: NAMEs}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n",
		"0000_20_b_02":                        "apiVersion: example.net/v1\nkind: KNAME\nmetadata: {included, name: NAME}\nspec: {a: b}\n",
		"0000_30_a_01":                        "apiVersion: v1\nkind: Service\nmetadata: {included, name: NAME, namespace: NAME}\nspec: {ports: [{port: 80}]}\n",
		"0000_99_a_01":                        tombstoneText,
	}
	prepare := func(name string) worker.Work {
		old := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "default"}}}
		if err := c.Create(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		return work(loadPayload(t, withNamespace(name, files)), release.Updating)
	}
	end := func(name string) string {
		var all []string
		for _, of := range [][3]string{
			{"v1", "Namespace", ""}, {"apps/v1", "Deployment", name}, {"v1", "ConfigMap", name}, {"rbac.authorization.k8s.io/v1", "ClusterRole", ""},
			{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "s"}, {"example.net/v1", "K" + name, ""}, {"v1", "Service", name},
		} {
			namespace, object := of[2], name
			if namespace == "s" {
				namespace, object = "", name+"s.example.net"
			}
			u := getObject(t, c, of[0], of[1], namespace, object)
			for _, field := range []string{"clusterIP", "clusterIPs"} {
				unstructured.RemoveNestedField(u.Object, "spec", field)
			}
			delete(u.Object, "status")
			u.Object["metadata"] = map[string]any{"labels": u.GetLabels(), "annotations": u.GetAnnotations(), "owners": fmt.Sprint(u.GetOwnerReferences())}
			all = append(all, strings.ReplaceAll(cmp.Diff(nil, u.Object), name, "NAME"))
		}
		gone := &unstructured.Unstructured{}
		gone.SetAPIVersion("v1")
		gone.SetKind("ConfigMap")
		all = append(all, fmt.Sprint("removed: ", apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, gone))))
		return strings.Join(all, "\n")
	}
	var want string
	for kill := 0; ; kill++ {
		name := uniqueName("kill")
		requested := prepare(name)
		w := newWorker(c)
		w.Update(requested)
		writes, killed := 0, make(chan struct{})
		c.mu.Lock()
		c.before = func(string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if writes++; writes == kill {
				close(killed)
				// Every second Worker is killed after the write.
				if kill%2 == 0 {
					return context.Canceled
				}
			}
			return nil
		}
		c.mu.Unlock()
		stop := startWorker(t, w)
		for isOver := false; !isOver; {
			select {
			case <-killed:
				isOver = true
			case <-w.Changed():
				isOver = w.Status().Completed > 0
			}
		}
		stop()
		c.mu.Lock()
		c.before = nil
		c.mu.Unlock()
		next := newWorker(c)
		next.Update(requested)
		stop = startWorker(t, next)
		waitForStatus(t, next, name+", the next Worker", completed(1))
		stop()
		if got := end(name); want == "" {
			want = got
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("killed at write %d, -want +got:\n%s", kill, diff)
		}
		if kill > 0 && writes < kill {
			if kill < 9 {
				t.Errorf("got %d writes, want more", writes)
			}
			return
		}
	}
}

// An API server that does not respond for some time only causes a reported failure.
func TestAPIServerOutage(t *testing.T) {
	c := newRecordingClient(t)
	name := uniqueName("outage")
	var mu sync.Mutex
	isUp := false
	c.before = func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if isUp {
			return nil
		}
		return syscall.ECONNREFUSED
	}

	w := newWorker(c)
	w.Update(work(loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": configMapText})), release.Updating))
	startWorker(t, w)
	status := waitForStatus(t, w, "the outage is reported", func(s worker.Status) bool { return s.Failure != nil })
	want := fmt.Sprintf("Could not update namespace %q (1 of 2): the server is down or not responding", name)
	if verdict := status.Judge(time.Now()); verdict.Message != want || verdict.Summary != "the control plane is down or not responding" {
		t.Errorf("got verdict %+v, want the message %q", verdict, want)
	}

	mu.Lock()
	isUp = true
	mu.Unlock()
	status = waitForStatus(t, w, "a pass", completed(1))
	if status.Failure != nil {
		t.Errorf("got failure %v after the outage, want none", status.Failure)
	}
}
