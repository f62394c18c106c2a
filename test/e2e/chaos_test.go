package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
)

// TestChaos kills the registry, the update service, etcd, the API server and the
// cluster-version-operator, one after the other, during an update. It completes, the cluster is
// what the release says, and is the same as one that was updated without any of this.
//
// Each is killed at a place that the test knows: the update waits for a ClusterOperator that the
// test reports, or a write of the operator is under way, which a webhook of the test holds.
func TestChaos(t *testing.T) {
	var calm, after map[string]object
	t.Run("nothing happens", func(t *testing.T) {
		p := startParts(t)
		second, _, _ := p.installChaos()
		p.must("cluster", "upgrade", "--to", "1.0.1")
		p.report("first", "1.0.1")
		p.report("last", "1.0.1")
		p.await("the update", isAt("1.0.1"))
		calm = p.comparable(second)
	})

	t.Run("all are killed", func(t *testing.T) { after = updateInChaos(t) })
	if diff := cmp.Diff(calm, after); diff != "" {
		t.Errorf("the clusters differ (-undisturbed +chaos):\n%s", diff)
	}
}

// installChaos installs the first of two releases.
func (p *parts) installChaos() (second release, updates, operator *part) {
	p.t.Helper()
	s := p.openSite()
	first := p.release(s, p.Registry, "1.0.0", chaosPlatform("1.0.0"))
	second = p.release(s, p.Registry, "1.0.1", chaosPlatform("1.0.1"), "--previous", "1.0.0")
	updates = p.serveUpdates(s, p.Registry+"/platform/release")
	operator = p.install(first)
	p.report("first", "1.0.0")
	p.report("last", "1.0.0")
	p.await("the installation", isAt("1.0.0"))
	p.await("the update", func(v *version) bool { return len(v.Status.AvailableUpdates) == 1 })

	return second, updates, operator
}

// updateInChaos returns what the cluster is in the end.
func updateInChaos(t *testing.T) map[string]object {
	p := startParts(t)
	holds := p.holdWrites()
	second, updates, operator := p.installChaos()
	before := p.objects(second)

	t.Log("the registry")
	p.registry.kill()
	p.must("cluster", "upgrade", "--to", "1.0.1")
	p.await("the release that cannot be pulled", has("ReleaseAccepted", "False", "RetrievePayload"))
	p.registry.start()
	p.await("the wait for the first part", waitsFor("first"))
	p.isPartial("1.0.1")

	t.Log("the update service")
	updates.kill()
	p.must("cluster", "channel", "other", "--allow-explicit-channel")
	p.await("the update service that does not answer", has("RetrievedUpdates", "False", "RemoteFailed"))
	updates.start()

	t.Log("etcd")
	held := holds.arm("second-held")
	p.report("first", "1.0.1")
	held.await(t)
	p.etcd.kill()
	if out, err := p.Kubectl(t.Context(), "get", "configmaps", "--request-timeout=5s"); err == nil {
		t.Errorf("without etcd there is:\n%s", out)
	}

	next := holds.arm("third-held")
	held.letGo()
	p.etcd.start()

	t.Log("the API server")
	next.await(t)
	p.isPartial("1.0.1")
	p.server.kill()
	held = holds.arm("fourth-held")
	next.letGo()
	p.server.start()

	t.Log("the operator")
	held.await(t)
	p.isPartial("1.0.1")
	operator.kill()
	held.letGo()
	if _, err := p.Kubectl(t.Context(), "delete", "configmap", "first-03"); err != nil {
		t.Fatal(err)
	}

	operator.start()

	p.await("the wait for the last part", waitsFor("last"))
	p.isPartial("1.0.1")
	p.report("last", "1.0.1")
	cv := p.await("the update", isAt("1.0.1"))
	if got := cv.history(); got != "1.0.1 Completed, 1.0.0 Completed" {
		t.Errorf("the history is %s", got)
	}

	p.await("what the update service says", has("RetrievedUpdates", "True", ""))
	p.isAsReleased(second, before, "ConfigMap/default/first-03")
	if _, err := p.Kubectl(t.Context(), "get", "configmap", "former"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("what the release removes is still there: %v", err)
	}

	return p.comparable(second)
}

// chaosPlatform is a platform with objects of several kinds on several runlevels. Its parts first
// and last are waited for, and one object of each other part is held when it is written.
func chaosPlatform(version string) map[string]string {
	const objects = 12
	files := map[string]string{
		"0000_10_first_90_operator.yaml": clusterOperator("first"),
		"0000_50_last_90_operator.yaml":  clusterOperator("last"),
		"0000_20_second_80_deployment.yaml": manifest("apps/v1", "Deployment", "{name: second, namespace: default, labels: {version: 0.0.1-snapshot}",
			"spec: {replicas: 0, selector: {matchLabels: {app: second}}, template: {metadata: {labels: {app: second}}, spec: {containers: [{name: a, image: registry.example.com/a:1}]}}}"),
		"0000_30_third_00_crd.yaml": manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "{name: thirds.example.com",
			"spec: {group: example.com, scope: Cluster, names: {kind: Third, plural: thirds}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {version: {type: string}}}}}}}]}"),
		"0000_30_third_80_third.yaml": manifest("example.com/v1", "Third", "{name: third", "spec: {version: 0.0.1-snapshot}"),
		"0000_40_fourth_80_role.yaml": manifest("rbac.authorization.k8s.io/v1", "ClusterRole", "{name: fourth", `rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]`),
	}

	for level, part := range map[string]string{"10": "first", "20": "second", "30": "third", "40": "fourth"} {
		for i := range objects {
			name := fmt.Sprintf("%s-%02d", part, i)
			files[fmt.Sprintf("0000_%s_%s_%02d_note.yaml", level, part, 10+i)] = note(name, "")
		}
		if part != "first" {
			files["0000_"+level+"_"+part+"_15_held.yaml"] = note(part+"-held", ", labels: {"+heldLabel+": this}")
		}
	}

	former := note("former", "")
	if version != "1.0.0" {
		former = strings.Replace(former, `"true"`, `"true", release.openshift.io/delete: "true"`, 1)
		files["0000_60_new_00_note.yaml"] = note("new", "")
	}

	files["0000_60_former_00_note.yaml"] = former
	return files
}

// holds are writes that wait until the test lets them go.
type holds struct {
	mu    sync.Mutex
	armed map[string]*hold
}

// hold is one of them.
type hold struct {
	reached, released chan struct{}
}

// heldLabel marks objects whose writes are asked about.
const heldLabel = "chaos.example.com/held"

// arm has the next write of an object wait.
func (h *holds) arm(name string) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	made := &hold{reached: make(chan struct{}), released: make(chan struct{})}
	h.armed[name] = made
	return made
}

// await waits until the write is under way.
func (h *hold) await(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	select {
	case <-h.reached:
	case <-ctx.Done():
		t.Fatal("what is to be held is never written")
	}
}

func (h *hold) letGo() { close(h.released) }

// ServeHTTP answers the API server when the write may go on.
func (h *holds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("no request: ", err), http.StatusBadRequest)
		return
	}

	h.mu.Lock()
	held := h.armed[review.Request.Name]
	delete(h.armed, review.Request.Name)
	h.mu.Unlock()
	if held != nil {
		close(held.reached)
		select {
		case <-held.released:
		case <-r.Context().Done():
		}
	}

	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review) // Who asked may have been killed.
}

// holdWrites has the API server ask the test before objects with the label are written.
func (p *parts) holdWrites() *holds {
	p.t.Helper()
	h := &holds{armed: map[string]*hold{}}
	server := httptest.NewTLSServer(h)
	p.t.Cleanup(server.Close)
	authority, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err != nil {
		p.t.Fatal(err)
	}

	err = p.Apply(p.t.Context(), fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: held}
webhooks:
- name: held.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 30
  clientConfig: {url: %s, caBundle: %s}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]
  objectSelector: {matchExpressions: [{key: %s, operator: Exists}]}
`, server.URL, authority, heldLabel))
	if err != nil {
		p.t.Fatal(err)
	}

	return h
}

// isPartial checks that the update is under way, and was begun once.
func (p *parts) isPartial(version string) {
	p.t.Helper()
	cv, err := p.version(p.t.Context())
	if got := cv.history(); err != nil || got != version+" Partial, 1.0.0 Completed" {
		p.t.Errorf("the history is %s (%v)", got, errors.Unwrap(err))
	}
}
