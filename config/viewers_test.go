package config_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// Every user may read the copied CSVs that a platform keeps for all, and nothing else there.
func TestCopiedCSVViewers(t *testing.T) {
	c := env.NewFixture(t, authorizationv1.AddToScheme)
	kubectl(t, "apply", "--server-side", "-f", "release/copied-csv-viewers.yaml")
	isAllowed := func(verb, resource, namespace string) bool {
		t.Helper()
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "somebody", Groups: []string{"system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: "operators.coreos.com", Resource: resource, Namespace: namespace},
		}}
		c.Must(c.Create(t.Context(), review))
		return review.Status.Allowed
	}

	// The API server evaluates roles from a cache.
	c.EventuallyTrue("users may list the ClusterServiceVersions of namespace openshift", func() bool {
		return isAllowed("list", "clusterserviceversions", "openshift")
	}, nil)
	for _, verb := range []string{"get", "watch"} {
		if !isAllowed(verb, "clusterserviceversions", "openshift") {
			t.Errorf("users may not %s the ClusterServiceVersions of namespace openshift", verb)
		}
	}
	for _, denied := range [][3]string{
		{"delete", "clusterserviceversions", "openshift"}, {"list", "subscriptions", "openshift"}, {"list", "clusterserviceversions", "default"},
	} {
		if isAllowed(denied[0], denied[1], denied[2]) {
			t.Errorf("users may %s %s of namespace %s", denied[0], denied[1], denied[2])
		}
	}
}
