package objects_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const tagged = "quay.io/example/catalog:v1"

// catalog returns a catalog with an image, changed by a test.
func catalog(change func(*objects.Catalog)) *objects.Catalog {
	c := &objects.Catalog{
		CatalogSource: &v1alpha1.CatalogSource{
			ObjectMeta: metav1.ObjectMeta{Name: "my.catalog", Namespace: "olm", UID: "7b8f3a3e", Annotations: map[string]string{"a": "b"}},
			Spec:       v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: tagged},
		},
		Images: objects.Images{
			OPM:             objects.Program{Image: "quay.io/example/opm:v1", Command: []string{"/bin/opm"}},
			ConfigMapServer: objects.Program{Image: "quay.io/example/server:v1", Command: []string{"configmap-server"}},
			Copy: objects.CopyProgram{
				Image: "quay.io/example/util@sha256:e3b0", Install: []string{"cp", "/bin/copy-content", "/utilities/copy-content"}, Command: []string{"/utilities/copy-content"},
			},
		},
	}
	if change != nil {
		change(c)
	}
	return c
}

func configMapCatalog() *objects.Catalog {
	return catalog(func(c *objects.Catalog) {
		c.Spec = v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeInternal, ConfigMap: "content"}
		c.ConfigMapVersion = "17"
	})
}

// config returns a function that configures the pod of a catalog.
func config(change func(*v1alpha1.GrpcPodConfig)) func(*objects.Catalog) {
	return func(c *objects.Catalog) {
		c.Spec.GrpcPodConfig = &v1alpha1.GrpcPodConfig{}
		change(c.Spec.GrpcPodConfig)
	}
}

func pod(t *testing.T, c *objects.Catalog) *corev1.Pod {
	t.Helper()
	made, err := c.Pod()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestObjects compares all objects of a catalog with the golden file.
func TestObjects(t *testing.T) {
	quantity := resource.MustParse("1Gi")
	for name, c := range map[string]*objects.Catalog{
		"image":     catalog(nil),
		"configmap": configMapCatalog(),
		"extract": catalog(config(func(g *v1alpha1.GrpcPodConfig) {
			g.ExtractContent = &v1alpha1.ExtractContentConfig{CatalogDir: "/configs", CacheDir: "/cache"}
			g.SecurityContextConfig = v1alpha1.Restricted
			g.MemoryTarget = &quantity
		})),
	} {
		t.Run(name, func(t *testing.T) {
			service, err := c.Service()
			if err != nil {
				t.Fatal(err)
			}

			all := []any{pod(t, c), service, c.ServiceAccount()}
			for _, policy := range c.NetworkPolicies() {
				all = append(all, policy)
			}

			if c.IsConfigMap() {
				all = append(all, c.Role(), c.RoleBinding())
			}

			var text strings.Builder
			for _, object := range all {
				data, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				text.WriteString("---\n" + string(data))
			}

			golden.Check(t, name+".yaml", []byte(text.String()))
		})
	}
}

// TestPodSpec: the options of users for the pod of a catalog.
func TestPodSpec(t *testing.T) {
	empty, custom := "", "custom"
	megabytes, mebibytes := resource.MustParse("100M"), resource.MustParse("100Mi")
	for _, tc := range []struct {
		name   string
		change func(*objects.Catalog)
		got    func(*corev1.Pod) any
		want   any
	}{
		{"tag", nil, func(p *corev1.Pod) any { return p.Spec.Containers[0].ImagePullPolicy }, corev1.PullAlways},
		{"digest", func(c *objects.Catalog) { c.Spec.Image = "quay.io/example/catalog@sha256:e3b0" }, func(p *corev1.Pod) any { return p.Spec.Containers[0].ImagePullPolicy }, corev1.PullIfNotPresent},
		{"no priority class", nil, func(p *corev1.Pod) any { return p.Spec.PriorityClassName }, ""},
		{"priority class", config(func(g *v1alpha1.GrpcPodConfig) { g.PriorityClassName = &custom }), func(p *corev1.Pod) any { return p.Spec.PriorityClassName }, "custom"},
		{"empty priority class", config(func(g *v1alpha1.GrpcPodConfig) { g.PriorityClassName = &empty }), func(p *corev1.Pod) any { return p.Spec.PriorityClassName }, ""},
		{"annotated priority class", func(c *objects.Catalog) {
			config(func(g *v1alpha1.GrpcPodConfig) { g.PriorityClassName = &custom })(c)
			c.Annotations[v1alpha1.AnnotationPriorityClass] = "annotated"
		}, func(p *corev1.Pod) any { return p.Spec.PriorityClassName }, "annotated"},
		{"empty annotation", func(c *objects.Catalog) {
			config(func(g *v1alpha1.GrpcPodConfig) { g.PriorityClassName = &custom })(c)
			c.Annotations[v1alpha1.AnnotationPriorityClass] = ""
		}, func(p *corev1.Pod) any { return p.Spec.PriorityClassName }, "custom"},
		{"node selector", nil, func(p *corev1.Pod) any { return p.Spec.NodeSelector }, map[string]string{"kubernetes.io/os": "linux"}},
		{"own node selector", config(func(g *v1alpha1.GrpcPodConfig) { g.NodeSelector = map[string]string{"a": "b"} }), func(p *corev1.Pod) any { return p.Spec.NodeSelector }, map[string]string{"a": "b"}},
		{"no tolerations", nil, func(p *corev1.Pod) any { return len(p.Spec.Tolerations) }, 0},
		{"tolerations", config(func(g *v1alpha1.GrpcPodConfig) { g.Tolerations = []corev1.Toleration{{Key: "k"}} }), func(p *corev1.Pod) any { return p.Spec.Tolerations }, []corev1.Toleration{{Key: "k"}}},
		{"affinity", config(func(g *v1alpha1.GrpcPodConfig) { g.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}} }), func(p *corev1.Pod) any { return p.Spec.Affinity.NodeAffinity != nil }, true},
		{"secrets", func(c *objects.Catalog) { c.Spec.Secrets = []string{"a", "", "b"} }, func(p *corev1.Pod) any { return p.Spec.ImagePullSecrets }, []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}},
		{"no memory target", nil, func(p *corev1.Pod) any { return len(p.Spec.Containers[0].Env) }, 0},
		{"memory target", config(func(g *v1alpha1.GrpcPodConfig) { g.MemoryTarget = &mebibytes }), func(p *corev1.Pod) any { return p.Spec.Containers[0].Env }, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "100MiB"}}},
		{"decimal memory target", config(func(g *v1alpha1.GrpcPodConfig) { g.MemoryTarget = &megabytes }), func(p *corev1.Pod) any { return p.Spec.Containers[0].Env }, []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "100000000B"}}},
		{"memory limit", config(func(g *v1alpha1.GrpcPodConfig) { g.MemoryTarget = &mebibytes }), func(p *corev1.Pod) any { return len(p.Spec.Containers[0].Resources.Limits) }, 0},
		{"legacy", nil, func(p *corev1.Pod) any {
			return p.Spec.SecurityContext == nil && p.Spec.Containers[0].SecurityContext.Capabilities == nil
		}, true},
		{"restricted namespace", func(c *objects.Catalog) { c.NamespaceLabels = map[string]string{objects.LabelEnforce: "restricted"} }, isRestricted, true},
		{"baseline namespace", func(c *objects.Catalog) { c.NamespaceLabels = map[string]string{objects.LabelEnforce: "baseline"} }, isRestricted, false},
		{"restricted namespace of a ConfigMap", func(c *objects.Catalog) {
			c.Spec = configMapCatalog().Spec
			c.NamespaceLabels = map[string]string{objects.LabelEnforce: "restricted"}
		}, isRestricted, true},
		{"legacy in a restricted namespace", func(c *objects.Catalog) {
			config(func(g *v1alpha1.GrpcPodConfig) { g.SecurityContextConfig = v1alpha1.Legacy })(c)
			c.NamespaceLabels = map[string]string{objects.LabelEnforce: "restricted"}
		}, isRestricted, false},
		{"user of its own", func(c *objects.Catalog) {
			config(func(g *v1alpha1.GrpcPodConfig) { g.SecurityContextConfig = v1alpha1.Restricted })(c)
			c.SetUserID = true
		}, func(p *corev1.Pod) any { return *p.Spec.SecurityContext.RunAsUser }, int64(1001)},
		{"no user in legacy mode", func(c *objects.Catalog) { c.SetUserID = true }, func(p *corev1.Pod) any { return p.Spec.SecurityContext == nil }, true},
		{"annotations", nil, func(p *corev1.Pod) any { return p.Annotations }, map[string]string{"a": "b", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}},
		{"annotation of kubectl", func(c *objects.Catalog) { c.Annotations[corev1.LastAppliedConfigAnnotation] = "{}" }, func(p *corev1.Pod) any { return len(p.Annotations) }, 2},
		{"settings of a ConfigMap's", func(c *objects.Catalog) {
			config(func(g *v1alpha1.GrpcPodConfig) { g.Tolerations = []corev1.Toleration{{Key: "k"}} })(c)
			c.Spec.SourceType, c.Spec.ConfigMap = v1alpha1.SourceTypeConfigmap, "content"
		}, func(p *corev1.Pod) any { return len(p.Spec.Tolerations) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got(pod(t, catalog(tc.change)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func isRestricted(p *corev1.Pod) any {
	if p.Spec.SecurityContext == nil {
		return false
	}

	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range containers {
			if *c.SecurityContext.AllowPrivilegeEscalation || c.SecurityContext.Capabilities.Drop[0] != "ALL" {
				return false
			}
		}
	}

	return p.Spec.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault
}
