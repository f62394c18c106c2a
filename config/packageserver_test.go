package config_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// TestPackageServerInstallsItself checks that the ClusterServiceVersion of packageserver installs an existing server, with
// the permissions of the generated role, for the API that it serves.
func TestPackageServerInstallsItself(t *testing.T) {
	c := env.Client(t, clientgoscheme.AddToScheme)
	var (
		csv      operatorsv1alpha1.ClusterServiceVersion
		role     rbacv1.ClusterRole
		accounts = map[string]bool{}
	)
	for _, object := range kustomized(t, filepath.Join("classic", "packageserver")) {
		var into any
		switch object.GetKind() {
		case "ClusterServiceVersion":
			into = &csv
		case "ClusterRole":
			into = &role
		case "ServiceAccount":
			accounts[object.GetNamespace()+"/"+object.GetName()] = true
			continue
		default:
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Fatal(err)
		}
	}

	if csv.Name != "packageserver" || csv.Labels["olm.clusteroperator.name"] != "operator-lifecycle-manager-packageserver" {
		t.Errorf("got the name %q and the labels %v, want packageserver with the name of its ClusterOperator", csv.Name, csv.Labels)
	}

	install := csv.Spec.InstallStrategy.StrategySpec
	if len(install.DeploymentSpecs) != 1 || len(install.ClusterPermissions) != 1 || len(csv.Spec.APIServiceDefinitions.Owned) != 1 {
		t.Fatalf("got %d Deployments, %d permissions and %d APIs, want one each", len(install.DeploymentSpecs), len(install.ClusterPermissions), len(csv.Spec.APIServiceDefinitions.Owned))
	}

	api := csv.Spec.APIServiceDefinitions.Owned[0]
	api.APIDescription = operatorsv1alpha1.APIDescription{}
	want := operatorsv1alpha1.APIServiceDescription{
		Name: packagesv1.PackageManifestResource, Group: packagesv1.GroupVersion.Group, Version: packagesv1.GroupVersion.Version,
		Kind: packagesv1.PackageManifestKind, DeploymentName: "packageserver", ContainerPort: 5443,
	}
	if diff := cmp.Diff(want, api); diff != "" {
		t.Errorf("API (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(role.Rules, install.ClusterPermissions[0].Rules); diff != "" {
		t.Errorf("permissions (-want as in the generated role +got):\n%s", diff)
	}

	made := install.DeploymentSpecs[0]
	if *made.Spec.Replicas != 2 || made.Name != "packageserver" || !accounts["olm/"+made.Spec.Template.Spec.ServiceAccountName] {
		t.Errorf("got %d replicas of %s with the service account %s, want 2 of packageserver with a shipped account", *made.Spec.Replicas, made.Name, made.Spec.Template.Spec.ServiceAccountName)
	}

	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict-packages", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := c.Create(t.Context(), strict); err != nil {
		t.Fatal(err)
	}

	checkDeployment(t, c, strict.Name, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: made.Name}, Spec: made.Spec})
}
