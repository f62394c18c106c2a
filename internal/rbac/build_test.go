package rbac

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// parse returns the objects of YAML documents.
func parse(t testing.TB, documents string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for document := range strings.SplitSeq(documents, "\n---\n") {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		objects = append(objects, object)
	}

	return objects
}

// builtin has the built-in kinds that the tests need.
var builtin = map[string]Resource{
	"ClusterRole":              {Name: "clusterroles"},
	"ClusterRoleBinding":       {Name: "clusterrolebindings"},
	"ConfigMap":                {Name: "configmaps", Namespaced: true},
	"CustomResourceDefinition": {Name: "customresourcedefinitions"},
	"Deployment":               {Name: "deployments", Namespaced: true},
	"Role":                     {Name: "roles", Namespaced: true},
	"RoleBinding":              {Name: "rolebindings", Namespaced: true},
	"Service":                  {Name: "services", Namespaced: true},
}

func resource(kind schema.GroupVersionKind) (Resource, error) {
	if found, ok := builtin[kind.Kind]; ok {
		return found, nil
	}
	return Resource{}, fmt.Errorf("the cluster does not serve %s", kind.Kind)
}

var installer = ServiceAccount("place", "installer")

// granting returns a policy that grants rules to the installer: by a RoleBinding in a
// namespace, or in the whole cluster.
func granting(gaps ...Gap) *Policy {
	var policy Policy
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "place", Name: "installer"}}
	for i, gap := range gaps {
		name := fmt.Sprint("granting-", i)
		if gap.Namespace == "" {
			role := rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{gap.Rule}}
			role.Name = name
			bound := rbacv1.ClusterRoleBinding{Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: kindClusterRole, Name: name}}
			policy.ClusterRoles = append(policy.ClusterRoles, role)
			policy.ClusterRoleBindings = append(policy.ClusterRoleBindings, bound)
			continue
		}

		role := rbacv1.Role{Rules: []rbacv1.PolicyRule{gap.Rule}}
		role.Name, role.Namespace = name, gap.Namespace
		bound := rbacv1.RoleBinding{Subjects: subjects, RoleRef: rbacv1.RoleRef{Kind: kindRole, Name: name}}
		bound.Namespace = gap.Namespace
		policy.Roles = append(policy.Roles, role)
		policy.RoleBindings = append(policy.RoleBindings, bound)
	}

	return &policy
}

// rule parses "verb,verb group,group resource,resource [name,name]", where core is the
// core group, or "verb,verb /url".
func rule(text string) rbacv1.PolicyRule {
	fields := strings.Fields(text)
	result := rbacv1.PolicyRule{Verbs: strings.Split(fields[0], ",")}
	if strings.HasPrefix(fields[1], "/") {
		result.NonResourceURLs = strings.Split(fields[1], ",")
		return result
	}

	for group := range strings.SplitSeq(fields[1], ",") {
		result.APIGroups = append(result.APIGroups, strings.TrimPrefix(group, "core"))
	}

	result.Resources = strings.Split(fields[2], ",")
	if len(fields) > 3 {
		result.ResourceNames = strings.Split(fields[3], ",")
	}

	return result
}

// everywhere and within parse gaps.
func everywhere(text string) Gap        { return Gap{"", rule(text)} }
func within(namespace, text string) Gap { return Gap{namespace, rule(text)} }

// gapsOf returns the gaps of an error of Missing.
func gapsOf(t testing.TB, err error) []Gap {
	t.Helper()
	var missing *MissingError
	if err == nil {
		return nil
	}
	if !errors.As(err, &missing) {
		t.Fatalf("got error %v (%T), want a MissingError", err, err)
	}

	return missing.Gaps
}

// policyOf returns the policy of a cluster with these objects.
func policyOf(t testing.TB, objects []Object) *Policy {
	t.Helper()
	var policy Policy
	for _, object := range objects {
		switch object := object.(type) {
		case *rbacv1.ClusterRole:
			policy.ClusterRoles = append(policy.ClusterRoles, *object)
		case *rbacv1.ClusterRoleBinding:
			policy.ClusterRoleBindings = append(policy.ClusterRoleBindings, *object)
		case *rbacv1.Role:
			policy.Roles = append(policy.Roles, *object)
		case *rbacv1.RoleBinding:
			policy.RoleBindings = append(policy.RoleBindings, *object)
		}
	}

	return &policy
}
