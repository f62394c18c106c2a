package migration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
)

// TestMigrateOneNamespace migrates an operator that watches one other namespace, with a configuration
// and updates that need no approval. After the confirmation the extension updates it.
func TestMigrateOneNamespace(t *testing.T) {
	f := newFixture(t, "plum", addVariable, "1.0.0")
	watched := &corev1.Namespace{}
	watched.GenerateName = "watched-"
	f.create(watched)
	f.installWithClassic([]string{watched.Name}, "1.0.0", func(s *v1alpha1.Subscription) { s.Spec.Config = newFullConfig() })
	f.expectConfig()
	before := f.identities()

	stop := f.watchRightsIn(watched.Name)
	f.Must(f.newMigration(plan.Options{}).Run(t.Context()))
	stop()
	f.expectConfig()
	f.expectMigrated("1.0.0")
	f.expectIdentities(before)
	pod := get(f, &appsv1.Deployment{}, f.name).Spec.Template
	if got := pod.Annotations["olm.targetNamespaces"]; got != watched.Name {
		t.Errorf("got the watched namespace %q, want %q", got, watched.Name)
	}

	var roles rbacv1.RoleList
	f.Must(f.List(t.Context(), &roles, client.InNamespace(watched.Name)))
	for i := range roles.Items {
		if name := roles.Items[i].Labels[olmv1.LabelOwnerName]; name != f.name {
			t.Errorf("Role %s/%s does not belong to the extension", watched.Name, roles.Items[i].Name)
		}
	}
	if len(roles.Items) != 1 {
		t.Errorf("got %d Roles in the watched namespace, want 1", len(roles.Items))
	}

	f.Must(f.newRollback(true).Run(t.Context()))
	f.expectClassic("1.0.0")
	f.expectIdentities(before)
	f.Must(f.newMigration(plan.Options{}).Run(t.Context()))
	f.expectMigrated("1.0.0")
	f.expectIdentities(before)

	if env := get(f, &appsv1.Deployment{}, f.name).Spec.Template.Spec.Containers[0].Env; !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == "DROPPED" }) {
		t.Fatalf("got the variables %v, want DROPPED", env)
	}
	f.publish("1.1.0", nil)
	f.Must((&migration.Confirm{Operation: f.newOperation()}).Run(t.Context()))
	f.Eventually("the extension updates the operator", func() error {
		ext := get(f, &olmv1.ClusterExtension{}, f.name)
		if ext.Status.Install == nil || ext.Status.Install.Bundle.Version != "1.1.0" {
			return fmt.Errorf("got the status %+v", ext.Status)
		}
		return nil
	})
	var names []string
	for _, variable := range get(f, &appsv1.Deployment{}, f.name).Spec.Template.Spec.Containers[0].Env {
		names = append(names, variable.Name)
	}
	f.expectConfig()
	if slices.Contains(names, "DROPPED") {
		t.Errorf("got the variables %q, want DROPPED removed, which the new version does not have", names)
	}
}

// newFullConfig returns a configuration with all fields that OLM v1 has too.
func newFullConfig() *v1alpha1.SubscriptionConfig {
	return &v1alpha1.SubscriptionConfig{
		Env:          []corev1.EnvVar{{Name: "COLOUR", Value: "violet"}},
		EnvFrom:      []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		Volumes:      []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		Tolerations:  []corev1.Toleration{{Key: "fruit", Operator: corev1.TolerationOpExists}},
		Resources:    &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")}},
		NodeSelector: map[string]string{"disk": "fast"},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "fruit"}},
		}}}},
		Annotations: map[string]string{"example.com/team": "orchard"},
	}
}

// expectConfig checks that each field of newFullConfig has its effect on the Deployment.
func (f *fixture) expectConfig() {
	f.T.Helper()
	want, template := newFullConfig(), get(f, &appsv1.Deployment{}, f.name).Spec.Template
	container := template.Spec.Containers[0]
	mounts := slices.DeleteFunc(slices.Clone(container.VolumeMounts), func(m corev1.VolumeMount) bool { return m.Name != "scratch" })
	env := slices.DeleteFunc(slices.Clone(container.Env), func(e corev1.EnvVar) bool { return e.Name != "COLOUR" })
	volumes := slices.DeleteFunc(slices.Clone(template.Spec.Volumes), func(v corev1.Volume) bool { return v.Name != "scratch" })
	for field, values := range map[string][2]any{
		"env":          {env, want.Env},
		"envFrom":      {container.EnvFrom, want.EnvFrom},
		"volumes":      {volumes, want.Volumes},
		"volumeMounts": {mounts, want.VolumeMounts},
		"tolerations":  {template.Spec.Tolerations, want.Tolerations},
		"resources":    {container.Resources, *want.Resources},
		"nodeSelector": {template.Spec.NodeSelector, want.NodeSelector},
		"affinity":     {template.Spec.Affinity, want.Affinity},
		"annotations":  {template.Annotations["example.com/team"], "orchard"},
	} {
		if !equality.Semantic.DeepEqual(values[0], values[1]) {
			f.T.Errorf("spec.config.%s: got %+v in the Deployment, want %+v", field, values[0], values[1])
		}
	}
}

// addVariable adds an environment variable to the sample operator.
func addVariable(_, file, text string) string {
	if !strings.HasSuffix(file, "clusterserviceversion.yaml") {
		return text
	}
	return strings.Replace(text, "                    env:\n", "                    env:\n                      - {name: DROPPED, value: \"true\"}\n", 1)
}

func TestFleet(t *testing.T) {
	f := newFixture(t, "quince", nil, "1.0.0")
	f.installWithClassic(nil, "1.0.0")
	broken := &v1alpha1.Subscription{
		Spec: v1alpha1.SubscriptionSpec{CatalogSource: "fruit", CatalogSourceNamespace: f.namespace, Package: "missing"},
	}
	broken.Namespace, broken.Name = f.namespace, "broken"
	f.create(broken)

	run := func(dryRun bool) []string {
		t.Helper()
		m := f.newMigration(acceptPending)
		m.Name = ""
		members, err := (&migration.Fleet{Migrate: *m, DryRun: dryRun}).Run(t.Context())
		f.Must(err)
		var got []string
		for _, member := range members {
			got = append(got, fmt.Sprintf("%s %s %v", member.State, member.Subscription[len(f.namespace)+1:], member.Migrated))
		}
		return got
	}
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}

	expect("dry run", run(true), "Ineligible broken false", "Eligible quince false")
	expect("run", run(false), "Ineligible broken false", "Eligible quince true")
	expect("second run", run(false), "Ineligible broken false", "AlreadyMigrated quince false")
	f.expectMigrated("1.0.0")
	f.Must((&migration.Confirm{Operation: f.newOperation()}).Run(t.Context()))
	expect("confirmed", run(false), "Ineligible broken false", "AlreadyMigrated quince false")

	again := &v1alpha1.Subscription{Spec: v1alpha1.SubscriptionSpec{CatalogSource: "fruit", CatalogSourceNamespace: f.namespace, Package: f.name}}
	again.Namespace, again.Name = f.namespace, f.name
	f.create(again)
	expect("subscribed again", run(false), "Conflict quince false", "Ineligible broken false")
}
