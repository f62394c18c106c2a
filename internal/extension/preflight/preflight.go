// Package preflight checks, before an extension's objects are written, that the account
// to write them has every permission for it, so that a roll-out does not stop half-way,
// and that changed CustomResourceDefinitions leave stored objects as they are.
//
// It reads the cluster's roles, bindings and definitions; internal/rbac and
// internal/crdsafety judge. It writes nothing, and is not what keeps an account within
// its permissions: the API server is.
package preflight

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// pageSize is how many roles or bindings are read at a time: at some 2 KiB each, 1 MiB.
const pageSize = 500

// Checker checks the permissions of accounts.
type Checker struct {
	reader client.Reader
	mapper meta.RESTMapper
}

// New makes a Checker. The reader must read from the API server, not from a cache, so
// that a permission counts as soon as it is granted; its scheme must have the kinds of
// rbac.authorization.k8s.io/v1.
func New(reader client.Reader, mapper meta.RESTMapper) *Checker {
	return &Checker{reader: reader, mapper: mapper}
}

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles;rolebindings;clusterrolebindings,verbs=list

// Check reports whether a ServiceAccount may manage the objects of an extension. Without
// an account nothing is checked.
//
// The error is a *rbac.MissingError when the account lacks something or when it cannot
// be told: its message is the report. Any other error means that the check could not be
// made and should be tried again.
func (c *Checker) Check(ctx context.Context, account types.NamespacedName, extension string, objects []unstructured.Unstructured) error {
	return c.check(ctx, account, extension, Change{Written: objects})
}

func (c *Checker) check(ctx context.Context, account types.NamespacedName, extension string, change Change) error {
	if account.Name == "" {
		return nil
	}

	policy, err := c.policy(ctx)
	if err != nil {
		return fmt.Errorf("checking the permissions of ServiceAccount %q: %w", account, err)
	}

	kinds := kinds{mapper: c.mapper}
	opts := rbac.Options{Resource: kinds.resource, Policy: policy, Removed: change.Removed, Extension: extension}
	required := rbac.Required(change.Written, opts)
	if kinds.failure != nil {
		return fmt.Errorf("checking the permissions of ServiceAccount %q: %w", account, kinds.failure)
	}

	return rbac.Missing(required, policy.Granted(rbac.ServiceAccount(account.Namespace, account.Name)))
}

// policy reads the roles and bindings of the cluster. What changes meanwhile is seen by
// the next check.
func (c *Checker) policy(ctx context.Context) (*rbac.Policy, error) {
	var policy rbac.Policy
	for _, read := range []func() error{
		func() error {
			return pages(ctx, c.reader, func(page *rbacv1.ClusterRoleList) {
				policy.ClusterRoles = append(policy.ClusterRoles, page.Items...)
			})
		},
		func() error {
			return pages(ctx, c.reader, func(page *rbacv1.ClusterRoleBindingList) {
				policy.ClusterRoleBindings = append(policy.ClusterRoleBindings, page.Items...)
			})
		},
		func() error {
			return pages(ctx, c.reader, func(page *rbacv1.RoleList) {
				policy.Roles = append(policy.Roles, page.Items...)
			})
		},
		func() error {
			return pages(ctx, c.reader, func(page *rbacv1.RoleBindingList) {
				policy.RoleBindings = append(policy.RoleBindings, page.Items...)
			})
		},
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}

	return &policy, nil
}

// pages reads all objects of a kind, in all namespaces. Each page is a new list, since
// what was collected from one still refers to it.
func pages[L any, List interface {
	*L
	client.ObjectList
}](ctx context.Context, reader client.Reader, collect func(List)) error {
	next := ""
	for {
		page := List(new(L))
		if err := reader.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("reading the cluster's roles and bindings, %T: %w", page, err)
		}
		collect(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// kinds tells where the API server keeps kinds.
type kinds struct {
	mapper meta.RESTMapper
	// failure is why it could not be asked; unlike a kind that it does not know, which
	// is a fact about the objects.
	failure error
}

func (k *kinds) resource(kind schema.GroupVersionKind) (rbac.Resource, error) {
	mapping, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return rbac.Resource{}, fmt.Errorf("the cluster does not serve %s: install what defines it", kind)
	case err != nil:
		k.failure = errors.Join(k.failure, fmt.Errorf("looking for kind %s: %w", kind, err))
		return rbac.Resource{}, err
	}

	return rbac.Resource{Name: mapping.Resource.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}
