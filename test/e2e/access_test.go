package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// TestAccessRoles installs an extension with roles for its users, and queries the API server for what
// users with view, edit and admin may do with its API. The controllers of the cluster aggregate
// the roles.
func TestAccessRoles(t *testing.T) {
	f := newFixture(t, false)
	catalog := f.Registry + "/access/catalog:latest"
	f.runStep("Mainstay runs", f.startMainstay)
	f.runStep("a catalog is served", func(ctx context.Context) error {
		if err := f.publishCatalog(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := f.Mainstay(ctx, "catalog", "add", "access", "--image", catalog, "--wait")
		return err
	})

	f.runStep("the extension is installed without roles for users", func(ctx context.Context) error {
		_, err := f.Mainstay(ctx, "extension", "install", "hello-operator", "--create-namespace", "--wait", "--timeout", stateTimeout.String())
		return err
	})
	f.runStep("users are created", func(ctx context.Context) error { return f.Apply(ctx, userManifests) })
	nobodyMay := map[string][]string{"reader": nil, "writer": nil, "owner": nil, "stranger": nil}
	f.runStep("no user may use its API", func(ctx context.Context) error { return f.checkUserAccess(ctx, nobodyMay) })
	f.runStep("the roles are requested", func(ctx context.Context) error {
		_, err := f.Kubectl(ctx, "patch", "clusterextension", "hello-operator", "--type=merge", "-p", `{"spec":{"install":{"accessRoles":"Aggregated"}}}`)
		return err
	})
	f.runStep("each user has the permissions of their role, in its namespace", func(ctx context.Context) error {
		return f.checkUserAccess(ctx, map[string][]string{
			"reader":   {"get", "list", "watch"},
			"writer":   {"get", "list", "watch", "create", "update", "patch", "delete"},
			"owner":    {"get", "list", "watch", "create", "update", "patch", "delete", "update status"},
			"stranger": nil,
		})
	})

	f.runStep("without the extension no user may use its API", func(ctx context.Context) error {
		if _, err := f.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--delete-custom-resources", "--wait", "--timeout", stateTimeout.String()); err != nil {
			return err
		}
		return f.checkUserAccess(ctx, nobodyMay)
	})
}

// userManifests are users with a role of Kubernetes in the namespace default, and one user
// without a role.
const userManifests = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: reader}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writers, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: User, name: writer}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: owners, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: User, name: owner}]
`

// checkUserAccess waits until each user may do exactly the given things with greetings in the
// namespace default, and nothing in another namespace.
func (f *fixture) checkUserAccess(ctx context.Context, want map[string][]string) error {
	config, err := clientcmd.BuildConfigFromFlags("", f.Kubeconfig)
	if err != nil {
		return err
	}

	config.QPS = -1
	reviews, err := authorizationv1.NewForConfig(config)
	if err != nil {
		return err
	}

	return f.waitFor(ctx, func(ctx context.Context) error {
		for user, allowed := range want {
			for _, namespace := range []string{"default", "kube-public"} {
				for _, what := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "update status"} {
					verb, subresource, _ := strings.Cut(what, " ")
					review, err := reviews.SubjectAccessReviews().Create(ctx, &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
						User: user,
						ResourceAttributes: &authorization.ResourceAttributes{
							Namespace: namespace, Verb: verb, Group: "hello.example.com", Resource: "greetings", Subresource: subresource,
						},
					}}, metav1.CreateOptions{})
					if err != nil {
						return err
					}
					if expected := namespace == "default" && slices.Contains(allowed, what); review.Status.Allowed != expected {
						return fmt.Errorf("%s may %s greetings in %s: got %t, want %t", user, what, namespace, review.Status.Allowed, !review.Status.Allowed)
					}
				}
			}
		}
		return nil
	})
}
