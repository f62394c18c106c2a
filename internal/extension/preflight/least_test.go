package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestLeastAccount expects the least account of a bundle to pass, to manage every object on a real
// API server, and to fail without any one verb of any one rule.
func TestLeastAccount(t *testing.T) {
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}

	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		t.Run("hello-operator-"+version, func(t *testing.T) {
			newFixture(t).checkLeastAccount(version == "1.2.0", filepath.Join(root, "examples", "bundles", "hello-operator", version))
		})
	}

	t.Run("hooks", func(t *testing.T) {
		newFixture(t).checkLeastAccount(true, filepath.Join(root, "internal", "render", "testdata", "bundles", "hooks"))
	})
	t.Run("cert-manager", func(t *testing.T) {
		w := newFixture(t)
		w.issuer = render.IssuerCertManager
		// Only its API: cert-manager itself is not needed to write its objects.
		w.createKind("cert-manager.io", "Certificate", "certificates")
		w.createKind("cert-manager.io", "Issuer", "issuers")
		w.checkLeastAccount(false, filepath.Join(root, "examples", "bundles", "hello-operator", "1.2.0"))
	})

	t.Run("real", func(t *testing.T) {
		packages, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "bundles"), "*"))
		if err != nil || len(packages) == 0 {
			t.Skipf("no real bundles: %v", err)
		}
		for _, folder := range packages {
			versions, err := filepath.Glob(filepath.Join(folder, "*"))
			if err != nil || len(versions) == 0 {
				continue
			}
			t.Run(filepath.Base(folder), func(t *testing.T) { newFixture(t).checkLeastAccount(false, versions...) })
		}
	})
}

const leastExtension = "the-extension"

func (w *fixture) checkLeastAccount(accessRoles bool, folders ...string) {
	t := w.T
	t.Helper()
	w.accessRoles = accessRoles
	objects := slices.DeleteFunc(w.renderNewest(folders...), func(object unstructured.Unstructured) bool { return !w.isServed(&object) })
	grants, err := rbac.Least(rbac.Required(objects, rbac.Options{Resource: rbac.BundleResource, Extension: leastExtension}))
	if err != nil {
		t.Fatal(err)
	}

	w.checkEachVerbNeeded(objects, grants)

	for _, object := range (rbac.Installer{Extension: leastExtension, Namespace: w.account.Namespace}).Objects(grants) {
		if _, ok := object.(*rbacv1.ClusterRole); ok {
			t.Cleanup(func() { w.deleteObjects(object) })
		}
		if _, ok := object.(*rbacv1.ClusterRoleBinding); ok {
			t.Cleanup(func() { w.deleteObjects(object) })
		}
		w.CreateAll(object)
	}

	w.switchAccount(rbac.Installer{Extension: leastExtension}.Account())
	if err := w.checker.Check(t.Context(), w.account, leastExtension, objects); err != nil {
		t.Fatalf("with all rules: got error %v", err)
	}

	w.manageObjects(objects)
}

// createKind creates a CRD for a namespaced kind that accepts every object.
func (w *fixture) createKind(group, kind, plural string) {
	w.T.Helper()
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}

	w.CreateAll(crd)
	w.T.Cleanup(func() { w.deleteObjects(crd) })
	kindOf := schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
	eventually(w.T, kind+" is served", func(context.Context) error {
		_, err := w.RESTMapper().RESTMapping(kindOf.GroupKind(), kindOf.Version)
		return err
	})
}

// checkEachVerbNeeded removes each verb of each rule and expects the report to name only that
// verb, unless the verb delegates permissions.
func (w *fixture) checkEachVerbNeeded(objects []unstructured.Unstructured, grants []rbac.Gap) {
	w.T.Helper()
	actual := w.readPolicy()
	check := func(grants []rbac.Gap) error {
		checker := preflight.New(newGrantedReader(actual, w.account.Namespace, grants), w.RESTMapper())
		account := w.account
		account.Name = rbac.Installer{Extension: leastExtension}.Account()
		return checker.Check(w.T.Context(), account, leastExtension, objects)
	}
	if err := check(grants); err != nil {
		w.T.Fatalf("with all rules: got error %v", err)
	}

	alone, tried := 0, 0
	for i, grant := range grants {
		for j, verb := range grant.Rule.Verbs {
			rest := slices.Clone(grants)
			rest[i].Rule.Verbs = slices.Delete(slices.Clone(grant.Rule.Verbs), j, j+1)
			if len(rest[i].Rule.Verbs) == 0 {
				rest = slices.Delete(rest, i, i+1)
			}

			taken := rbac.Gap{Namespace: grant.Namespace, Rule: *grant.Rule.DeepCopy()}
			taken.Rule.Verbs = []string{verb}
			err := check(rest)
			var missing *rbac.MissingError
			if !errors.As(err, &missing) {
				w.T.Errorf("without %s: got %v, want a report", taken.String(), err)
				continue
			}

			tried++
			if slices.Contains(grant.Rule.APIGroups, rbacv1.GroupName) && slices.Contains([]string{"*", "bind", "escalate"}, verb) || slices.Contains(grant.Rule.APIGroups, "*") {
				continue // the wildcard and the verbs that it includes are missing
			}

			alone++
			if diff := gocmp.Diff([]string{taken.String()}, gapLines(missing.Gaps)); diff != "" || len(missing.Errors) > 0 {
				w.T.Errorf("without %s (-want +got): %s%v", taken.String(), diff, missing.Errors)
			}
		}
	}

	if alone == 0 && !rbac.CanEscalate(grants) {
		w.T.Errorf("got none of %d removed verbs reported alone", tried)
	}
}

func gapLines(gaps []rbac.Gap) []string {
	var result []string
	for i := range gaps {
		result = append(result, gaps[i].String())
	}
	return result
}

// granted is a cluster in whose RBAC an account has some more rules.
type granted struct {
	client.Reader
	policy rbac.Policy
}

func newGrantedReader(actual *rbac.Policy, namespace string, grants []rbac.Gap) *granted {
	g := &granted{policy: rbac.Policy{
		Roles: slices.Clone(actual.Roles), ClusterRoles: slices.Clone(actual.ClusterRoles),
		RoleBindings: slices.Clone(actual.RoleBindings), ClusterRoleBindings: slices.Clone(actual.ClusterRoleBindings),
	}}
	for _, object := range (rbac.Installer{Extension: leastExtension, Namespace: namespace}).Objects(grants) {
		switch object := object.(type) {
		case *rbacv1.ClusterRole:
			g.policy.ClusterRoles = append(g.policy.ClusterRoles, *object)
		case *rbacv1.ClusterRoleBinding:
			g.policy.ClusterRoleBindings = append(g.policy.ClusterRoleBindings, *object)
		case *rbacv1.Role:
			g.policy.Roles = append(g.policy.Roles, *object)
		case *rbacv1.RoleBinding:
			g.policy.RoleBindings = append(g.policy.RoleBindings, *object)
		}
	}

	return g
}

// List returns all objects of the cluster, in one page.
func (g *granted) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *rbacv1.ClusterRoleList:
		list.Items = g.policy.ClusterRoles
	case *rbacv1.ClusterRoleBindingList:
		list.Items = g.policy.ClusterRoleBindings
	case *rbacv1.RoleList:
		list.Items = g.policy.Roles
	case *rbacv1.RoleBindingList:
		list.Items = g.policy.RoleBindings
	default:
		return fmt.Errorf("unexpected list %T", list)
	}

	return nil
}
