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

// TestAccessRoles installs an extension with roles for its users, and asks the API server
// what those who have view, edit and admin may do with its API: that the roles are
// aggregated is the work of the cluster's controllers.
func TestAccessRoles(t *testing.T) {
	j := start(t, false)
	catalog := j.Registry + "/access/catalog:latest"
	j.step("Mainstay runs", j.runMainstay)
	j.step("a catalog is served", func(ctx context.Context) error {
		if err := j.publish(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := j.Mainstay(ctx, "catalog", "add", "access", "--image", catalog, "--wait")
		return err
	})

	j.step("the extension is installed without roles for users", func(ctx context.Context) error {
		_, err := j.Mainstay(ctx, "extension", "install", "hello-operator", "--create-namespace", "--wait", "--timeout", limit.String())
		return err
	})
	j.step("there are users", func(ctx context.Context) error { return j.Apply(ctx, users) })
	nobodyMay := map[string][]string{"reader": nil, "writer": nil, "owner": nil, "stranger": nil}
	j.step("none may do anything with its API", func(ctx context.Context) error { return j.may(ctx, nobodyMay) })
	j.step("the roles are asked for", func(ctx context.Context) error {
		_, err := j.Kubectl(ctx, "patch", "clusterextension", "hello-operator", "--type=merge", "-p", `{"spec":{"install":{"accessRoles":"Aggregated"}}}`)
		return err
	})
	j.step("each may do what their role says, where they have it", func(ctx context.Context) error {
		return j.may(ctx, map[string][]string{
			"reader":   {"get", "list", "watch"},
			"writer":   {"get", "list", "watch", "create", "update", "patch", "delete"},
			"owner":    {"get", "list", "watch", "create", "update", "patch", "delete", "update status"},
			"stranger": nil,
		})
	})

	j.step("without the extension none may any more", func(ctx context.Context) error {
		if _, err := j.Mainstay(ctx, "extension", "uninstall", "hello-operator", "--delete-custom-resources", "--wait", "--timeout", limit.String()); err != nil {
			return err
		}
		return j.may(ctx, nobodyMay)
	})
}

// users are people who have a role of Kubernetes in namespace default, and one who has none.
const users = `
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

// may waits until each user may do exactly the given things with greetings in namespace
// default, and nothing in another one.
func (j *journey) may(ctx context.Context, want map[string][]string) error {
	config, err := clientcmd.BuildConfigFromFlags("", j.Kubeconfig)
	if err != nil {
		return err
	}

	config.QPS = -1
	reviews, err := authorizationv1.NewForConfig(config)
	if err != nil {
		return err
	}

	return j.eventually(ctx, func(ctx context.Context) error {
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
						return fmt.Errorf("%s may %s greetings in %s: %t", user, what, namespace, review.Status.Allowed)
					}
				}
			}
		}
		return nil
	})
}
