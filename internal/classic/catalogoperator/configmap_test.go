package catalogoperator_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestConfigMap: the pod of a catalog of a ConfigMap has permission to read it, and is replaced when it changes.
func TestConfigMap(t *testing.T) {
	f := newFixture(t, catalogoperator.Options{})
	catalog := f.catalog("internal", v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeInternal, ConfigMap: "content"})
	f.waitForReason(catalog, "ConfigMapError", func(m string) bool {
		return strings.HasPrefix(m, "failed to get catalog config map content: ") && strings.Contains(m, "not found")
	})

	content := named(&corev1.ConfigMap{Data: map[string]string{"packages": "[]"}}, "content")
	content.Namespace = f.namespace
	f.Must(f.Create(t.Context(), content))
	pod := f.onePod(labelServing, "internal")
	want := []string{"configmap-server", "-c", "content", "-n", f.namespace}
	if diff := cmp.Diff(want, pod.Spec.Containers[0].Command); diff != "" || pod.Spec.Containers[0].Image != "quay.io/example/server:v1" || pod.Spec.ServiceAccountName != "internal-configmap-server" {
		t.Errorf("got the pod spec %+v\n%s", pod.Spec, diff)
	}

	role := named(&rbacv1.Role{}, "internal-configmap-reader")
	role.Namespace = f.namespace
	f.Must(f.get(role))
	if diff := cmp.Diff([]rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"content"}}}, role.Rules); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}

	binding := named(&rbacv1.RoleBinding{}, "internal-server-configmap-reader")
	binding.Namespace = f.namespace
	f.Must(f.get(binding))
	follows := func() error {
		if err := f.get(content); err != nil {
			return err
		}
		if err := f.get(catalog); err != nil {
			return err
		}

		got := catalog.Status.ConfigMapResource
		if got == nil || got.Name != "content" || got.Namespace != f.namespace || got.UID != content.UID || got.ResourceVersion != content.ResourceVersion || got.LastUpdateTime.IsZero() {
			return fmt.Errorf("the status has %+v, the ConfigMap is at %s", got, content.ResourceVersion)
		}
		if label := f.onePod(labelServing, "internal").Labels["olm.configMapResourceVersion"]; label != content.ResourceVersion {
			return fmt.Errorf("the pod serves %s, the ConfigMap is at %s", label, content.ResourceVersion)
		}

		return nil
	}

	f.eventually(follows)
	if content.Labels["olm.managed"] != "false" || len(content.OwnerReferences) != 1 || content.OwnerReferences[0].UID != catalog.UID {
		t.Errorf("the ConfigMap has the labels %v and is of %v", content.Labels, content.OwnerReferences)
	}

	env.EditObject(f.Fixture, content, func(m *corev1.ConfigMap) { m.Data["packages"] = "- packageName: etcd" })
	f.onePod(labelServing, "internal", pod.Name)
	f.eventually(follows)

	other := named(&corev1.ConfigMap{}, "other")
	other.Namespace = f.namespace
	f.Must(f.Create(t.Context(), other))
	env.EditObject(f.Fixture, catalog, func(s *v1alpha1.CatalogSource) { s.Spec.ConfigMap = "other" })
	f.eventually(func() error {
		if got := f.onePod(labelServing, "internal").Spec.Containers[0].Command[2]; got != "other" {
			return fmt.Errorf("the pod serves %s", got)
		}
		if err := f.get(role); err != nil || role.Rules[0].ResourceNames[0] == "other" {
			return err
		}
		return fmt.Errorf("the role is for %v", role.Rules[0].ResourceNames)
	})
}
