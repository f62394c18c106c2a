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
// cluster-version-operator, one after the other, during an update. The update completes, and the
// cluster is equal to one that was updated without failures.
//
// Each is killed at a defined point of the update: while it waits for a ClusterOperator that the
// test reports, or during a write of the operator that a webhook of the test blocks.
func TestChaos(t *testing.T) {
	var calm, after map[string]platformObject
	t.Run("no failures", func(t *testing.T) {
		p := newProcessFixture(t)
		second, _, _ := p.installReleases()
		p.runCommand("cluster", "upgrade", "--to", "1.0.1")
		p.reportOperator("first", "1.0.1")
		p.reportOperator("last", "1.0.1")
		p.waitForVersion("the update", isAtVersion("1.0.1"))
		calm = p.comparableObjects(second)
	})

	t.Run("all programs are killed", func(t *testing.T) { after = updateWithFailures(t) })
	if diff := cmp.Diff(calm, after); diff != "" {
		t.Errorf("objects of the cluster (-want as without failures +got):\n%s", diff)
	}
}

// installReleases builds two releases and installs the first.
func (p *processFixture) installReleases() (second builtRelease, updates, operator *managedProcess) {
	p.t.Helper()
	s := p.openSite()
	first := p.buildRelease(s, p.Registry, "1.0.0", chaosPlatform("1.0.0"))
	second = p.buildRelease(s, p.Registry, "1.0.1", chaosPlatform("1.0.1"), "--previous", "1.0.0")
	updates = p.startUpdateService(s, p.Registry+"/platform/release")
	operator = p.installRelease(first)
	p.reportOperator("first", "1.0.0")
	p.reportOperator("last", "1.0.0")
	p.waitForVersion("the installation", isAtVersion("1.0.0"))
	p.waitForVersion("the update", func(v *clusterVersion) bool { return len(v.Status.AvailableUpdates) == 1 })

	return second, updates, operator
}

// updateWithFailures returns the objects of the cluster after the update.
func updateWithFailures(t *testing.T) map[string]platformObject {
	p := newProcessFixture(t)
	holds := p.holdWrites()
	second, updates, operator := p.installReleases()
	before := p.listReleaseObjects(second)

	t.Log("the registry")
	p.registry.kill()
	p.runCommand("cluster", "upgrade", "--to", "1.0.1")
	p.waitForVersion("the release that cannot be pulled", hasCondition("ReleaseAccepted", "False", "RetrievePayload"))
	p.registry.start()
	p.waitForVersion("the wait for the first part", isWaitingFor("first"))
	p.checkPartialUpdate("1.0.1")

	t.Log("the update service")
	updates.kill()
	p.runCommand("cluster", "channel", "other", "--allow-explicit-channel")
	p.waitForVersion("the update service that does not answer", hasCondition("RetrievedUpdates", "False", "RemoteFailed"))
	updates.start()

	t.Log("etcd")
	held := holds.holdNextWrite("second-held")
	p.reportOperator("first", "1.0.1")
	held.waitForWrite(t)
	p.etcd.kill()
	if out, err := p.Kubectl(t.Context(), "get", "configmaps", "--request-timeout=5s"); err == nil {
		t.Errorf("without etcd: got\n%s", out)
	}

	next := holds.holdNextWrite("third-held")
	held.release()
	p.etcd.start()

	t.Log("the API server")
	next.waitForWrite(t)
	p.checkPartialUpdate("1.0.1")
	p.server.kill()
	held = holds.holdNextWrite("fourth-held")
	next.release()
	p.server.start()

	t.Log("the operator")
	held.waitForWrite(t)
	p.checkPartialUpdate("1.0.1")
	operator.kill()
	held.release()
	if _, err := p.Kubectl(t.Context(), "delete", "configmap", "first-03"); err != nil {
		t.Fatal(err)
	}

	operator.start()

	p.waitForVersion("the wait for the last part", isWaitingFor("last"))
	p.checkPartialUpdate("1.0.1")
	p.reportOperator("last", "1.0.1")
	cv := p.waitForVersion("the update", isAtVersion("1.0.1"))
	if got := cv.formatHistory(); got != "1.0.1 Completed, 1.0.0 Completed" {
		t.Errorf("got the history %s", got)
	}

	p.waitForVersion("what the update service says", hasCondition("RetrievedUpdates", "True", ""))
	p.checkAsReleased(second, before, "ConfigMap/default/first-03")
	if _, err := p.Kubectl(t.Context(), "get", "configmap", "former"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("an object that the release removes: got error %v, want that it does not exist", err)
	}

	return p.comparableObjects(second)
}

// chaosPlatform returns a platform with objects of several kinds on several runlevels. The update waits for its parts first
// and last, and the test blocks the write of one object of each other part.
func chaosPlatform(version string) map[string]string {
	const objects = 12
	files := map[string]string{
		"0000_10_first_90_operator.yaml": clusterOperatorManifest("first"),
		"0000_50_last_90_operator.yaml":  clusterOperatorManifest("last"),
		"0000_20_second_80_deployment.yaml": formatManifest("apps/v1", "Deployment", "{name: second, namespace: default, labels: {version: 0.0.1-snapshot}",
			"spec: {replicas: 0, selector: {matchLabels: {app: second}}, template: {metadata: {labels: {app: second}}, spec: {containers: [{name: a, image: registry.example.com/a:1}]}}}"),
		"0000_30_third_00_crd.yaml": formatManifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "{name: thirds.example.com",
			"spec: {group: example.com, scope: Cluster, names: {kind: Third, plural: thirds}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {version: {type: string}}}}}}}]}"),
		"0000_30_third_80_third.yaml": formatManifest("example.com/v1", "Third", "{name: third", "spec: {version: 0.0.1-snapshot}"),
		"0000_40_fourth_80_role.yaml": formatManifest("rbac.authorization.k8s.io/v1", "ClusterRole", "{name: fourth", `rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]`),
	}

	for level, part := range map[string]string{"10": "first", "20": "second", "30": "third", "40": "fourth"} {
		for i := range objects {
			name := fmt.Sprintf("%s-%02d", part, i)
			files[fmt.Sprintf("0000_%s_%s_%02d_note.yaml", level, part, 10+i)] = versionConfigMap(name, "")
		}
		if part != "first" {
			files["0000_"+level+"_"+part+"_15_held.yaml"] = versionConfigMap(part+"-held", ", labels: {"+heldLabel+": this}")
		}
	}

	former := versionConfigMap("former", "")
	if version != "1.0.0" {
		former = strings.Replace(former, `"true"`, `"true", release.openshift.io/delete: "true"`, 1)
		files["0000_60_new_00_note.yaml"] = versionConfigMap("new", "")
	}

	files["0000_60_former_00_note.yaml"] = former
	return files
}

// heldWrites is a webhook that blocks writes until the test releases them.
type heldWrites struct {
	mu    sync.Mutex
	armed map[string]*heldWrite
}

// heldWrite is a blocked write.
type heldWrite struct {
	reached, released chan struct{}
}

// heldLabel selects the objects for the webhook.
const heldLabel = "chaos.example.com/held"

// holdNextWrite blocks the next write of an object.
func (h *heldWrites) holdNextWrite(name string) *heldWrite {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := &heldWrite{reached: make(chan struct{}), released: make(chan struct{})}
	h.armed[name] = held
	return held
}

// waitForWrite waits until the write has reached the webhook.
func (h *heldWrite) waitForWrite(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stateTimeout)
	defer cancel()
	select {
	case <-h.reached:
	case <-ctx.Done():
		t.Fatal("the object whose write is blocked was never written")
	}
}

func (h *heldWrite) release() { close(h.released) }

// ServeHTTP responds to the API server once the write may proceed.
func (h *heldWrites) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	_ = json.NewEncoder(w).Encode(review) // The API server may have been killed.
}

// holdWrites registers a webhook of the test for writes of objects with the label.
func (p *processFixture) holdWrites() *heldWrites {
	p.t.Helper()
	h := &heldWrites{armed: map[string]*heldWrite{}}
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

// checkPartialUpdate checks that the update is in progress and was started once.
func (p *processFixture) checkPartialUpdate(version string) {
	p.t.Helper()
	cv, err := p.getClusterVersion(p.t.Context())
	if got := cv.formatHistory(); err != nil || got != version+" Partial, 1.0.0 Completed" {
		p.t.Errorf("got the history %s (%v), want a partial update that was started once", got, errors.Unwrap(err))
	}
}
