package render

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

func TestShippedObjects(t *testing.T) {
	for _, c := range []struct {
		apiVersion, kind string
		wantVersion      string // empty if the version does not change
		wantNamespace    string
	}{
		{apiVersion: "v1", kind: "ConfigMap", wantNamespace: "ns"},
		{apiVersion: "v1", kind: "Secret", wantNamespace: "ns"},
		{apiVersion: "v1", kind: "Service", wantNamespace: "ns"},
		{apiVersion: "v1", kind: "ServiceAccount", wantNamespace: "ns"},
		{apiVersion: "autoscaling.k8s.io/v1", kind: "VerticalPodAutoscaler", wantNamespace: "ns"},
		{apiVersion: "monitoring.coreos.com/v1", kind: "PodMonitor", wantNamespace: "ns"},
		{apiVersion: "monitoring.coreos.com/v1", kind: "PrometheusRule", wantNamespace: "ns"},
		{apiVersion: "monitoring.rhobs/v1", kind: "ServiceMonitor", wantNamespace: "ns"},
		{apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", wantNamespace: "ns"},
		{apiVersion: "policy/v1", kind: "PodDisruptionBudget", wantNamespace: "ns"},
		{apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", wantNamespace: "ns"},
		{apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", wantNamespace: "ns"},
		{apiVersion: "rbac.authorization.k8s.io/v1beta1", kind: "Role", wantVersion: "rbac.authorization.k8s.io/v1", wantNamespace: "ns"},
		{apiVersion: "rbac.authorization.k8s.io/v1beta1", kind: "RoleBinding", wantVersion: "rbac.authorization.k8s.io/v1", wantNamespace: "ns"},
		{apiVersion: "rbac.authorization.k8s.io/v1beta1", kind: "ClusterRole", wantVersion: "rbac.authorization.k8s.io/v1"},
		{apiVersion: "rbac.authorization.k8s.io/v1beta1", kind: "ClusterRoleBinding", wantVersion: "rbac.authorization.k8s.io/v1"},
		{apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole"},
		{apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRoleBinding"},
		{apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass"},
		{apiVersion: "scheduling.k8s.io/v1beta1", kind: "PriorityClass", wantVersion: "scheduling.k8s.io/v1"},
		{apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition"},
		{apiVersion: "console.openshift.io/v1", kind: "ConsoleCLIDownload"},
		{apiVersion: "console.openshift.io/v1", kind: "ConsoleLink"},
		{apiVersion: "console.openshift.io/v1", kind: "ConsolePlugin"},
		{apiVersion: "console.openshift.io/v1", kind: "ConsoleQuickStart"},
		{apiVersion: "console.openshift.io/v1", kind: "ConsoleYAMLSample"},
	} {
		t.Run(c.apiVersion+"/"+c.kind, func(t *testing.T) {
			b := testBundle(t, "foo")
			object := unstructured.Unstructured{}
			object.SetAPIVersion(c.apiVersion)
			object.SetKind(c.kind)
			object.SetName("probe")
			object.SetNamespace("author")
			b.Objects = append(b.Objects, object)
			objects, err := Render(b, Options{InstallNamespace: "ns"})
			if err != nil {
				t.Fatal(err)
			}
			if c.wantVersion == "" {
				c.wantVersion = c.apiVersion
			}

			for _, got := range objects {
				if got.GetName() == "probe" {
					if got.GetAPIVersion() != c.wantVersion || got.GetNamespace() != c.wantNamespace {
						t.Errorf("got %s in namespace %q, want %s in %q", got.GetAPIVersion(), got.GetNamespace(), c.wantVersion, c.wantNamespace)
					}
					return
				}
			}

			t.Error("the object was not rendered")
		})
	}
}

func TestRemovedAPIs(t *testing.T) {
	for _, removed := range removedAPIs {
		object := unstructured.Unstructured{}
		object.SetAPIVersion(removed.apiVersion)
		object.SetKind(removed.kind)
		object.SetName("old")
		b := &bundle.Bundle{Objects: []unstructured.Unstructured{object}}
		want := removed.kind + ` "old" uses ` + removed.apiVersion + ", which was removed in Kubernetes " + removed.kubernetes +
			"; its author must move to " + removed.replacement
		if got := checkRemovedAPIs(b); len(got) != 1 || got[0] != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, ok := kindNamespaced[removed.kind]; !ok {
			t.Errorf("%s is listed as a removed API, but bundles cannot have this kind", removed.kind)
		}
	}
}
