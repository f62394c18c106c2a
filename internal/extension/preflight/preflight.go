// Package preflight checks, before an extension's objects are written, that the service
// account has every permission to write them, so that a rollout does not stop half-way.
// It also checks that changed CRDs keep stored objects valid.
//
// It reads the cluster's roles, bindings and CRDs; internal/rbac and internal/crdsafety
// evaluate them. It writes nothing. The API server, not this package, enforces the
// permissions of an account.
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

// pageSize is how many roles or bindings are read at a time. At about 2 KiB each they take 1 MiB.
const pageSize = 500

// Checker checks the permissions of service accounts.
type Checker struct {
	reader client.Reader
	mapper meta.RESTMapper
}

// New returns a Checker. The reader must read from the API server, not from a cache, so that a
// permission counts as soon as it is granted. Its scheme must have the kinds of
// rbac.authorization.k8s.io/v1.
func New(reader client.Reader, mapper meta.RESTMapper) *Checker {
	return &Checker{reader: reader, mapper: mapper}
}

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles;rolebindings;clusterrolebindings,verbs=list

// Check checks that a service account may manage the objects of an extension. Without an account
// nothing is checked.
//
// The error is a *rbac.MissingError if the account lacks permissions or they cannot be determined.
// Its message is the report. Any other error means that the check failed and should be retried.
func (c *Checker) Check(ctx context.Context, account types.NamespacedName, extension string, objects []unstructured.Unstructured) error {
	return c.checkPermissions(ctx, account, extension, Change{Written: objects})
}

func (c *Checker) checkPermissions(ctx context.Context, account types.NamespacedName, extension string, change Change) error {
	if account.Name == "" {
		return nil
	}

	policy, err := c.readRBACPolicy(ctx)
	if err != nil {
		return fmt.Errorf("checking the permissions of ServiceAccount %q: %w", account, err)
	}

	kinds := resourceLookup{mapper: c.mapper}
	opts := rbac.Options{Resource: kinds.lookUpResource, Policy: policy, Removed: change.Removed, Extension: extension}
	required := rbac.Required(change.Written, opts)
	if kinds.err != nil {
		return fmt.Errorf("checking the permissions of ServiceAccount %q: %w", account, kinds.err)
	}

	return rbac.Missing(required, policy.Granted(rbac.ServiceAccount(account.Namespace, account.Name)))
}

// readRBACPolicy reads the roles and bindings of the cluster. The next check observes later changes.
func (c *Checker) readRBACPolicy(ctx context.Context) (*rbac.Policy, error) {
	var policy rbac.Policy
	for _, read := range []func() error{
		func() error {
			return listAllPages(ctx, c.reader, func(page *rbacv1.ClusterRoleList) {
				policy.ClusterRoles = append(policy.ClusterRoles, page.Items...)
			})
		},
		func() error {
			return listAllPages(ctx, c.reader, func(page *rbacv1.ClusterRoleBindingList) {
				policy.ClusterRoleBindings = append(policy.ClusterRoleBindings, page.Items...)
			})
		},
		func() error {
			return listAllPages(ctx, c.reader, func(page *rbacv1.RoleList) {
				policy.Roles = append(policy.Roles, page.Items...)
			})
		},
		func() error {
			return listAllPages(ctx, c.reader, func(page *rbacv1.RoleBindingList) {
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

// listAllPages lists all objects of a kind, in all namespaces. Each page is a new list, because
// the collected objects still refer to it.
func listAllPages[L any, List interface {
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

// resourceLookup returns the resources of kinds.
type resourceLookup struct {
	mapper meta.RESTMapper
	// err collects the errors of the mapper. A kind that it does not know is not among them,
	// because that is a fact about the objects.
	err error
}

func (k *resourceLookup) lookUpResource(kind schema.GroupVersionKind) (rbac.Resource, error) {
	mapping, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return rbac.Resource{}, fmt.Errorf("the cluster does not serve %s: install what defines it", kind)
	case err != nil:
		k.err = errors.Join(k.err, fmt.Errorf("looking up kind %s: %w", kind, err))
		return rbac.Resource{}, err
	}

	return rbac.Resource{Name: mapping.Resource.Resource, Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}
