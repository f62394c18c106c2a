package worker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// configurationKinds are the kinds of the platform's configuration that releases request.
const configurationKinds = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {included, name: proxies.config.openshift.io}
spec:
  group: config.openshift.io
  scope: Cluster
  names: {kind: Proxy, plural: proxies}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {included, name: apiservers.config.openshift.io}
spec:
  group: config.openshift.io
  scope: Cluster
  names: {kind: APIServer, plural: apiservers}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// The configuration of the cluster is injected into the objects that request it, and removed
// when it is unset.
func TestInjectClusterConfig(t *testing.T) {
	name := uniqueName("configured")
	c := newRecordingClient(t)
	w := newWorker(c)
	w.Update(work(loadPayload(t, withNamespace(name, map[string]string{
		"0000_05_a_01": configurationKinds,
		"0000_10_a_01": strings.NewReplacer(
			"{included, name: NAME, namespace: NAME, labels: {from: release}}",
			"{name: NAME, namespace: NAME, annotations: {INCLUDED, config.openshift.io/inject-proxy: a}}",
			`[{name: a, image: "example.com/a:v1"}]`,
			`[{name: a, image: "example.com/a:v1", env: [{name: A, value: b}]}, {name: b, image: "example.com/b:v1"}]`,
		).Replace(workloadText),
		"0000_10_a_02": `
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: NAME, annotations: {INCLUDED, config.openshift.io/inject-tls: "true"}}
data:
  config.yaml: "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\nservingInfo: {bindAddress: a}\n"
  other.yaml: "kind: Other\n"
`,
	})), release.Updating))

	startWorker(t, w)
	waitForStatus(t, w, "a pass", completed(1))
	configure := func(kind string, content map[string]any) *unstructured.Unstructured {
		content["apiVersion"], content["kind"], content["metadata"] = "config.openshift.io/v1", kind, map[string]any{"name": "cluster"}
		u := &unstructured.Unstructured{Object: content}
		if err := c.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { _ = c.Delete(t.Context(), u) })
		return u
	}

	look := func() (env map[string]string, config, other string) {
		env = map[string]string{}
		waitForStatus(t, w, "another pass", completed(w.Status().Completed+2))
		containers, _, _ := unstructured.NestedSlice(getObject(t, c, "apps/v1", "Deployment", name, name).Object, "spec", "template", "spec", "containers")
		for _, container := range containers {
			container, _ := container.(map[string]any)
			variables, _, _ := unstructured.NestedSlice(container, "env")
			for _, variable := range variables {
				v, _ := variable.(map[string]any)
				env[container["name"].(string)+"/"+v["name"].(string)], _ = v["value"].(string)
			}
		}

		data, _, _ := unstructured.NestedStringMap(getObject(t, c, "v1", "ConfigMap", name, name).Object, "data")
		return env, data["config.yaml"], data["other.yaml"]
	}

	proxy := configure("Proxy", map[string]any{"status": map[string]any{"httpProxy": "http://p", "httpsProxy": "https://p", "noProxy": "local"}})
	server := configure("APIServer", map[string]any{"spec": map[string]any{"tlsSecurityProfile": map[string]any{"type": "Modern"}}})
	env, config, other := look()
	if diff := cmp.Diff(map[string]string{"a/A": "b", "a/HTTP_PROXY": "http://p", "a/HTTPS_PROXY": "https://p", "a/NO_PROXY": "local"}, env); diff != "" {
		t.Errorf("variables, -want +got:\n%s", diff)
	}
	if !strings.Contains(config, "minTLSVersion: VersionTLS13\n") || !strings.Contains(config, "bindAddress: a\n") || other != "kind: Other\n" {
		t.Errorf("got configurations\n%s%s\nwant the TLS version in the first and the second unchanged", config, other)
	}

	c.expectNoWrites(t, w, 2)

	if err := c.Delete(t.Context(), proxy); err != nil {
		t.Fatal(err)
	}

	updateObject(t, c.Client, server, func() { setNestedField(t, server, "Intermediate", "spec", "tlsSecurityProfile", "type") })
	env, config, _ = look()
	if diff := cmp.Diff(map[string]string{"a/A": "b"}, env); diff != "" || !strings.Contains(config, "minTLSVersion: VersionTLS12\n") {
		t.Errorf("configuration:\n%svariables, -want +got:\n%s", config, diff)
	}
}

const bindingText = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {included, name: NAME, namespace: NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ROLE}
subjects: [{kind: ServiceAccount, name: SUBJECT, namespace: SUBJECT}]
`

// A binding of the release whose role changed is recreated; no other binding is.
func TestRecreateBinding(t *testing.T) {
	for what, tc := range map[string]struct {
		subject string
		// foreign is true if another client created the binding, forbidden if no binding may be created.
		foreign, forbidden bool
		// refused is the error. It is empty if the binding is recreated.
		refused string
	}{
		"a binding of the release":     {subject: "somebody"},
		"a binding of another client":  {subject: "somebody", foreign: true, refused: "roleRef cannot be changed while the object exists: delete the object"},
		"the rights of this operator":  {subject: "openshift-cluster-version", refused: "roleRef cannot be changed while the object exists: delete the object"},
		"one that cannot be recreated": {subject: "somebody", forbidden: true, refused: "the server has forbidden updates to this resource"},
	} {
		t.Run(what, func(t *testing.T) {
			name := uniqueName("role")
			c := newRecordingClient(t)
			binding := func(role string) worker.Work {
				text := strings.NewReplacer("ROLE", role, "SUBJECT", tc.subject).Replace(bindingText)
				requested := work(loadPayload(t, withNamespace(name, map[string]string{"0000_10_a_01": text})), release.Updating)
				requested.Owner = ownerReference("version")
				return requested
			}

			before := binding("view")
			if tc.foreign {
				before.Owner = metav1.OwnerReference{}
			}

			first := newWorker(c)
			first.Update(before)
			stop := startWorker(t, first)
			waitForStatus(t, first, "a pass", completed(1))
			stop()
			live := getObject(t, c, "rbac.authorization.k8s.io/v1", "RoleBinding", name, name)
			updateObject(t, c.Client, live, func() { live.SetLabels(map[string]string{"mine": "yes"}) })
			c.before = func(what string) error {
				if tc.forbidden && strings.HasPrefix(what, "create RoleBinding") {
					return apierrors.NewForbidden(rbacv1.Resource("rolebindings"), name, errors.New("for a reason"))
				}
				return nil
			}

			w := newWorker(c)
			startWorker(t, w)
			w.Update(binding("edit"))
			if tc.refused != "" {
				status := waitForStatus(t, w, "a failure", func(s worker.Status) bool { return s.Failure != nil })
				if !strings.Contains(status.Failure.Error(), tc.refused) {
					t.Errorf("got failure %q, want %q", status.Failure, tc.refused)
				}
				if still := getObject(t, c, "rbac.authorization.k8s.io/v1", "RoleBinding", name, name); still.GetUID() != live.GetUID() {
					t.Error("got a recreated binding, want the existing one")
				}
				return
			}

			waitForStatus(t, w, "the other role", completed(1))
			var after rbacv1.RoleBinding
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: name, Name: name}, &after); err != nil {
				t.Fatal(err)
			}
			if after.RoleRef.Name != "edit" || after.Labels["mine"] != "yes" || after.UID == live.GetUID() || len(after.OwnerReferences) != 1 {
				t.Errorf("got binding %+v, want it recreated with the role edit, its label and its owner", after)
			}

			c.expectNoWrites(t, w, 1)
		})
	}
}
