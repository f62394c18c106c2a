package objects_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
)

func TestJudgePod(t *testing.T) {
	now := metav1.Now()
	condition := func(name corev1.PodConditionType) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: name, Status: corev1.ConditionTrue}}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   objects.Verdict
	}{
		{"unchanged", func(*corev1.Pod) {}, objects.Keep},
		{"another spec", func(p *corev1.Pod) { p.Labels[objects.LabelPodHash] = "other" }, objects.Replace},
		{"no hash", func(p *corev1.Pod) { delete(p.Labels, objects.LabelPodHash) }, objects.Replace},
		{"another image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, objects.Replace},
		{"an injected container", func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "mesh", Image: "mesh"})
		}, objects.Keep},
		{"without its container", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "other" }, objects.Replace},
		{"evicted", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, objects.Replace},
		{"over", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, objects.Replace},
		{"going", func(p *corev1.Pod) { p.DeletionTimestamp = &now }, objects.Ignore},
		{"node is lost", condition(corev1.DisruptionTarget), objects.Remove},
		{"node is lost, being deleted", func(p *corev1.Pod) { condition(corev1.DisruptionTarget)(p); p.DeletionTimestamp = &now }, objects.Remove},
		{"ready", condition(corev1.PodReady), objects.Keep},
	} {
		t.Run(tc.name, func(t *testing.T) {
			live := pod(t, catalog(nil))
			tc.change(live)
			if got := objects.JudgePod(live, pod(t, catalog(nil))); got != tc.want {
				t.Errorf("got verdict %d, want %d", got, tc.want)
			}
		})
	}

	t.Run("older ConfigMap", func(t *testing.T) {
		newer := configMapCatalog()
		newer.ConfigMapVersion = "18"
		if got := objects.JudgePod(pod(t, configMapCatalog()), pod(t, newer)); got != objects.Replace {
			t.Errorf("got verdict %d", got)
		}
	})

	t.Run("another image of the catalog", func(t *testing.T) {
		c := catalog(config(func(g *v1alpha1.GrpcPodConfig) {
			g.ExtractContent = &v1alpha1.ExtractContentConfig{CatalogDir: "/configs"}
		}))
		live := pod(t, c)
		live.Spec.InitContainers[1].Image = "other"
		if got := objects.JudgePod(live, pod(t, c)); got != objects.Replace {
			t.Errorf("got verdict %d", got)
		}
	})
}

func waiting(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "registry-server", Image: tagged,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "message of the node"}},
	}
}

func TestProblems(t *testing.T) {
	const notPulled = `pod p: container registry-server waits for image "quay.io/example/catalog:v1", which cannot be pulled: check the reference and spec.secrets; the pod's events say more`
	for _, tc := range []struct {
		status corev1.PodStatus
		want   string
		broken bool
	}{
		{corev1.PodStatus{}, "", false},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ContainerCreating")}}, "", false},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ErrImagePull")}}, notPulled, false},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff")}}, notPulled, false},
		{corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff")}}, notPulled, false},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("InvalidImageName")}}, `pod p: container registry-server has the image "quay.io/example/catalog:v1", which is not a valid image reference`, false},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff")}}, "pod p: container registry-server restarts repeatedly: see its log for the reason", true},
		{corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff")}}, "pod p: container registry-server restarts repeatedly: see its log for the reason", true},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CreateContainerConfigError")}}, "pod p: container registry-server cannot be started: message of the node", false},
		{corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available"}}}, "pod p: cannot be scheduled: 0/1 nodes are available", false},
		{corev1.PodStatus{Phase: corev1.PodFailed}, "", true},
		{corev1.PodStatus{Phase: corev1.PodUnknown}, "", true},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: tc.status}
		if got := objects.Problem(p); got != tc.want {
			t.Errorf("got problem %q, want %q", got, tc.want)
		}
		if got := objects.IsBroken(p); got != tc.broken {
			t.Errorf("%+v: got broken %v", tc.status, got)
		}
	}
}

func TestImageID(t *testing.T) {
	p := pod(t, catalog(nil))
	if got := objects.ImageID(p); got != "" {
		t.Errorf("got the image %q of a pod that has not started", got)
	}

	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", ImageID: "mesh"}, {Name: "registry-server", ImageID: "catalog"}}
	if got := objects.ImageID(p); got != "catalog" {
		t.Errorf("got the image %q", got)
	}

	p = pod(t, catalog(config(func(g *v1alpha1.GrpcPodConfig) {
		g.ExtractContent = &v1alpha1.ExtractContentConfig{CatalogDir: "/configs"}
	})))
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "registry-server", ImageID: "opm"}}
	if got := objects.ImageID(p); got != "" {
		t.Errorf("the image that serves extracted content counts as the catalog: %q", got)
	}

	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "extract-utilities", ImageID: "util"}, {Name: "extract-content", ImageID: "catalog"}}
	if got := objects.ImageID(p); got != "catalog" {
		t.Errorf("got the image %q", got)
	}
}

func TestReadySince(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at}}}}
	if got := objects.ReadySince(p); !got.Equal(&at) || !objects.IsReady(p) {
		t.Errorf("got the ready time %v", got)
	}

	p.Status.Conditions[0].Status = corev1.ConditionFalse
	if got := objects.ReadySince(p); !got.IsZero() || objects.IsReady(p) {
		t.Errorf("got the ready time %v", got)
	}
}

// TestFix: changed fields are corrected, additions of others stay, and an object without changes is not
// updated.
func TestFix(t *testing.T) {
	c := catalog(func(c *objects.Catalog) { c.Spec.Secrets = []string{"login"} })
	service := func() *corev1.Service {
		s, err := c.Service()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	t.Run("Service", func(t *testing.T) {
		live := service()
		live.Spec.ClusterIP = "10.0.0.1"
		if objects.FixService(live, service()) {
			t.Error("an object without changes was updated")
		}

		live.Spec.Selector["other"] = "x"
		live.Spec.Ports[0].TargetPort.IntVal = 1
		live.Labels = map[string]string{"own": "y"}
		if !objects.FixService(live, service()) || live.Labels["own"] != "y" || live.Spec.ClusterIP != "10.0.0.1" {
			t.Errorf("the Service is not corrected: %+v", live)
		}

		live.Spec.Ports = append(live.Spec.Ports, corev1.ServicePort{Name: "other", Port: 1})
		if !objects.FixService(live, service()) || objects.FixService(live, service()) {
			t.Error("the Service is not corrected, or is updated twice")
		}
	})

	t.Run("ServiceAccount", func(t *testing.T) {
		live := c.ServiceAccount()
		live.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "platform"}}
		live.OwnerReferences = nil
		if !objects.FixAccount(live, c.ServiceAccount()) || objects.FixAccount(live, c.ServiceAccount()) {
			t.Error("the ServiceAccount is not corrected")
		}

		want := []corev1.LocalObjectReference{{Name: "platform"}, {Name: "login"}}
		if diff := cmp.Diff(want, live.ImagePullSecrets); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})

	t.Run("NetworkPolicy", func(t *testing.T) {
		live := c.NetworkPolicies()[0]
		live.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
		if !objects.FixNetworkPolicy(live, c.NetworkPolicies()[0]) || objects.FixNetworkPolicy(live, c.NetworkPolicies()[0]) {
			t.Error("the NetworkPolicy is not corrected")
		}
	})

	t.Run("Role and RoleBinding", func(t *testing.T) {
		c := configMapCatalog()
		role, binding := c.Role(), c.RoleBinding()
		role.Rules[0].Verbs = []string{"*"}
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "User", Name: "eve"})
		if !objects.FixRole(role, c.Role()) || !objects.FixRoleBinding(binding, c.RoleBinding()) || objects.FixRole(role, c.Role()) || objects.FixRoleBinding(binding, c.RoleBinding()) {
			t.Error("the Role and the RoleBinding are not corrected")
		}
	})
}

func TestIsForeign(t *testing.T) {
	c := catalog(nil)
	owner, yes := c.Owner(), true
	for _, tc := range []struct {
		name string
		meta metav1.ObjectMeta
		want bool
	}{
		{"its own", c.ServiceAccount().ObjectMeta, false},
		{"a person's", metav1.ObjectMeta{}, true},
		{"lost its owner", metav1.ObjectMeta{Labels: map[string]string{objects.LabelManaged: "true"}}, false},
		{"another catalog's", metav1.ObjectMeta{
			Labels:          map[string]string{objects.LabelManaged: "true"},
			OwnerReferences: []metav1.OwnerReference{{Kind: owner.Kind, Name: "other", UID: types.UID("other"), Controller: &yes}},
		}, true},
	} {
		if got := objects.IsForeign(&corev1.ServiceAccount{ObjectMeta: tc.meta}, owner); got != tc.want {
			t.Errorf("%s: got foreign %v", tc.name, got)
		}
	}
}

func TestMissingImage(t *testing.T) {
	extract := config(func(g *v1alpha1.GrpcPodConfig) {
		g.ExtractContent = &v1alpha1.ExtractContentConfig{CatalogDir: "/configs"}
	})
	for _, tc := range []struct {
		c    *objects.Catalog
		none func(*objects.Images)
		want string
	}{
		{catalog(nil), func(i *objects.Images) { *i = objects.Images{} }, ""},
		{configMapCatalog(), func(*objects.Images) {}, ""},
		{configMapCatalog(), func(i *objects.Images) { i.ConfigMapServer.Image = "" }, "--configmapServerImage"},
		{catalog(extract), func(*objects.Images) {}, ""},
		{catalog(extract), func(i *objects.Images) { i.OPM.Image = "" }, "--opmImage"},
		{catalog(extract), func(i *objects.Images) { i.Copy.Image = "" }, "--util-image"},
	} {
		tc.none(&tc.c.Images)
		if got := tc.c.MissingImage(); got != tc.want {
			t.Errorf("got missing %q, want %q", got, tc.want)
		}
	}
}
