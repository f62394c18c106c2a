package csv_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csv/requirements"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// The API server accepts every real ClusterServiceVersion without warnings, because the CRD has all
// of their fields.
func TestRealClusterServiceVersions(t *testing.T) {
	found := checkout.RealBundles(t)
	c := client.WithFieldValidation(env.Client(t, kinds...), metav1.FieldValidationStrict)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "real-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}

	for _, dir := range found {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			b, err := bundle.Load(os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range b.Manifests {
				if m.GetKind() != v1alpha1.ClusterServiceVersionKind {
					continue
				}

				csv := m.DeepCopy()
				csv.SetNamespace(ns.Name)
				csv.SetAPIVersion(v1alpha1.GroupVersion.String()) // some bundles do not set the group
				for _, crd := range list(csv.Object, "spec", "customresourcedefinitions", "owned") {
					delete(crd, "group") // OLM does not have this field
				}

				for _, d := range list(csv.Object, "spec", "install", "spec", "deployments") {
					unstructured.RemoveNestedField(d, "spec", "template", "metadata", "creationTimestamp") // it is null
				}

				if err := c.Create(t.Context(), csv, client.DryRunAll); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// list returns the objects of a list of an object.
func list(object map[string]any, path ...string) []map[string]any {
	values, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	items, _ := values.([]any)
	var objects []map[string]any
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			objects = append(objects, o)
		}
	}

	return objects
}

// simplifySchemas replaces the schemas of a CRD. olm-operator does not read them, and the API server would need most of
// the time of a test for them.
func simplifySchemas(crd *unstructured.Unstructured) {
	for _, version := range list(crd.Object, "spec", "versions") {
		delete(version, "selectableFields") // The schema must have them.
		version["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
	}
}

// Real operators are installed: one version of each package that current API servers accept.
func TestRealInstallations(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "bundles"), "*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("found %d packages, error %v", len(found), err)
	}

	c := newFixture(t)
	for _, dir := range found {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel() // Each package has a namespace and kinds of its own.
			versions, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(versions) == 0 {
				t.Fatalf("got %d versions, error %v", len(versions), err)
			}

			b, err := bundle.Load(os.DirFS(versions[len(versions)-1]))
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(b.CRDs, func(crd unstructured.Unstructured) bool { return crd.GetAPIVersion() != "apiextensions.k8s.io/v1" }) {
				t.Skip("its CustomResourceDefinitions have an API version that is no longer served")
			}

			own := &fixture{Fixture: &env.Fixture{T: t, Client: c.Client}}
			own.namespace = own.NewNamespace("real-")
			t.Cleanup(own.cleanUp)
			for i := range b.CRDs {
				// The conversion is that of the author's cluster. The API server rejects its certificate.
				unstructured.RemoveNestedField(b.CRDs[i].Object, "spec", "conversion")
				simplifySchemas(&b.CRDs[i])
				own.CreateAll(&b.CRDs[i])
				t.Cleanup(func() { _ = c.Delete(context.Background(), &b.CRDs[i]) }) // an error shows in the next test of this CRD
			}

			csv := b.CSV.DeepCopy()
			csv.ResourceVersion, csv.Namespace, csv.Spec.Replaces = "", own.namespace, ""
			for _, name := range requirements.AccountNames(csv) {
				// No controller creates the account "default" here.
				own.CreateAll(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: own.namespace, Name: name}})
				binding := &rbacv1.ClusterRoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: own.namespace + "-" + name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
					Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: own.namespace, Name: name}},
				}
				own.CreateAll(binding)
				t.Cleanup(func() { _ = c.Delete(context.Background(), binding) }) // no other test uses its name
			}

			own.createGroup(func(g *operatorsv1.OperatorGroup) {
				if csvinfo.SupportsInstallMode(csv.Spec.InstallModes, v1alpha1.InstallModeTypeAllNamespaces) {
					g.Spec.TargetNamespaces = nil
				}
			})
			own.CreateAll(csv)
			var deployments []string
			for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
				deployments = append(deployments, d.Name)
			}

			own.waitUntilSucceeded(csv.Name, deployments...)
		})
	}
}
