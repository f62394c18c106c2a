package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// words creates random rules of few words, so that they often overlap.
type words struct{ *rand.Rand }

func (w words) pickOne(from ...string) string { return from[w.IntN(len(from))] }

func (w words) pickSome(from ...string) []string {
	w.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return slices.Clone(from[:1+w.IntN(min(3, len(from)))])
}

func (w words) randomRule(urls bool) rbacv1.PolicyRule {
	verbs := w.pickSome("get", "list", "create", "escalate", "bind", "*")
	if urls && w.IntN(4) == 0 {
		return rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: w.pickSome("/a", "/a/b", "/a/*", "/*", "*")}
	}

	rule := rbacv1.PolicyRule{
		Verbs: verbs, APIGroups: w.pickSome("", "apps", "*"),
		Resources: w.pickSome("pods", "pods/log", "*/log", "pods/*", "secrets", "*"),
	}
	if w.IntN(3) == 0 {
		rule.ResourceNames = w.pickSome("a", "b", "c")
	}

	return rule
}

func (w words) randomRules(urls bool) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for range 1 + w.IntN(2) {
		rules = append(rules, w.randomRule(urls))
	}
	return rules
}

// TestAllowsAsTheServerDoes compares the decisions of the API server with those of this project.
func TestAllowsAsTheServerDoes(t *testing.T) {
	random := words{rand.New(rand.NewPCG(1, 2))}
	allowed := 0
	for range 6 {
		w := newFixture(t)
		for range 2 {
			w.grantGaps(rbac.Gap{Rule: random.randomRule(true)}, rbac.Gap{Namespace: w.account.Namespace, Rule: random.randomRule(false)})
		}
		granted := w.readPolicy().Granted(rbac.ServiceAccount(w.account.Namespace, w.account.Name))
		for range 60 {
			ask := rbac.Permission{Verb: random.pickOne("get", "list", "create", "watch")}
			if random.IntN(4) == 0 {
				ask.URL = random.pickOne("/a", "/a/b", "/a/b/c", "/b", "/")
			} else {
				ask.Namespace = random.pickOne("", "default", w.account.Namespace)
				ask.Group, ask.Resource, ask.Name = random.pickOne("", "apps"), random.pickOne("pods", "pods/log", "secrets"), random.pickOne("", "a", "d")
			}

			want := granted.Allows(ask)
			if want {
				allowed++
			}

			eventually(t, fmt.Sprintf("%+v", ask), func(ctx context.Context) error {
				got, err := w.reviewAccess(ctx, ask)
				if err == nil && got != want {
					err = fmt.Errorf("got %t from the server and %t from the check", got, want)
				}
				return err
			})
		}
	}

	if allowed == 0 || allowed == 6*60 {
		t.Errorf("got %d allowed of %d reviews, want some of both", allowed, 6*60)
	}
}

// reviewAccess requests from the API server whether the account has a permission.
func (w *fixture) reviewAccess(ctx context.Context, ask rbac.Permission) (bool, error) {
	identity := rbac.ServiceAccount(w.account.Namespace, w.account.Name)
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: identity.User, Groups: identity.Groups}}
	if ask.URL != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: ask.URL, Verb: ask.Verb}
	} else {
		resource, subresource := ask.Resource, ""
		if resource == "pods/log" {
			resource, subresource = "pods", "log"
		}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: ask.Namespace, Verb: ask.Verb, Group: ask.Group, Version: "v1",
			Resource: resource, Subresource: subresource, Name: ask.Name,
		}
	}

	err := w.Create(ctx, review)
	return review.Status.Allowed, err
}

func (w *fixture) readPolicy() *rbac.Policy {
	w.T.Helper()
	var roles rbacv1.RoleList
	var clusterRoles rbacv1.ClusterRoleList
	var bindings rbacv1.RoleBindingList
	var clusterBindings rbacv1.ClusterRoleBindingList
	for _, list := range []client.ObjectList{&roles, &clusterRoles, &bindings, &clusterBindings} {
		w.Must(w.List(w.T.Context(), list))
	}

	return &rbac.Policy{
		Roles: roles.Items, ClusterRoles: clusterRoles.Items,
		RoleBindings: bindings.Items, ClusterRoleBindings: clusterBindings.Items,
	}
}

// TestDelegatesAsTheServerDoes uses accounts with random permissions to write random roles and
// bindings, and expects the API server to reject those that the check rejects.
func TestDelegatesAsTheServerDoes(t *testing.T) {
	random := words{rand.New(rand.NewPCG(3, 4))}
	passed, refused := 0, 0
	for range 8 {
		w := newFixture(t)
		w.grantGaps(rbac.Gap{Rule: rbacv1.PolicyRule{
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"*"},
		}}, finalizersGap("extension"))
		for range 2 {
			w.grantGaps(rbac.Gap{Rule: random.randomRule(true)}, rbac.Gap{Namespace: w.account.Namespace, Rule: random.randomRule(false)})
		}
		for range 30 {
			object := w.randomRoleOrBinding(random)
			check := w.checker.Check(t.Context(), w.account, "extension", []unstructured.Unstructured{object})
			var missing *rbac.MissingError
			if check != nil && !errors.As(check, &missing) {
				t.Fatal(check)
			}

			if check == nil {
				passed++
			} else {
				refused++
			}

			eventually(t, fmt.Sprint("applying ", object), func(ctx context.Context) error {
				err := w.asAccount.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("mainstay"), client.DryRunAll)
				if (err == nil) != (check == nil) {
					return fmt.Errorf("got %w from the server and %w from the check", err, check)
				}
				return nil
			})
		}
	}

	if passed < 20 || refused < 20 {
		t.Errorf("got %d passed and %d rejected writes, too few for this test", passed, refused)
	}
}

// randomRoleOrBinding returns a role, or a binding to a role that may not exist.
func (w *fixture) randomRoleOrBinding(random words) unstructured.Unstructured {
	w.T.Helper()
	meta := metav1.ObjectMeta{Namespace: w.account.Namespace, Name: random.pickOne("a", "b", "c")}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: random.pickOne("view", "system:auth-delegator", "system:discovery", "nothing", "a")}
	cluster := metav1.ObjectMeta{Name: w.account.Namespace + "-" + meta.Name}
	var object runtime.Object
	switch random.IntN(5) {
	case 0:
		object = &rbacv1.Role{ObjectMeta: meta, Rules: random.randomRules(false)}
	case 1:
		object = &rbacv1.ClusterRole{ObjectMeta: cluster, Rules: random.randomRules(true)}
	case 2:
		object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref}
	case 3:
		object = &rbacv1.ClusterRoleBinding{ObjectMeta: cluster, RoleRef: ref}
	case 4:
		object = &rbacv1.ClusterRole{ObjectMeta: cluster, AggregationRule: &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}},
		}}
	}

	kind, err := apiutil.GVKForObject(object, scheme.Scheme)
	w.Must(err)

	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	w.Must(err)

	result := unstructured.Unstructured{Object: content}
	result.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(result.Object, "metadata", "creationTimestamp")

	return result
}
