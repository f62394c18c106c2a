package strategy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

func newCSV(edit ...func(*v1alpha1.ClusterServiceVersion)) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a.v1", UID: "u", Annotations: map[string]string{"of": "csv", "both": "csv"}}}
	csv.Spec.InstallStrategy.StrategyName = v1alpha1.InstallStrategyDeployment
	d := v1alpha1.StrategyDeploymentSpec{Name: "a", Label: map[string]string{"own": "label", csvinfo.LabelOwner: "me"}}
	d.Spec.Template.Annotations = map[string]string{"of": "template", "both": "template", "template": "yes"}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "one", Env: []corev1.EnvVar{{Name: EnvConditionName, Value: "x"}}}, {Name: "two"}}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []v1alpha1.StrategyDeploymentSpec{d}
	for _, e := range edit {
		e(csv)
	}

	return csv
}

func singleDeployment(t *testing.T, csv *v1alpha1.ClusterServiceVersion, in Inputs) *appsv1.Deployment {
	t.Helper()
	all, err := Deployments(csv, in)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %d Deployments, error %v", len(all), err)
	}
	return &all[0]
}

func envOf(d *appsv1.Deployment) []map[string]string {
	var all []map[string]string
	for _, c := range d.Spec.Template.Spec.Containers {
		values := map[string]string{}
		for _, e := range c.Env {
			values[e.Name] = e.Value
		}
		all = append(all, values)
	}

	return all
}

func TestDeployments(t *testing.T) {
	csv := newCSV()
	d := singleDeployment(t, csv, Inputs{})
	hash, err := csvinfo.Hash(d.Spec)
	if err != nil {
		t.Fatal(err)
	}

	labels := map[string]string{
		"own": "label", csvinfo.LabelOwner: "a.v1", csvinfo.LabelOwnerNamespace: "ns", csvinfo.LabelOwnerKind: "ClusterServiceVersion",
		csvinfo.LabelManaged: "true", csvinfo.LabelDeploymentHash: hash,
	}
	if diff := cmp.Diff(labels, d.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"of": "csv", "both": "csv", "template": "yes"}, d.Spec.Template.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}

	owner := []metav1.OwnerReference{{
		APIVersion: "operators.coreos.com/v1alpha1", Kind: "ClusterServiceVersion", Name: "a.v1", UID: "u", Controller: ptr.To(false), BlockOwnerDeletion: ptr.To(false),
	}}
	if diff := cmp.Diff(owner, d.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}

	condition := map[string]string{EnvConditionName: "a.v1"}
	if diff := cmp.Diff([]map[string]string{condition, condition}, envOf(d)); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if ptr.Deref(d.Spec.RevisionHistoryLimit, 0) != 1 {
		t.Errorf("got revisionHistoryLimit %v", d.Spec.RevisionHistoryLimit)
	}
	if csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Annotations["of"] != "template" {
		t.Error("the ClusterServiceVersion was changed")
	}
	if again := singleDeployment(t, csv, Inputs{}); again.Labels[csvinfo.LabelDeploymentHash] != hash {
		t.Error("the hash differs for the same content")
	}

	config := &v1alpha1.SubscriptionConfig{NodeSelector: map[string]string{"a": "b"}}
	if other := singleDeployment(t, csv, Inputs{Config: config}); other.Labels[csvinfo.LabelDeploymentHash] == hash || other.Spec.Template.Spec.NodeSelector["a"] != "b" {
		t.Error("a configuration does not change the hash")
	}
}

func TestProxy(t *testing.T) {
	proxy := Proxy("http://p", "", "local")
	want := map[string]string{"HTTP_PROXY": "http://p", "NO_PROXY": "local", EnvConditionName: "a.v1"}
	if diff := cmp.Diff([]map[string]string{want, want}, envOf(singleDeployment(t, newCSV(), Inputs{Proxy: proxy}))); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}

	config := &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "mine"}}}
	want = map[string]string{"HTTPS_PROXY": "mine", EnvConditionName: "a.v1"}
	if diff := cmp.Diff([]map[string]string{want, want}, envOf(singleDeployment(t, newCSV(), Inputs{Proxy: proxy, Config: config}))); diff != "" {
		t.Errorf("variables with a configuration (-want +got):\n%s", diff)
	}
}

// Deployments that serve webhooks or APIs have the certificate in every container.
func TestCertificates(t *testing.T) {
	csv := newCSV(func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{{GenerateName: "w", DeploymentName: "a"}}
		pod := &csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec
		pod.Volumes = []corev1.Volume{{Name: "webhook-cert"}, {Name: "old"}, {Name: "kept"}}
		pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "old", MountPath: "/tmp/k8s-webhook-server/serving-certs"}, {Name: "kept", MountPath: "/kept"}}
	})
	if _, err := Deployments(csv, Inputs{}); err == nil || err.Error() != `deployment "a" serves webhooks or APIs, and Secret "a-service-cert" has no authority for it yet` {
		t.Errorf("error %v", err)
	}

	d := singleDeployment(t, csv, Inputs{CAHashes: map[string]string{"a": "h"}})
	if d.Spec.Template.Annotations[csvinfo.AnnotationCAHash] != "h" {
		t.Errorf("annotations %v", d.Spec.Template.Annotations)
	}

	ours := []corev1.VolumeMount{{Name: "apiservice-cert", MountPath: "/apiserver.local.config/certificates"}, {Name: "webhook-cert", MountPath: "/tmp/k8s-webhook-server/serving-certs"}}
	pod := d.Spec.Template.Spec
	if diff := cmp.Diff(append([]corev1.VolumeMount{{Name: "kept", MountPath: "/kept"}}, ours...), pod.Containers[0].VolumeMounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ours, pod.Containers[1].VolumeMounts); diff != "" {
		t.Errorf("mounts of the second (-want +got):\n%s", diff)
	}

	files := map[string][]string{}
	for _, v := range pod.Volumes {
		if v.Secret != nil && v.Secret.SecretName == "a-service-cert" {
			files[v.Name] = []string{v.Secret.Items[0].Path, v.Secret.Items[1].Path}
		}
	}

	if diff := cmp.Diff(map[string][]string{"apiservice-cert": {"apiserver.crt", "apiserver.key"}, "webhook-cert": {"tls.crt", "tls.key"}}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	if err := Check(newCSV()); err != nil {
		t.Error(err)
	}

	twice := newCSV(func(csv *v1alpha1.ClusterServiceVersion) {
		spec := &csv.Spec.InstallStrategy.StrategySpec
		spec.DeploymentSpecs = append(spec.DeploymentSpecs, spec.DeploymentSpecs[0])
	})
	other := newCSV(func(csv *v1alpha1.ClusterServiceVersion) { csv.Spec.InstallStrategy.StrategyName = "magic" })
	for _, csv := range []*v1alpha1.ClusterServiceVersion{twice, other} {
		if _, err := Deployments(csv, Inputs{}); err == nil || Check(csv) == nil {
			t.Errorf("accepted %+v", csv.Spec.InstallStrategy)
		}
	}

	api := newCSV(func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.APIServiceDefinitions.Owned = []v1alpha1.APIServiceDescription{{Version: "v1", Group: "g", DeploymentName: "b"}}
	})
	if err := CheckServed(api); err == nil || err.Error() != "strategyDetailsDeployment is missing deployment b for owned APIService v1.g" {
		t.Errorf("error %v", err)
	}

	hook := newCSV(func(csv *v1alpha1.ClusterServiceVersion) {
		csv.Spec.WebhookDefinitions = []v1alpha1.WebhookDescription{{GenerateName: "w", DeploymentName: "b"}}
	})
	if err := CheckServed(hook); err == nil || err.Error() != "strategyDetailsDeployment is missing deployment b for WebhookDescription w" {
		t.Errorf("error %v", err)
	}
	if _, err := Deployments(hook, Inputs{}); err != nil {
		t.Errorf("got an error of the installation: %v", err)
	}
}

func TestHealth(t *testing.T) {
	wanted := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{csvinfo.LabelDeploymentHash: "1"}}}
	wanted.Spec.Template.Annotations = map[string]string{"k": "v"}
	available := appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}
	tests := map[string]struct {
		edit    func(*appsv1.Deployment)
		trouble Trouble
		want    string
	}{
		"healthy":                  {func(*appsv1.Deployment) {}, 0, ""},
		"scaled by a user":         {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](7) }, 0, ""},
		"unavailable pods":         {func(d *appsv1.Deployment) { d.Status.UnavailableReplicas = 1 }, 0, ""},
		"no annotations":           {func(d *appsv1.Deployment) { d.Spec.Template.Annotations = nil }, Outdated, "no annotations found on deployment"},
		"an annotation is missing": {func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"x": "y"} }, Outdated, "annotations on deployment does not contain expected key: k"},
		"another annotation":       {func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"k": "w"} }, Outdated, "unexpected annotation on deployment. Expected k:v, found k:w"},
		"no hash":                  {func(d *appsv1.Deployment) { d.Labels = nil }, Outdated, "deployment a doesn't have a spec hash, update it"},
		"another hash":             {func(d *appsv1.Deployment) { d.Labels = map[string]string{csvinfo.LabelDeploymentHash: "0"} }, Outdated, "deployment changed old hash=0, new hash=1"},
		"not observed":             {func(d *appsv1.Deployment) { d.Generation = 2 }, Waiting, `waiting for deployment a to become ready: waiting for spec update of deployment "a" to be observed...`},
		"old pods":                 {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, Waiting, `waiting for deployment a to become ready: deployment "a" waiting for 2 outdated replica(s) to be terminated`},
		"no condition":             {func(d *appsv1.Deployment) { d.Status.Conditions = nil }, Waiting, `waiting for deployment a to become ready: deployment "a" not available: missing condition "Available"`},
		"not available": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "why"}}
		}, Waiting, `waiting for deployment a to become ready: deployment "a" not available: why`},
		"stuck": {func(d *appsv1.Deployment) {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"})
		}, Stuck, `deployment a not ready before timeout: deployment "a" exceeded its progress deadline`},
		"stuck and outdated": {func(d *appsv1.Deployment) {
			d.Labels = nil
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"})
		}, Outdated, "deployment a doesn't have a spec hash, update it"},
	}

	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			live := wanted.DeepCopy()
			live.Generation = 1
			live.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, Conditions: []appsv1.DeploymentCondition{available}}
			tt.edit(live)
			err := Health([]appsv1.Deployment{wanted}, func(string) *appsv1.Deployment { return live })
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}

			if err == nil || err.Error() != tt.want || !HasTrouble(err, tt.trouble) {
				t.Errorf("got error %v, want %q of %d", err, tt.want, tt.trouble)
			}
		})
	}

	missing := Health([]appsv1.Deployment{wanted}, func(string) *appsv1.Deployment { return nil })
	if !HasTrouble(missing, Waiting) || missing.Error() != "missing deployment with name=a" {
		t.Errorf("error %v", missing)
	}
}

func TestIsOrphan(t *testing.T) {
	csv := newCSV()
	d := singleDeployment(t, csv, Inputs{})
	if IsOrphan(csv, d) {
		t.Error("a Deployment of the strategy is an orphan")
	}

	d.Name = "b"
	if !IsOrphan(csv, d) {
		t.Error("a Deployment that is not in the strategy is not an orphan")
	}

	d.OwnerReferences = nil
	if IsOrphan(csv, d) {
		t.Error("a Deployment without the owner is an orphan")
	}
}

func TestRealBundles(t *testing.T) {
	for _, dir := range checkout.RealBundles(t) {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			b, err := bundle.Load(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}

			b.CSV.Namespace = "ns"
			hashes := map[string]string{}
			for _, e := range csvinfo.Endpoints(&b.CSV) {
				hashes[e.Deployment.Name] = "h"
			}

			all, err := Deployments(&b.CSV, Inputs{CAHashes: hashes, Proxy: Proxy("a", "b", "c")})
			if err != nil {
				t.Fatal(err)
			}
			if len(all) == 0 || len(all) != len(b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs) {
				t.Errorf("got %d Deployments", len(all))
			}
			if err := CheckServed(&b.CSV); err != nil {
				t.Error(err)
			}
			if _, err := csvinfo.APILabels(&b.CSV); err != nil {
				t.Error(err)
			}
		})
	}
}
