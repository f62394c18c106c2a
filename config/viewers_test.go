package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// Every user may read the copied CSVs that a platform keeps for all users, and nothing else in their namespace.
func TestCopiedCSVViewers(t *testing.T) {
	c := env.NewFixture(t, authorizationv1.AddToScheme)
	kubectl(t, "apply", "--server-side", "-f", "release/copied-csv-viewers.yaml")
	isAllowed := func(verb, resource, namespace string) bool {
		return isUserAllowed(c, "anyone", verb, resource, namespace)
	}

	// The API server evaluates roles from a cache.
	c.EventuallyTrue("users may list the ClusterServiceVersions of namespace openshift", func() bool {
		return isAllowed("list", "clusterserviceversions", "openshift")
	}, nil)
	for _, verb := range []string{"get", "watch"} {
		if !isAllowed(verb, "clusterserviceversions", "openshift") {
			t.Errorf("users may %s the ClusterServiceVersions of namespace openshift: got false, want true", verb)
		}
	}
	for _, denied := range [][3]string{
		{"delete", "clusterserviceversions", "openshift"}, {"list", "subscriptions", "openshift"}, {"list", "clusterserviceversions", "default"},
	} {
		if isAllowed(denied[0], denied[1], denied[2]) {
			t.Errorf("users may %s %s of namespace %s: got true, want false", denied[0], denied[1], denied[2])
		}
	}
}

// isUserAllowed reports whether a user without groups of their own may do something with a resource of OLM Classic.
func isUserAllowed(c *env.Fixture, user, verb, resource, namespace string) bool {
	c.T.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: "operators.coreos.com", Resource: resource, Namespace: namespace},
	}}
	c.Must(c.Create(c.T.Context(), review))
	return review.Status.Allowed
}

// A user who may edit a namespace may create Subscriptions in it, but not change the objects that decide what operators may do:
// OperatorGroups, catalogs and InstallPlans. A user who may view the namespace may read all of them.
func TestRightsOfTenants(t *testing.T) {
	c := env.NewFixture(t, corev1.AddToScheme, authorizationv1.AddToScheme, rbacv1.AddToScheme)
	namespace := c.NewNamespace("tenants-")
	kubectl(t, "apply", "--server-side", "-f", "classic/olm-operator/aggregated_roles.yaml")
	for user, role := range map[string]string{"editor": "aggregate-olm-edit", "viewer": "aggregate-olm-view"} {
		c.CreateAll(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		})
	}
	for user, verb := range map[string]string{"editor": "create", "viewer": "list"} {
		c.EventuallyTrue("user "+user+" may "+verb+" Subscriptions", func() bool { return isUserAllowed(c, user, verb, "subscriptions", namespace) }, nil)
	}

	for _, test := range []struct {
		user, resource string
		allowed        []string
	}{
		{"editor", "subscriptions", []string{"create", "delete", "patch", "update"}},
		{"editor", "clusterserviceversions", []string{"delete"}},
		{"editor", "catalogsources", []string{"delete"}},
		{"editor", "installplans", []string{"delete"}},
		{"editor", "installplans/status", nil},
		{"editor", "operatorgroups", nil},
		{"editor", "operatorconditions", nil},
		{"viewer", "subscriptions", []string{"get", "list", "watch"}},
		{"viewer", "clusterserviceversions", []string{"get", "list", "watch"}},
		{"viewer", "catalogsources", []string{"get", "list", "watch"}},
		{"viewer", "installplans", []string{"get", "list", "watch"}},
		{"viewer", "operatorgroups", []string{"get", "list", "watch"}},
	} {
		var allowed []string
		for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
			if isUserAllowed(c, test.user, verb, test.resource, namespace) {
				allowed = append(allowed, verb)
			}
			if isUserAllowed(c, test.user, verb, test.resource, "default") {
				t.Errorf("user %s may %s %s in another namespace: got true, want false", test.user, verb, test.resource)
			}
		}
		if diff := cmp.Diff(test.allowed, allowed); diff != "" {
			t.Errorf("user %s, %s (-want +got):\n%s", test.user, test.resource, diff)
		}
	}
}
