package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// manifest is an object of a file below this folder.
type manifest struct {
	file   string
	object *unstructured.Unstructured
}

func (m manifest) String() string {
	return fmt.Sprintf("%s: %s %s", m.file, m.object.GetKind(), m.object.GetName())
}

// manifests returns every object below this folder, except test data.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var all []manifest
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case filepath.Ext(path) != ".yaml" || d.Name() == "kustomization.yaml":
			return nil
		}

		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var raw runtime.RawExtension
			err := decoder.Decode(&raw)
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", path, err)
			case len(raw.Raw) == 0 || string(raw.Raw) == "null":
				continue // Only comments.
			}

			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(raw.Raw); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}

			all = append(all, manifest{path, object})
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	return all
}

// podSpecs returns the specs of the pods that a manifest creates.
func (m manifest) podSpecs(t *testing.T) []corev1.PodSpec {
	t.Helper()
	var found []any
	switch m.object.GetKind() {
	case "Deployment", "DaemonSet", "Job":
		spec, _, _ := unstructured.NestedMap(m.object.Object, "spec", "template", "spec")
		found = append(found, spec)
	case "ClusterServiceVersion":
		deployments, _, _ := unstructured.NestedSlice(m.object.Object, "spec", "install", "spec", "deployments")
		for _, d := range deployments {
			spec, _, _ := unstructured.NestedMap(d.(map[string]any), "spec", "template", "spec")
			found = append(found, spec)
		}
	}

	var specs []corev1.PodSpec
	for _, raw := range found {
		var spec corev1.PodSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.(map[string]any), &spec); err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		specs = append(specs, spec)
	}

	return specs
}

// TestContainersHaveMemoryLimits checks that every container has a request and a limit for memory, and that
// the Go runtime collects garbage before the container reaches the limit.
func TestContainersHaveMemoryLimits(t *testing.T) {
	containers := 0
	for _, m := range manifests(t) {
		for _, pod := range m.podSpecs(t) {
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				containers++
				request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
				if request.IsZero() || request.Cmp(*limit) > 0 {
					t.Errorf("%v: container %s requests %v of memory, want something up to the limit of %v", m, c.Name, request, limit)
				}

				goal := goMemoryLimit(c)
				if share := float64(goal.Value()) / float64(limit.Value()); limit.IsZero() || share < 0.8 || share > 0.95 {
					t.Errorf("%v: container %s has GOMEMLIMIT %v and a limit of %v, want 80 to 95 percent of it", m, c.Name, &goal, limit)
				}
			}
		}
	}

	if containers < 13 {
		t.Errorf("got %d containers, want at least 13", containers)
	}
}

// TestCatalogsFitTheirVolume compares the limit of all catalogs with the limit of the volume that stores them.
func TestCatalogsFitTheirVolume(t *testing.T) {
	for _, m := range manifests(t) {
		if m.object.GetKind() != "Deployment" || m.object.GetName() != "catalogd-controller-manager" {
			continue
		}
		if err := checkCatalogsFitVolume(m.podSpecs(t)[0]); err != nil {
			t.Errorf("%v: %v", m, err)
		}
		return
	}

	t.Error("catalogd has no Deployment")
}

// checkCatalogsFitVolume returns an error unless catalogd limits its catalogs to less than the size of its volume.
func checkCatalogsFitVolume(pod corev1.PodSpec) error {
	var limit resource.Quantity
	var folder string
	for _, arg := range pod.Containers[0].Args {
		if text, ok := strings.CutPrefix(arg, "--catalogs-size-limit="); ok {
			limit = resource.MustParse(text)
		}
		if text, ok := strings.CutPrefix(arg, "--cache-dir="); ok {
			folder = text
		}
	}

	mount := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == folder })
	if mount < 0 {
		return fmt.Errorf("no volume is mounted at the folder of the catalogs, %q", folder)
	}

	name := pod.Containers[0].VolumeMounts[mount].Name
	volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if volume < 0 || pod.Volumes[volume].EmptyDir == nil || pod.Volumes[volume].EmptyDir.SizeLimit == nil {
		return fmt.Errorf("the volume %q of the catalogs is not an emptyDir with a sizeLimit", name)
	}

	if size := pod.Volumes[volume].EmptyDir.SizeLimit; limit.IsZero() || limit.Cmp(*size) >= 0 {
		return fmt.Errorf("the catalogs may have %v on a volume of %v", &limit, size)
	}
	return nil
}

// TestCatalogsThatDoNotFitAreFound checks that TestCatalogsFitTheirVolume finds manifests with a fault.
func TestCatalogsThatDoNotFitAreFound(t *testing.T) {
	newPod := func() corev1.PodSpec {
		size := resource.MustParse("2Gi")
		return corev1.PodSpec{
			Containers: []corev1.Container{{
				Args:         []string{"--cache-dir=/cache", "--catalogs-size-limit=1Gi"},
				VolumeMounts: []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}},
			}},
			Volumes: []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}},
		}
	}
	if err := checkCatalogsFitVolume(newPod()); err != nil {
		t.Errorf("unchanged: got %v, want no error", err)
	}

	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"no volume":                {func(p *corev1.PodSpec) { p.Volumes = nil }, `"cache" of the catalogs is not an emptyDir`},
		"another volume":           {func(p *corev1.PodSpec) { p.Volumes[0].Name = "other" }, `"cache" of the catalogs is not an emptyDir`},
		"a volume without a limit": {func(p *corev1.PodSpec) { p.Volumes[0].EmptyDir.SizeLimit = nil }, `"cache" of the catalogs is not an emptyDir`},
		"no mount":                 {func(p *corev1.PodSpec) { p.Containers[0].VolumeMounts = nil }, `no volume is mounted`},
		"no limit":                 {func(p *corev1.PodSpec) { p.Containers[0].Args = p.Containers[0].Args[:1] }, "may have 0"},
		"no folder":                {func(p *corev1.PodSpec) { p.Containers[0].Args = p.Containers[0].Args[1:] }, `no volume is mounted`},
		"a limit too large":        {func(p *corev1.PodSpec) { p.Containers[0].Args[1] = "--catalogs-size-limit=2Gi" }, "may have 2Gi on a volume of 2Gi"},
	} {
		pod := newPod()
		test.change(&pod)
		if err := checkCatalogsFitVolume(pod); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
}

// selects reports whether the selector at a path of a manifest selects pods with these labels.
func (m manifest) selects(t *testing.T, pod map[string]string, path ...string) bool {
	t.Helper()
	raw, _, err := unstructured.NestedMap(m.object.Object, path...)
	if err != nil {
		t.Fatalf("%v: %v", m, err)
	}

	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector); err != nil {
		t.Fatalf("%v: %v", m, err)
	}

	selects, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		t.Fatalf("%v: %v", m, err)
	}

	return selects.Matches(labels.Set(pod))
}

// workload is an object that creates pods.
type workload struct {
	manifest

	namespace string
	labels    map[string]string
	pod       corev1.PodSpec
	replicas  int64
}

// workloads returns all workloads below this folder.
func workloads(t *testing.T, all []manifest) []workload {
	t.Helper()
	var found []workload
	for _, m := range all {
		for i, pod := range m.podSpecs(t) {
			template, _, _ := unstructured.NestedMap(m.object.Object, "spec")
			namespace := m.object.GetNamespace()
			if m.object.GetKind() == "ClusterServiceVersion" {
				deployments, _, _ := unstructured.NestedSlice(m.object.Object, "spec", "install", "spec", "deployments")
				template = deployments[i].(map[string]any)["spec"].(map[string]any)
			}

			podLabels, _, _ := unstructured.NestedStringMap(template, "template", "metadata", "labels")
			replicas, _, _ := unstructured.NestedInt64(template, "replicas")
			found = append(found, workload{m, namespace, podLabels, pod, replicas})
		}
	}

	return found
}

// TestPodsHaveNetworkPolicies checks that every pod that is not on the network of its
// node has a policy, and that each ingress rule limits the ports.
func TestPodsHaveNetworkPolicies(t *testing.T) {
	all := manifests(t)
	for _, w := range workloads(t, all) {
		isCovered := w.pod.HostNetwork
		for _, m := range all {
			if m.object.GetKind() != "NetworkPolicy" || m.object.GetNamespace() != w.namespace || !m.selects(t, w.labels, "spec", "podSelector") {
				continue
			}
			isCovered = true
			rules, _, _ := unstructured.NestedSlice(m.object.Object, "spec", "ingress")
			for _, rule := range rules {
				if ports, _, _ := unstructured.NestedSlice(rule.(map[string]any), "ports"); len(ports) == 0 {
					t.Errorf("%v: got an ingress rule for every port of %v, want one with ports", m, w)
				}
			}
		}
		if !isCovered {
			t.Errorf("%v: no NetworkPolicy in namespace %s selects its pods", w, w.namespace)
		}
	}
}

// TestReplicasHaveDisruptionBudgets checks that a workload has a budget if it has several replicas. With a single
// replica it must have none, because the budget would prevent the drain of its node.
func TestReplicasHaveDisruptionBudgets(t *testing.T) {
	all := manifests(t)
	for _, w := range workloads(t, all) {
		budgets := 0
		for _, m := range all {
			if m.object.GetKind() == "PodDisruptionBudget" && m.object.GetNamespace() == w.namespace && m.selects(t, w.labels, "spec", "selector") {
				budgets++
			}
		}
		if want := w.replicas > 1; (budgets == 1) != want || budgets > 1 {
			t.Errorf("%v with %d replicas: got %d PodDisruptionBudgets, want one: %v", w, w.replicas, budgets, want)
		}
	}
}

// goMemoryLimit returns GOMEMLIMIT of a container, or zero if it is not set or invalid.
func goMemoryLimit(c corev1.Container) resource.Quantity {
	for _, v := range c.Env {
		if text, ok := strings.CutSuffix(v.Value, "B"); ok && v.Name == "GOMEMLIMIT" {
			quantity, _ := resource.ParseQuantity(text)
			return quantity
		}
	}
	return resource.Quantity{}
}
