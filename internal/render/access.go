package render

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/internal/bundle"
)

// aggregateTo is the prefix of the labels that aggregate rules to the Kubernetes roles view, edit
// and admin.
const aggregateTo = rbacv1.GroupName + "/aggregate-to-"

var (
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"create", "delete", "deletecollection", "patch", "update"}
)

// renderAccessRoles returns three ClusterRoles for the APIs that a bundle defines, named
// <package>.view, .edit and .admin. They are aggregated to the Kubernetes role with that name.
// Each is sufficient by itself. Without CRDs there are none.
//
// The operator writes the status, so edit may only read it.
func renderAccessRoles(b *bundle.Bundle) []runtime.Object {
	apis := definedAPIGroups(b.CRDs)
	if len(apis) == 0 {
		return nil
	}

	var view, edit, admin []rbacv1.PolicyRule
	for _, group := range slices.Sorted(maps.Keys(apis)) {
		a := apis[group]
		rule := func(resources []string, verbs ...string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
		}
		all := slices.Sorted(slices.Values(slices.Concat(a.resources, a.status, a.scale)))
		view = append(view, rule(all, readVerbs...))
		edit = append(edit, rule(a.resources, slices.Concat(readVerbs, writeVerbs)...))
		if len(a.scale) > 0 {
			edit = append(edit, rule(a.scale, slices.Concat(readVerbs, []string{"patch", "update"})...))
		}
		if len(a.status) > 0 {
			edit = append(edit, rule(a.status, readVerbs...))
		}

		admin = append(admin, rule(all, rbacv1.VerbAll))
	}

	return []runtime.Object{
		newAccessRole(b.Package, "view", view), newAccessRole(b.Package, "edit", edit), newAccessRole(b.Package, "admin", admin),
	}
}

func newAccessRole(pkg, role string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: pkg + "." + role, Labels: map[string]string{aggregateTo + role: "true"}},
		Rules:      rules,
	}
}

// definedAPI is the resources that a bundle defines in one API group. Each list is sorted.
type definedAPI struct {
	resources []string
	// status and scale are the resources with these subresources, as resource/subresource.
	status, scale []string
}

func definedAPIGroups(crds []unstructured.Unstructured) map[string]*definedAPI {
	apis := map[string]*definedAPI{}
	for i := range crds {
		group, _, _ := unstructured.NestedString(crds[i].Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crds[i].Object, "spec", "names", "plural")
		if group == "" || plural == "" {
			continue // the API server rejects such a CRD with an error
		}
		if apis[group] == nil {
			apis[group] = &definedAPI{}
		}

		a := apis[group]
		a.resources = append(a.resources, plural)
		if hasSubresource(&crds[i], "status") {
			a.status = append(a.status, plural+"/status")
		}
		if hasSubresource(&crds[i], "scale") {
			a.scale = append(a.scale, plural+"/scale")
		}
	}

	for _, a := range apis {
		slices.Sort(a.resources)
		slices.Sort(a.status)
		slices.Sort(a.scale)
	}
	return apis
}

// hasSubresource reports whether a version of a CRD has a subresource.
func hasSubresource(crd *unstructured.Unstructured, name string) bool {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	return slices.ContainsFunc(versions, func(item any) bool {
		version, _ := item.(map[string]any)
		subresources, _ := version["subresources"].(map[string]any)
		_, ok := subresources[name]
		return ok
	})
}
