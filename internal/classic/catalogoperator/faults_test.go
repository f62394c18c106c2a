package catalogoperator_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/catalogoperator"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestSpecFaults creates catalogs whose spec is wrong, and corrects them.
func TestSpecFaults(t *testing.T) {
	forEachServingMode(t, func(t *testing.T, f *servedFixture) {
		f.publish("etcd")
		for name, test := range map[string]struct {
			spec         v1alpha1.CatalogSourceSpec
			reason, want string
		}{
			"type":      {v1alpha1.CatalogSourceSpec{SourceType: "http", Image: f.image}, "SpecInvalidError", "unknown sourcetype: http"},
			"nothing":   {v1alpha1.CatalogSourceSpec{SourceType: "grpc"}, "SpecInvalidError", "image and address unset: at least one must be set for sourcetype: grpc"},
			"no-port":   {v1alpha1.CatalogSourceSpec{SourceType: "grpc", Address: "catalog.example.com"}, "RegistryServerError", "couldn't connect to registry - the address of a catalog is HOST:PORT"},
			"no-server": {v1alpha1.CatalogSourceSpec{SourceType: "grpc", Address: "127.0.0.1:1"}, "RegistryServerError", "couldn't connect to registry - "},
			"configmap": {v1alpha1.CatalogSourceSpec{SourceType: "configmap"}, "SpecInvalidError", "configmap name unset: must be set for sourcetype: configmap"},
			"missing":   {v1alpha1.CatalogSourceSpec{SourceType: "configmap", ConfigMap: "none"}, "ConfigMapError", "failed to get catalog config map none: "},
		} {
			t.Run(name, func(*testing.T) {
				catalog := f.catalog(name, test.spec)
				f.waitForReason(catalog, test.reason, func(m string) bool { return strings.HasPrefix(m, test.want) })
				env.EditObject(f.Fixture, catalog, func(c *v1alpha1.CatalogSource) { c.Spec = image(f.image) })
				f.waitForState(catalog, "READY")
				f.waitForReason(catalog, "", is(""))
			})
		}
	})
}

// TestInvalidReference names an image that is not a valid reference.
func TestInvalidReference(t *testing.T) {
	f := newInlineFixture(t)
	f.publish("etcd")
	catalog := f.catalog("invalid", image("Not A Reference"))
	f.waitForReason(catalog, "RegistryServerError", func(m string) bool {
		return strings.HasPrefix(m, "couldn't connect to registry - ") && strings.Contains(m, "Not A Reference")
	})
	env.EditObject(f.Fixture, catalog, func(c *v1alpha1.CatalogSource) { c.Spec.Image = f.image })
	f.waitForState(catalog, "READY")
	f.waitForReason(catalog, "", is(""))
}

// TestCrashLoopRecovers lets the pod of a catalog restart until it runs.
func TestCrashLoopRecovers(t *testing.T) {
	address, stop := serve(t, "127.0.0.1:0")
	stop()
	f := newFixture(t, catalogoperator.Options{Proxy: newServiceNetwork(t, address)})
	catalog := f.catalog("crashing", image("quay.io/example/catalog:v1"))
	pod := f.onePod(labelServing, "crashing")
	f.updatePodStatus(pod, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodRunning
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "registry-server", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	})
	f.waitForReason(catalog, "RegistryServerError", is("couldn't connect to registry - pod "+pod.Name+": container registry-server restarts repeatedly: see its log for the reason"))

	serve(t, address)
	f.setPodRunning(pod, "sha256:1")
	f.waitForState(catalog, "READY")
	f.waitForReason(catalog, "", is(""))
	if kept := f.onePod(labelServing, "crashing"); kept.Name != pod.Name {
		t.Errorf("got pod %s, want %s", kept.Name, pod.Name)
	}
}
