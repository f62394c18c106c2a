package config_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// broadGrants are the broad permissions that shipped manifests may grant, each with the reason. A permission of another kind
// is limited to names, namespaces or verbs. A program that needs more for one account or kind grants it to itself.
var broadGrants = map[string]string{
	"ClusterRoleBinding cluster-version-operator: all permissions of cluster-admin":          "a release may hold roles with any permission; documented, and a manifest of its own",
	"ClusterRoleBinding operator-controller-cluster-admin: all permissions of cluster-admin": "for extensions without a service account; left out by --require-service-account",

	"ClusterRole catalog-operator: create, get, update secrets":                 "steps of InstallPlans are Secrets of any name and namespace; pull secrets of CatalogSources",
	"ClusterRole catalog-operator: bind, escalate clusterroles":                 "steps of InstallPlans grant operators permissions that catalog-operator lacks",
	"ClusterRole catalog-operator: bind, escalate roles":                        "steps of InstallPlans grant operators permissions that catalog-operator lacks",
	"ClusterRole olm-operator: bind, escalate clusterroles":                     "grants operators the permissions of their ClusterServiceVersions, and users those of an OperatorGroup",
	"ClusterRole olm-operator: bind, escalate roles":                            "grants operators the permissions of their ClusterServiceVersions",
	"ClusterRole olm-operator: create, delete, get, list, patch, watch secrets": "serving certificates in the namespaces of operators, which may be any",

	"ClusterRole operator-controller-manager-role: impersonate serviceaccounts": "acts as the service account of each extension, in any namespace",

	"Role openshift-cluster-version/cluster-version-operator-role: get secrets":                           "pull secrets of its own service account",
	"Role olmv1-system/catalogd-manager-role: create, get secrets":                                        "pull secrets, and its serving certificate; create cannot be limited to a name",
	"Role olmv1-system/operator-controller-manager-role: create, delete, get, list, patch, watch secrets": "the objects of revisions are in Secrets of the namespace of operator-controller",
}

// TestShippedRolesAreNarrow checks that no shipped role grants a broad permission without a reason in broadGrants.
func TestShippedRolesAreNarrow(t *testing.T) {
	granted := map[string]bool{}
	roles := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}

		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		for _, role := range decodeRoles(t, path, data) {
			roles++
			for _, grant := range role.broadGrants() {
				granted[grant] = true
				if broadGrants[grant] == "" {
					t.Errorf("%s: %s: limit it to names, a namespace or verbs, or state in broadGrants why that is impossible", path, grant)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if roles < 20 {
		t.Errorf("found %d roles, want those of all components", roles)
	}
	for grant := range broadGrants {
		if !granted[grant] {
			t.Errorf("broadGrants has %q, which no manifest grants", grant)
		}
	}
}

// TestBroadGrants checks which permissions count as broad.
func TestBroadGrants(t *testing.T) {
	for name, test := range map[string]struct {
		rule rbacv1.PolicyRule
		want []string
	}{
		"a narrow rule":              {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "delete"}}, nil},
		"every verb":                 {rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}}, []string{"* deployments"}},
		"every resource":             {rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"list"}}, []string{"list */*"}},
		"every resource of a group":  {rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"*"}, Verbs: []string{"get"}}, []string{"get apps/*"}},
		"a resource of every group":  {rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"pods"}, Verbs: []string{"get"}}, []string{"get */pods"}},
		"every path":                 {rbacv1.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}}, []string{"get all paths"}},
		"roles at once":              {rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"delete", "deletecollection"}}, []string{"deletecollection rolebindings"}},
		"objects at once":            {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"delete", "deletecollection"}}, []string{"deletecollection configmaps"}},
		"escalation":                 {rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, Verbs: []string{"get", "escalate", "bind"}}, []string{"bind, escalate roles"}},
		"impersonation":              {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}}, []string{"impersonate users"}},
		"impersonation of one":       {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"a"}, Verbs: []string{"impersonate"}}, []string{"impersonate users"}},
		"escalation of one role":     {rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}, ResourceNames: []string{"a"}, Verbs: []string{"bind", "escalate"}}, nil},
		"all Secrets":                {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets", "services"}, Verbs: []string{"watch", "get"}}, []string{"get, watch secrets"}},
		"one Secret":                 {rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a"}, Verbs: []string{"get"}}, nil},
		"secrets of another API":     {rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"secrets"}, Verbs: []string{"get"}}, nil},
		"every verb of one instance": {rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{"a"}, Verbs: []string{"*"}}, []string{"* deployments"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shippedRole{name: "Role a", rules: []rbacv1.PolicyRule{test.rule}}.broadGrants()
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], "Role a: ")
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// shippedRole is a role, a binding to a role of Kubernetes, or the permissions that a ClusterServiceVersion requests.
type shippedRole struct {
	// name is the kind and the name, with the namespace if it has one.
	name string
	// clusterAdmin reports whether it binds the role cluster-admin.
	clusterAdmin bool
	rules        []rbacv1.PolicyRule
}

// decodeRoles returns the roles of a manifest file.
func decodeRoles(t *testing.T, path string, data []byte) []shippedRole {
	t.Helper()
	var roles []shippedRole
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return roles
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}

		var role struct {
			rbacv1.ClusterRole `json:",inline"`

			RoleRef rbacv1.RoleRef `json:"roleRef"`
		}
		if err := yaml.Unmarshal(document, &role); err != nil {
			t.Fatalf("%s: %v", path, err)
		}

		name := role.Kind + " " + strings.TrimPrefix(role.Namespace+"/"+role.Name, "/")
		switch role.Kind {
		case "Role", "ClusterRole":
			if err := yaml.UnmarshalStrict(document, &rbacv1.ClusterRole{}); err != nil { // A Role has the same fields.
				t.Fatalf("%s: %s: %v", path, name, err)
			}
			roles = append(roles, shippedRole{name: name, rules: role.Rules})
		case "RoleBinding", "ClusterRoleBinding":
			roles = append(roles, shippedRole{name: name, clusterAdmin: role.RoleRef.Name == "cluster-admin"})
		case v1alpha1.ClusterServiceVersionKind:
			var csv v1alpha1.ClusterServiceVersion
			if err := yaml.Unmarshal(document, &csv); err != nil {
				t.Fatalf("%s: %v", path, err)
			}

			requested := shippedRole{name: name}
			strategy := csv.Spec.InstallStrategy.StrategySpec
			for _, permission := range slices.Concat(strategy.Permissions, strategy.ClusterPermissions) {
				requested.rules = append(requested.rules, permission.Rules...)
			}
			roles = append(roles, requested)
		}
	}
}

// broadGrants returns the broad permissions of a role: those for everything, those that lead to more permissions, those that
// delete many objects at once, and those for Secrets without a name.
func (r shippedRole) broadGrants() []string {
	var grants []string
	add := func(verbs []string, what string) {
		verbs = slices.Sorted(slices.Values(verbs))
		grants = append(grants, r.name+": "+strings.Join(verbs, ", ")+" "+what)
	}
	if r.clusterAdmin {
		grants = append(grants, r.name+": all permissions of cluster-admin")
	}

	for _, rule := range r.rules {
		if slices.Contains(rule.NonResourceURLs, "*") {
			add(rule.Verbs, "all paths")
		}

		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group == "*" || resource == "*" {
					add(rule.Verbs, group+"/"+resource)
				} else if verbs := broadVerbs(rule, group, resource); len(verbs) > 0 {
					add(verbs, resource)
				}
			}
		}
	}

	return grants
}

// broadVerbs returns the verbs of a rule that are broad for a resource.
func broadVerbs(rule rbacv1.PolicyRule, group, resource string) []string {
	named := len(rule.ResourceNames) > 0
	if group == "" && resource == "secrets" && !named {
		return rule.Verbs
	}

	var broad []string
	for _, verb := range rule.Verbs {
		switch verb {
		case "*", "deletecollection", "impersonate":
			broad = append(broad, verb)
		case "bind", "escalate":
			if !named {
				broad = append(broad, verb)
			}
		}
	}

	return broad
}
