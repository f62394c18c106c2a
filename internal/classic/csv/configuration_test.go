package csv_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csv"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

func TestConfig(t *testing.T) {
	of := func(name, installed, current string) v1alpha1.Subscription {
		s := v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.Config = &v1alpha1.SubscriptionConfig{NodeSelector: map[string]string{"of": name}}
		s.Status.InstalledCSV, s.Status.CurrentCSV = installed, current
		return s
	}

	without := of("a", "etcd.v1", "etcd.v1")
	without.Spec.Config = nil
	tests := map[string]struct {
		subscriptions []v1alpha1.Subscription
		want          string
	}{
		"none":                       {nil, ""},
		"another's":                  {[]v1alpha1.Subscription{of("a", "other.v1", "other.v2"), of("b", "", "")}, ""},
		"installed":                  {[]v1alpha1.Subscription{of("a", "other.v1", "other.v2"), of("b", "etcd.v1", "etcd.v2")}, "b"},
		"chosen":                     {[]v1alpha1.Subscription{of("a", "etcd.v0", "etcd.v1")}, "a"},
		"installed before chosen":    {[]v1alpha1.Subscription{of("a", "", "etcd.v1"), of("b", "etcd.v1", "etcd.v2")}, "b"},
		"first by name":              {[]v1alpha1.Subscription{of("b", "etcd.v1", "etcd.v1"), of("a", "etcd.v1", "etcd.v1")}, "a"},
		"no configuration":           {[]v1alpha1.Subscription{without, of("b", "etcd.v0", "etcd.v1")}, ""},
		"the name is the whole name": {[]v1alpha1.Subscription{of("a", "etcd.v10", "etcd.v11")}, ""},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if config := csv.Config("etcd.v1", tt.subscriptions); config != nil {
				got = config.NodeSelector["of"]
			}
			if got != tt.want {
				t.Errorf("got the configuration of %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTransform(t *testing.T) {
	config := &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}
	metadata := metav1.ObjectMeta{Namespace: "ns", Name: "etcd", ResourceVersion: "7", Annotations: map[string]string{"a": "b"}}
	annotations := map[string]string{"hash": "1"}
	for name, test := range map[string]struct{ full, want client.Object }{
		"a Subscription": {
			&v1alpha1.Subscription{
				ObjectMeta: metadata,
				Spec:       v1alpha1.SubscriptionSpec{Package: "etcd", CatalogSource: "community", Config: config},
				Status: v1alpha1.SubscriptionStatus{
					InstalledCSV: "etcd.v1", CurrentCSV: "etcd.v2", State: v1alpha1.SubscriptionStateUpgradePending,
					Conditions: []v1alpha1.SubscriptionCondition{{Type: v1alpha1.SubscriptionBundleUnpacking, Status: corev1.ConditionTrue}},
				},
			},
			&v1alpha1.Subscription{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "etcd", ResourceVersion: "7"},
				Spec:       v1alpha1.SubscriptionSpec{Config: config},
				Status:     v1alpha1.SubscriptionStatus{InstalledCSV: "etcd.v1", CurrentCSV: "etcd.v2"},
			},
		},
		"a Deployment": {
			&appsv1.Deployment{
				ObjectMeta: metadata,
				Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
					Spec: corev1.PodSpec{
						ServiceAccountName: "etcd", Containers: []corev1.Container{{Name: "c"}}, InitContainers: []corev1.Container{{Name: "i"}}, Volumes: []corev1.Volume{{Name: "v"}},
					},
				}},
				Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
			},
			&appsv1.Deployment{
				ObjectMeta: metadata,
				Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PodSpec{ServiceAccountName: "etcd"},
				}},
				Status: appsv1.DeploymentStatus{ReadyReplicas: 1},
			},
		},
		"a Pod": {&corev1.Pod{ObjectMeta: metadata}, &corev1.Pod{ObjectMeta: metadata}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := csv.Transform(test.full)
			if diff := cmp.Diff(any(test.want), got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// createSubscription creates a Subscription whose currentCSV is the given name.
func (c *fixture) createSubscription(name string, config *v1alpha1.SubscriptionConfig) *v1alpha1.Subscription {
	c.T.Helper()
	s := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "subscription"}}
	s.Spec = v1alpha1.SubscriptionSpec{CatalogSource: "community", CatalogSourceNamespace: "olm", Package: "etcd", Config: config}
	c.CreateAll(s)
	c.patchSubscriptionStatus(s, v1alpha1.SubscriptionStatus{CurrentCSV: name, LastUpdated: metav1.Now()})
	return s
}

// patchSubscriptionStatus sets the status of a Subscription, which olm-operator may be labelling.
func (c *fixture) patchSubscriptionStatus(s *v1alpha1.Subscription, status v1alpha1.SubscriptionStatus) {
	c.T.Helper()
	c.PatchStatus(s, func() { s.Status = status })
}

// updateSubscriptionConfig sets the configuration of a Subscription.
func (c *fixture) updateSubscriptionConfig(s *v1alpha1.Subscription, config *v1alpha1.SubscriptionConfig) {
	c.T.Helper()
	c.PatchObject(s, func() { s.Spec.Config = config })
}

// waitForRollout waits until a ClusterServiceVersion has succeeded with a Deployment that satisfies a condition. It then
// sets the clock forward, so that the next rollout does not back off because of many installations in a short time.
func (c *fixture) waitForRollout(what, name string, is func(*appsv1.Deployment) bool) *appsv1.Deployment {
	c.T.Helper()
	c.eventually(what, func() bool { return is(c.waitForDeployment("etcd")) })
	c.waitUntilSucceeded(name, "etcd")
	c.clock.JumpTo(time.Until(c.clock.Now().Add(time.Hour)))
	return c.waitForDeployment("etcd")
}

// The configuration of a Subscription is applied to the Deployments, updated with it, and removed with it.
func TestConfiguration(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0", func(csv *v1alpha1.ClusterServiceVersion) {
		pod := &csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template
		pod.Annotations = map[string]string{"own": "template"}
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LEVEL", Value: "info"}}
	}))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
	plain := c.waitForDeployment("etcd")
	config := &v1alpha1.SubscriptionConfig{
		Env:          []corev1.EnvVar{{Name: "LEVEL", Value: "debug"}, {Name: "HTTPS_PROXY", Value: "proxy.example.com"}},
		Resources:    &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("70m")}},
		NodeSelector: map[string]string{"disk": "fast"},
		Tolerations:  []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}},
		Annotations:  map[string]string{"example.com/team": "storage", "own": "config"},
		Volumes:      []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
	}

	subscription := c.createSubscription("etcd.v1.0.0", config)
	hasTeam := func(team string) func(*appsv1.Deployment) bool {
		return func(d *appsv1.Deployment) bool { return d.Spec.Template.Annotations["example.com/team"] == team }
	}
	d := c.waitForRollout("the configuration reaches the Deployment", "etcd.v1.0.0", hasTeam("storage"))
	want := plain.Spec.Template.DeepCopy()
	want.Annotations["example.com/team"] = "storage"
	want.Spec.NodeSelector, want.Spec.Tolerations, want.Spec.Volumes = config.NodeSelector, config.Tolerations, config.Volumes
	main := &want.Spec.Containers[0]
	main.Env[0].Value = "debug"
	main.Env = []corev1.EnvVar{main.Env[0], config.Env[1], {Name: "OPERATOR_CONDITION_NAME", Value: "etcd.v1.0.0"}}
	main.Resources, main.VolumeMounts = *config.Resources, config.VolumeMounts
	if diff := cmp.Diff(*want, d.Spec.Template); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if d.Annotations["example.com/team"] != "storage" || d.Labels[csvinfo.LabelDeploymentHash] == plain.Labels[csvinfo.LabelDeploymentHash] {
		t.Errorf("got the annotations %v and the labels %v of the Deployment", d.Annotations, d.Labels)
	}

	installed := subscription.Status
	installed.InstalledCSV = "etcd.v1.0.0"
	c.patchSubscriptionStatus(subscription, installed)
	c.updateSubscriptionConfig(subscription, &v1alpha1.SubscriptionConfig{Annotations: map[string]string{"example.com/team": "platform"}, NodeSelector: map[string]string{"disk": "slow"}})
	d = c.waitForRollout("the change reaches the Deployment", "etcd.v1.0.0", hasTeam("platform"))
	want = plain.Spec.Template.DeepCopy()
	want.Annotations["example.com/team"] = "platform"
	want.Spec.NodeSelector = map[string]string{"disk": "slow"}
	if diff := cmp.Diff(*want, d.Spec.Template); diff != "" {
		t.Errorf("pods after the change (-want +got):\n%s", diff)
	}

	c.updateSubscriptionConfig(subscription, nil)
	d = c.waitForRollout("the configuration is taken back", "etcd.v1.0.0", hasTeam(""))
	_, annotated := d.Annotations["example.com/team"]
	delete(d.Labels, "operators.coreos.com/etcd."+c.namespace) // It is a component now.
	if diff := cmp.Diff(plain.Spec, d.Spec); diff != "" || annotated || !cmp.Equal(plain.Labels, d.Labels) {
		t.Errorf("annotations %v, labels %v, spec (-want +got):\n%s", d.Annotations, d.Labels, diff)
	}
}

// The configuration of an operator is removed when its Subscription is deleted.
func TestUnsubscribe(t *testing.T) {
	c := newFixture(t)
	c.createGroup()
	c.createServiceAccount()
	subscription := c.createSubscription("etcd.v1.0.0", &v1alpha1.SubscriptionConfig{NodeSelector: map[string]string{"disk": "fast"}})
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitForRollout("the configuration reaches the Deployment", "etcd.v1.0.0", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.NodeSelector["disk"] == "fast"
	})
	c.Must(c.Delete(t.Context(), subscription))
	c.waitForRollout("the configuration is taken back", "etcd.v1.0.0", func(d *appsv1.Deployment) bool {
		return len(d.Spec.Template.Spec.NodeSelector) == 0
	})
}

// noSubscriptions maps kinds in a cluster that has no Subscriptions.
type noSubscriptions struct{ meta.RESTMapper }

func (m noSubscriptions) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if kind.Kind == v1alpha1.SubscriptionKind {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// A cluster need not have Subscriptions.
func TestWithoutSubscriptions(t *testing.T) {
	c := newFixture(t)
	c.stop()
	c.startManager(func(o *ctrl.Options) {
		o.MapperProvider = func(config *rest.Config, http *http.Client) (meta.RESTMapper, error) {
			mapper, err := apiutil.NewDynamicRESTMapper(config, http)
			return noSubscriptions{mapper}, err
		}
	})

	c.createGroup()
	c.createServiceAccount()
	c.CreateAll(c.newCSV("etcd.v1.0.0"))
	c.waitUntilSucceeded("etcd.v1.0.0", "etcd")
}
