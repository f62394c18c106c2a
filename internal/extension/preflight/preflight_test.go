package preflight_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/rbac"
	"github.com/mainstay-dev/mainstay/internal/render"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// renderNewest returns the objects of the newest of some versions of a bundle, in the fixture's
// namespace. It skips the test if none can be rendered.
func (w *fixture) renderNewest(folders ...string) []unstructured.Unstructured {
	w.T.Helper()
	var reasons []error
	for _, folder := range slices.Backward(folders) {
		b, err := bundle.Load(os.DirFS(folder))
		if err != nil {
			reasons = append(reasons, err)
			continue
		}
		for _, watch := range []string{"", w.account.Namespace} {
			objects, err := render.Render(b, render.Options{InstallNamespace: w.account.Namespace, WatchNamespace: watch, AccessRoles: w.accessRoles, Issuer: w.issuer})
			if err == nil {
				return objects
			}
			reasons = append(reasons, err)
		}
	}

	w.T.Skipf("no version can be rendered: %v", errors.Join(reasons...))
	return nil
}

func TestReportedPermissionsSuffice(t *testing.T) {
	t.Run("hello-operator", func(t *testing.T) {
		root, err := checkout.Root()
		if err != nil {
			t.Fatal(err)
		}
		checkReportSuffices(t, filepath.Join(root, "examples", "bundles", "hello-operator", "1.0.0"))
	})

	t.Run("real", func(t *testing.T) {
		bundles := checkout.SharedData(t, "bundles")
		for _, name := range reportedPackages {
			versions, err := filepath.Glob(filepath.Join(bundles, name, "*"))
			if err != nil || len(versions) == 0 {
				t.Skipf("package %s is not available: %v", name, err)
			}
			t.Run(name, func(t *testing.T) { checkReportSuffices(t, versions...) })
		}
	})
}

// reportedPackages are real packages with different kinds of permissions: cluster roles and roles, webhooks,
// aggregated APIs. TestLeastAccount tests the rules of all packages.
var reportedPackages = []string{"argocd-operator", "cert-manager", "keda"}

// checkReportSuffices grants the permissions of the report to an account without permissions, and then manages
// the objects with the account.
func checkReportSuffices(t *testing.T, folders ...string) {
	w := newFixture(t)
	objects := slices.DeleteFunc(w.renderNewest(folders...), func(object unstructured.Unstructured) bool { return !w.isServed(&object) })
	check := func() error { return w.checker.Check(t.Context(), w.account, "extension", objects) }
	err := check()
	if err == nil {
		t.Fatal("an account without permissions passes")
	}

	report := err.Error()
	if testing.Verbose() {
		t.Log(report)
	}

	w.grantGaps(parseReport(t, report)...)
	if err := check(); err != nil {
		t.Fatalf("with the reported permissions: got error %v", err)
	}

	w.manageObjects(objects)
}

// isServed reports whether the server has the kind. Some bundles need another extension.
func (w *fixture) isServed(object *unstructured.Unstructured) bool {
	gvk := object.GroupVersionKind()
	_, err := w.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		err = w.checker.Check(w.T.Context(), w.account, "extension", []unstructured.Unstructured{*object})
		if want := "authorization evaluation error: " + gvk.Kind; err == nil || !strings.Contains(err.Error(), want) {
			w.T.Errorf("got the report %v of a kind that is not served, want %q", err, want)
		}
		return false
	}

	w.Must(err)

	return true
}

// manageObjects applies, reads, changes, lists, watches and deletes the objects with the account. CRDs are without their
// schemas: schemas have no effect on rights, and the API server needs seconds for large ones.
func (w *fixture) manageObjects(objects []unstructured.Unstructured) {
	w.T.Helper()
	slices.SortStableFunc(objects, func(a, b unstructured.Unstructured) int { return cmp.Compare(rolloutOrder(&a), rolloutOrder(&b)) })
	c := w.asAccount
	controller := true
	for i := range objects {
		if objects[i].GetKind() == "CustomResourceDefinition" {
			w.openSchemas(&objects[i])
		}
		what := fmt.Sprintf("%s %s", objects[i].GetKind(), objects[i].GetName())
		objects[i].SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "olm.operatorframework.io/v1", Kind: "ClusterObjectSet", Name: "extension-1", UID: "1", Controller: &controller, BlockOwnerDeletion: &controller,
		}})
		w.T.Cleanup(func() { w.deleteObjects(objects[i].DeepCopy()) })
		// First it is created, then it exists.
		for range 2 {
			eventually(w.T, "applying "+what, func(ctx context.Context) error {
				return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(objects[i].DeepCopy()), client.FieldOwner("mainstay"), client.ForceOwnership)
			})
		}

		live := objects[i].DeepCopy()
		eventually(w.T, "changing "+what, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(&objects[i]), live); err != nil {
				return err
			}
			live.SetAnnotations(map[string]string{"changed": "true"})
			return c.Update(ctx, live)
		})

		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(objects[i].GroupVersionKind())
		if err := c.List(w.T.Context(), list, client.Limit(1)); err != nil {
			w.T.Errorf("listing everywhere, as %s needs: %v", what, err)
		}

		watch, err := c.Watch(w.T.Context(), list)
		if err != nil {
			w.T.Errorf("watching everywhere, as %s needs: %v", what, err)
			continue
		}

		watch.Stop()
	}

	for i := range slices.Backward(objects) {
		if err := c.Delete(w.T.Context(), objects[i].DeepCopy()); err != nil {
			w.T.Errorf("deleting %s %s: %v", objects[i].GetKind(), objects[i].GetName(), err)
		}
	}

	for i := range objects {
		if objects[i].GetKind() == "CustomResourceDefinition" {
			w.waitUntilGone(objects[i].DeepCopy()) // other tests have CRDs with the same name
		}
	}
}

// openSchemas sets schemas that accept any object in every version of a CRD.
func (w *fixture) openSchemas(crd *unstructured.Unstructured) {
	w.T.Helper()
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	w.Must(err)
	for _, version := range versions {
		w.Must(unstructured.SetNestedField(version.(map[string]any), map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "schema", "openAPIV3Schema"))
	}
	w.Must(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
}

// rolloutOrder returns the order of objects in a rollout, as far as the test needs it.
func rolloutOrder(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Role", "ClusterRole":
		return 1
	case "RoleBinding", "ClusterRoleBinding":
		return 2
	default:
		return 3
	}
}

func newServiceObjects(namespace string) []unstructured.Unstructured {
	var object unstructured.Unstructured
	object.SetAPIVersion("v1")
	object.SetKind("Service")
	object.SetNamespace(namespace)
	object.SetName("front")
	return []unstructured.Unstructured{object}
}

func TestCheckWithoutAccount(t *testing.T) {
	w := newFixture(t)
	if err := w.checker.Check(t.Context(), types.NamespacedName{Namespace: w.account.Namespace}, "extension", newServiceObjects(w.account.Namespace)); err != nil {
		t.Errorf("without an account: got error %v", err)
	}
}

func TestCheckRequiresFinalizers(t *testing.T) {
	w := newFixture(t)
	w.grantGaps(rbac.Gap{Rule: rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"services"}}})
	check := func(extension string) error {
		return w.checker.Check(t.Context(), w.account, extension, newServiceObjects(w.account.Namespace))
	}
	want := `pre-authorization failed: service account requires the following permissions to manage cluster extension:
  Namespace:"" APIGroups:[olm.operatorframework.io] Resources:[clusterextensions/finalizers] ResourceNames:[extension] Verbs:[update]`
	if err := check("extension"); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}

	w.grantGaps(finalizersGap("extension"))
	if err := check("extension"); err != nil {
		t.Errorf("with the permission: got error %v", err)
	}
	if err := check("other"); err == nil {
		t.Error("the right to another extension's finalizers suffices")
	}
}

// finalizersGap returns the permission that every account needs.
func finalizersGap(extension string) rbac.Gap {
	return rbac.Gap{Rule: rbacv1.PolicyRule{
		Verbs: []string{"update"}, APIGroups: []string{"olm.operatorframework.io"}, Resources: []string{"clusterextensions/finalizers"}, ResourceNames: []string{extension},
	}}
}

// TestCheckOfWhatGoes: objects that only earlier revisions have are deleted with the same account. An
// object of a kind that is no longer served is already deleted.
func TestCheckOfWhatGoes(t *testing.T) {
	w := newFixture(t)
	w.grantGaps(finalizersGap("extension"))
	w.grantGaps(rbac.Gap{Rule: rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"services"}}})
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "extension"}, Spec: olmv1.ClusterExtensionSpec{
		Namespace: w.account.Namespace, ServiceAccount: &olmv1.ServiceAccountReference{Name: w.account.Name},
	}}
	var old, unknown unstructured.Unstructured
	old.SetAPIVersion("v1")
	old.SetKind("ConfigMap")
	unknown.SetAPIVersion("gone.example.com/v1")
	unknown.SetKind("Gone")
	for _, object := range []*unstructured.Unstructured{&old, &unknown} {
		object.SetNamespace(w.account.Namespace)
		object.SetName("old")
	}

	change := preflight.Change{Written: newServiceObjects(w.account.Namespace), Removed: []unstructured.Unstructured{old, unknown}}
	want := `pre-authorization failed: service account requires the following permissions to manage cluster extension:
  Namespace:"` + w.account.Namespace + `" APIGroups:[] Resources:[configmaps] ResourceNames:[old] Verbs:[delete,get]`
	err := w.checker.CheckExtension(t.Context(), ext, change)
	if err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}

	w.grantGaps(parseReport(t, err.Error())...)
	if err := w.checker.CheckExtension(t.Context(), ext, change); err != nil {
		t.Errorf("with the reported permissions: got error %v", err)
	}
}

// TestCheckReadsEveryPage has more bindings than fit on a page, and the decisive one
// is the last.
func TestCheckReadsEveryPage(t *testing.T) {
	w := newFixture(t)
	w.grantGaps(finalizersGap("extension"))
	for i := range 501 {
		w.CreateAll(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.account.Namespace, Name: fmt.Sprintf("binding-%03d", i)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "nothing"},
		})
	}

	w.CreateAll(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.account.Namespace, Name: "last"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: installer}},
	})
	want := `pre-authorization failed: service account requires the following permissions to manage cluster extension:
  Namespace:"" APIGroups:[] Resources:[services] Verbs:[list,watch]`
	if err := w.checker.Check(t.Context(), w.account, "extension", newServiceObjects(w.account.Namespace)); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// broken is a reader and a mapper whose API server does not respond.
type broken struct {
	client.Reader
	meta.RESTMapper
}

var errDown = errors.New("down")

func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error { return errDown }
func (broken) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, errDown
}

func TestCheckThatCannotBeMadeIsNoReport(t *testing.T) {
	w := newFixture(t)
	for name, checker := range map[string]*preflight.Checker{
		"reader": preflight.New(broken{}, w.RESTMapper()),
		"mapper": preflight.New(w.Client, broken{}),
	} {
		err := checker.Check(t.Context(), w.account, "extension", newServiceObjects(w.account.Namespace))
		var missing *rbac.MissingError
		if !errors.Is(err, errDown) || errors.As(err, &missing) {
			t.Errorf("%s: got %v, want that it is down", name, err)
		}
	}
}
