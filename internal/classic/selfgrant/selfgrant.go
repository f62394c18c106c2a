// Package selfgrant lets a program of OLM Classic grant itself single rights when it needs them. The service
// accounts to impersonate and the custom resources to list are not known when its roles are written. Without this
// package its roles would need these rights for the whole cluster.
//
// The program has the right to write any Role, because OLM installs Roles. That makes self-granting possible, and
// it means that this package is no protection against a stolen token. It limits what the program does by mistake,
// or on behalf of another user.
package selfgrant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// grantCheckInterval is the time between two checks whether a new right is effective, grantTimeout the
	// limit for all of them. API servers learn of roles by a watch.
	grantCheckInterval = 50 * time.Millisecond
	grantTimeout       = 10 * time.Second

	labelManagedBy = "app.kubernetes.io/managed-by"
	maxNameLength  = 253
)

// Granter grants rights to its own program. It is safe for concurrent use.
type Granter struct {
	client  client.Client
	program string

	mu   sync.Mutex
	user string // the user name of the program, once it is known
}

// New returns the Granter of a program. The name of the program is the prefix of the roles.
func New(config *rest.Config, connection *http.Client, program string) (*Granter, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}

	c, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: connection})
	if err != nil {
		return nil, fmt.Errorf("creating the client by which %s grants itself rights: %w", program, err)
	}

	return &Granter{client: c, program: program}, nil
}

// Impersonate grants the program the right to impersonate an existing service account, unless it has it. The service
// account owns the role, so the right is deleted with it.
func (g *Granter) Impersonate(ctx context.Context, account types.NamespacedName) error {
	asked := authorizationv1.ResourceAttributes{
		Verb: "impersonate", Resource: "serviceaccounts", Namespace: account.Namespace, Name: account.Name,
	}
	allowed, err := g.isAllowed(ctx, asked)
	if err != nil || allowed {
		return err
	}

	var owner metav1.PartialObjectMetadata
	owner.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	if err := g.client.Get(ctx, account, &owner); err != nil {
		return fmt.Errorf("reading ServiceAccount %s, as which %s is to install: %w", account, g.program, err)
	}

	return g.grantRight(ctx, right{
		meta: metav1.ObjectMeta{
			Namespace: account.Namespace, Name: g.roleName("-acts-as-", account.Name),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: owner.Name, UID: owner.UID}},
		},
		rule:  rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{account.Name}, Verbs: []string{"impersonate"}},
		asked: asked,
	})
}

// ListAll grants the program the right to list the objects of a resource in all namespaces, unless it has it. The
// owner, the CRD of the resource, owns the role, so the right is deleted with it.
func (g *Granter) ListAll(ctx context.Context, resource schema.GroupResource, owner metav1.OwnerReference) error {
	asked := authorizationv1.ResourceAttributes{Verb: "list", Group: resource.Group, Resource: resource.Resource}
	allowed, err := g.isAllowed(ctx, asked)
	if err != nil || allowed {
		return err
	}
	return g.grantRight(ctx, right{
		meta:  metav1.ObjectMeta{Name: g.roleName("-lists-", resource.String()), OwnerReferences: []metav1.OwnerReference{owner}},
		rule:  rbacv1.PolicyRule{APIGroups: []string{resource.Group}, Resources: []string{resource.Resource}, Verbs: []string{"list"}},
		asked: asked,
	})
}

// roleName returns the name of a role. It replaces the object's name by a hash if the name would be too long.
func (g *Granter) roleName(does, what string) string {
	name := g.program + does + what
	if len(name) <= maxNameLength {
		return name
	}
	sum := sha256.Sum256([]byte(what))
	return g.program + does + hex.EncodeToString(sum[:])
}

// right is a right to grant.
type right struct {
	// meta is the metadata of the role and its binding. Without a namespace the right is cluster-wide.
	meta  metav1.ObjectMeta
	rule  rbacv1.PolicyRule
	asked authorizationv1.ResourceAttributes
}

// newRoleAndBinding returns the role and the binding that grant a right to a user.
func (r right) newRoleAndBinding(program, user string) []client.Object {
	r.meta.Labels = map[string]string{labelManagedBy: program}
	rules := []rbacv1.PolicyRule{r.rule}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: r.meta.Name}
	if r.meta.Namespace != "" {
		return []client.Object{
			&rbacv1.Role{ObjectMeta: *r.meta.DeepCopy(), Rules: rules},
			&rbacv1.RoleBinding{ObjectMeta: *r.meta.DeepCopy(), RoleRef: ref, Subjects: subjects},
		}
	}

	ref.Kind = "ClusterRole"
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: *r.meta.DeepCopy(), Rules: rules},
		&rbacv1.ClusterRoleBinding{ObjectMeta: *r.meta.DeepCopy(), RoleRef: ref, Subjects: subjects},
	}
}

// grantRight creates or updates a role and its binding, and waits until the right is effective.
func (g *Granter) grantRight(ctx context.Context, r right) error {
	user, err := g.userName(ctx)
	if err != nil {
		return err
	}

	for _, object := range r.newRoleAndBinding(g.program, user) {
		err := g.client.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			err = g.client.Update(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("granting %s the right to %s %s by %T %s: %w", user, r.asked.Verb, r.asked.Resource, object, client.ObjectKeyFromObject(object), err)
		}
	}

	err = wait.PollUntilContextTimeout(ctx, grantCheckInterval, grantTimeout, true, func(ctx context.Context) (bool, error) {
		return g.isAllowed(ctx, r.asked)
	})
	if err != nil {
		return fmt.Errorf("waiting for the right of %s to %s %s, which role %s grants: %w", user, r.asked.Verb, r.asked.Resource, r.meta.Name, err)
	}

	return nil
}

func (g *Granter) isAllowed(ctx context.Context, asked authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &asked}}
	if err := g.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may %s %s: %w", g.program, asked.Verb, asked.Resource, err)
	}
	return review.Status.Allowed, nil
}

// userName returns the name by which the API server knows the program.
func (g *Granter) userName(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.user != "" {
		return g.user, nil
	}

	review := &authenticationv1.SelfSubjectReview{}
	if err := g.client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the API server who %s is: %w", g.program, err)
	}

	g.user = review.Status.UserInfo.Username
	return g.user, nil
}
