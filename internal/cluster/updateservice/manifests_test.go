package updateservice

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// readManifests decodes the manifests of the service by file, and fails on other files.
func readManifests(t *testing.T, into map[string]client.Object) []string {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(root, "config", "update-service")
	read := func(name string, into any) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = yaml.UnmarshalStrict(data, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}

	var index struct {
		metav1.TypeMeta `json:",inline"`
		Resources       []string `json:"resources"`
	}
	read("kustomization.yaml", &index)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		if entry.Name() != "kustomization.yaml" && !slices.Contains(index.Resources, entry.Name()) {
			t.Errorf("kustomization.yaml does not contain %s", entry.Name())
		}
	}

	for _, name := range index.Resources {
		if into[name] == nil {
			t.Fatalf("got the file %s, which no test checks", name)
		}
		read(name, into[name])
	}

	return index.Resources
}

// The API server accepts the manifests, and they are consistent. Of the two pods, one remains
// available.
func TestManifests(t *testing.T) {
	var (
		namespace  corev1.Namespace
		config     corev1.ConfigMap
		deployment appsv1.Deployment
		service    corev1.Service
		budget     policyv1.PodDisruptionBudget
		policy     networkingv1.NetworkPolicy
	)

	objects := map[string]client.Object{
		"namespace.yaml": &namespace, "config.yaml": &config, "deployment.yaml": &deployment, "service.yaml": &service,
		"disruption_budget.yaml": &budget, "network_policy.yaml": &policy,
	}
	order := readManifests(t, objects)
	c := env.Client(t, corev1.AddToScheme, appsv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme)
	for _, name := range order {
		if err := c.Create(t.Context(), objects[name]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	pod := deployment.Spec.Template
	if expectSelects(t, budget.Spec.Selector, pod.Labels); budget.Spec.MinAvailable.IntValue() != 1 || *deployment.Spec.Replicas != 2 {
		t.Errorf("got %d pods of which at least %s remain, want 1 of 2", *deployment.Spec.Replicas, budget.Spec.MinAvailable)
	}

	expectSelects(t, &policy.Spec.PodSelector, pod.Labels)
	expectSelects(t, &metav1.LabelSelector{MatchLabels: service.Spec.Selector}, pod.Labels)
	container := pod.Spec.Containers[0]
	var ports []string
	for _, port := range container.Ports {
		ports = append(ports, port.Name)
	}

	var open []string
	for _, port := range policy.Spec.Ingress[0].Ports {
		open = append(open, port.Port.String())
	}

	if !slices.Equal(ports, open) || !slices.Contains(ports, service.Spec.Ports[0].TargetPort.String()) {
		t.Errorf("got open ports %[2]q and service port %[3]s, want the container ports %[1]q", ports, open, service.Spec.Ports[0].TargetPort.String())
	}

	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			continue // It has its value.
		}
		if _, ok := config.Data[variable.ValueFrom.ConfigMapKeyRef.Key]; !ok || variable.ValueFrom.ConfigMapKeyRef.Name != config.Name {
			t.Errorf("the ConfigMap has no value for %s", variable.Name)
		}
	}

	s := newService(t, Options{Releases: config.Data["releases"], DataImage: config.Data["graph-data-image"]})
	for path, want := range map[string]int{container.LivenessProbe.HTTPGet.Path: http.StatusOK, container.ReadinessProbe.HTTPGet.Path: http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		if s.StatusHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want {
			t.Errorf("%s before the first graph: got status %d, want %d", path, w.Code, want)
		}
	}
}

func expectSelects(t *testing.T, selector *metav1.LabelSelector, of labels.Set) {
	t.Helper()
	if s, err := metav1.LabelSelectorAsSelector(selector); err != nil || s.Empty() || !s.Matches(of) {
		t.Errorf("selector %v: got no match of the labels %v (error %v), want one", selector, of, err)
	}
}
