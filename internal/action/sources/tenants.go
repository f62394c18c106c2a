package sources

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/inventory"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// Tenant is an OperatorGroup: the namespaces that the operators of its namespace manage.
type Tenant struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Scope states what the operators of the namespace manage.
	Scope string `json:"scope"`
	// Namespaces are the managed namespaces. They are empty for all namespaces.
	Namespaces []string `json:"namespaces,omitempty"`
	// ServiceAccount limits what operators are installed with. Empty means no limit.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Operators are the Subscriptions of the namespace.
	Operators []string `json:"operators,omitempty"`
	// Problem states why operators cannot be installed. It is empty if they can. Advice is what to do.
	Problem string `json:"problem,omitempty"`
	Advice  string `json:"advice,omitempty"`
}

// Tenants are the OperatorGroups of a cluster.
type Tenants struct {
	// Items are sorted by namespace and name.
	Items    []Tenant            `json:"items"`
	Problems []inventory.Problem `json:"problems,omitempty"`
}

// ListTenants lists the OperatorGroups.
type ListTenants struct {
	Client client.Client
	// Namespace limits the list. Empty means all.
	Namespace string
}

// Run returns the OperatorGroups. It returns no error for what the user may not read.
func (a *ListTenants) Run(ctx context.Context) Tenants {
	var listing Listing
	var groups operatorsv1.OperatorGroupList
	listing.addProblem("operatorgroups", a.Client.List(ctx, &groups, client.InNamespace(a.Namespace)))
	var subscriptions v1alpha1.SubscriptionList
	listing.addProblem("subscriptions", a.Client.List(ctx, &subscriptions, client.InNamespace(a.Namespace)))

	operators, count := map[string][]string{}, map[string]int{}
	for i := range subscriptions.Items {
		s := &subscriptions.Items[i]
		operators[s.Namespace] = append(operators[s.Namespace], s.Name)
	}
	for i := range groups.Items {
		count[groups.Items[i].Namespace]++
	}

	tenants := Tenants{Items: []Tenant{}, Problems: listing.Problems}
	for i := range groups.Items {
		group := &groups.Items[i]
		tenant := describeGroup(group, count[group.Namespace])
		tenant.Operators = operators[group.Namespace]
		tenants.Items = append(tenants.Items, tenant)
		delete(operators, group.Namespace)
	}
	// The remaining namespaces have no OperatorGroup.
	for namespace, names := range operators {
		if count[namespace] == 0 && len(listing.Problems) == 0 {
			tenants.Items = append(tenants.Items, Tenant{
				Namespace: namespace, Scope: "Nothing is managed.", Operators: names, Problem: "The namespace has Subscriptions but no OperatorGroup, so that nothing is installed.",
				Advice: "Create an OperatorGroup in the namespace.",
			})
		}
	}
	slices.SortFunc(tenants.Items, func(x, y Tenant) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return tenants
}

// describeGroup returns an OperatorGroup of a namespace with a number of them.
func describeGroup(group *operatorsv1.OperatorGroup, count int) Tenant {
	tenant := Tenant{Namespace: group.Namespace, Name: group.Name, Namespaces: group.Status.Namespaces, ServiceAccount: group.Spec.ServiceAccountName}
	switch names := group.Status.Namespaces; {
	case group.IsGlobal():
		tenant.Scope, tenant.Namespaces = "All namespaces", nil
	case len(names) == 1 && names[0] == group.Namespace:
		tenant.Scope = "Its own namespace"
	case len(names) == 0:
		tenant.Scope = "No namespace yet"
	default:
		tenant.Scope = fmt.Sprintf("%d namespaces: %s", len(names), strings.Join(names[:min(len(names), 5)], ", "))
	}

	missing := meta.FindStatusCondition(group.Status.Conditions, operatorsv1.OperatorGroupServiceAccountCondition)
	switch {
	case count > 1:
		tenant.Problem, tenant.Advice = fmt.Sprintf("The namespace has %d OperatorGroups, so that no operator is installed or updated.", count), "Delete all but one."
	case missing != nil && missing.Status == metav1.ConditionTrue:
		tenant.Problem, tenant.Advice = missing.Message, "Create the service account, or remove spec.serviceAccountName."
	}
	return tenant
}

// tenantRights are what matters about operators in a namespace, with the permission that it needs.
var tenantRights = []struct {
	words, verb, resource string
}{
	{"install operators", "create", "subscriptions"},
	{"change channels and approval", "update", "subscriptions"},
	{"approve updates", "update", "installplans"},
	{"uninstall operators", "delete", "subscriptions"},
	{"add catalogs", "create", "catalogsources"},
	{"choose managed namespaces", "update", "operatorgroups"},
	{"see operators", "list", "clusterserviceversions"},
}

// AccessEntry is what a user, group or service account may do with the operators of a namespace.
type AccessEntry struct {
	Kind string `json:"kind" enum:"User,Group,ServiceAccount"`
	// Namespace is that of a service account.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Rights are phrases, such as "approve updates".
	Rights []string `json:"rights"`
	// IsClusterWide reports whether the rights hold in every namespace.
	IsClusterWide bool `json:"isClusterWide,omitempty"`
}

// NamespaceAccess is who may do what with the operators of a namespace, as RBAC says.
type NamespaceAccess struct {
	// Entries are sorted by kind and name.
	Entries []AccessEntry `json:"entries"`
	// More is the number of entries that are left out.
	More int `json:"more,omitempty"`
	// Problems are the kinds that could not be listed, so that entries may be missing.
	Problems []inventory.Problem `json:"problems,omitempty"`
}

// maxAccessEntries limits the entries that are returned.
const maxAccessEntries = 500

// ReadAccess reads who may do what with the operators of a namespace.
type ReadAccess struct {
	Client    client.Client
	Namespace string
}

// Run returns who may do what. It reads roles and bindings with the rights of the user.
func (a *ReadAccess) Run(ctx context.Context) NamespaceAccess {
	var roles rbacv1.RoleList
	var clusterRoles rbacv1.ClusterRoleList
	var bindings rbacv1.RoleBindingList
	var clusterBindings rbacv1.ClusterRoleBindingList
	in := client.InNamespace(a.Namespace)
	var listing Listing
	listing.addProblem("rolebindings", a.Client.List(ctx, &bindings, in))
	listing.addProblem("roles", a.Client.List(ctx, &roles, in))
	listing.addProblem("clusterrolebindings", a.Client.List(ctx, &clusterBindings))
	listing.addProblem("clusterroles", a.Client.List(ctx, &clusterRoles))

	policy := &rbac.Policy{Roles: roles.Items, ClusterRoles: clusterRoles.Items, RoleBindings: bindings.Items, ClusterRoleBindings: clusterBindings.Items}
	access := decideAccess(policy, a.Namespace)
	access.Problems = listing.Problems
	return access
}

// decideAccess returns who may do what in a namespace.
func decideAccess(policy *rbac.Policy, namespace string) NamespaceAccess {
	access := NamespaceAccess{Entries: []AccessEntry{}}
	for _, subject := range listSubjects(policy) {
		granted := policy.Granted(identityOf(subject))
		entry := AccessEntry{Kind: subject.Kind, Namespace: subject.Namespace, Name: subject.Name, IsClusterWide: true}
		for _, right := range tenantRights {
			permission := rbac.Permission{Namespace: namespace, Group: v1alpha1.GroupVersion.Group, Resource: right.resource, Verb: right.verb}
			if !granted.Allows(permission) {
				continue
			}
			entry.Rights = append(entry.Rights, right.words)
			permission.Namespace = ""
			entry.IsClusterWide = entry.IsClusterWide && granted.Allows(permission)
		}
		if len(entry.Rights) > 0 {
			access.Entries = append(access.Entries, entry)
		}
	}
	if more := len(access.Entries) - maxAccessEntries; more > 0 {
		access.Entries, access.More = access.Entries[:maxAccessEntries], more
	}
	return access
}

// listSubjects returns the subjects of all bindings once, sorted by kind and name.
func listSubjects(policy *rbac.Policy) []rbacv1.Subject {
	var subjects []rbacv1.Subject
	for i := range policy.RoleBindings {
		for _, subject := range policy.RoleBindings[i].Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == "" {
				subject.Namespace = policy.RoleBindings[i].Namespace
			}
			subjects = append(subjects, subject)
		}
	}
	for i := range policy.ClusterRoleBindings {
		subjects = append(subjects, policy.ClusterRoleBindings[i].Subjects...)
	}

	compare := func(x, y rbacv1.Subject) int {
		return cmp.Or(-cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	}
	slices.SortFunc(subjects, compare)
	return slices.CompactFunc(subjects, func(x, y rbacv1.Subject) bool { return compare(x, y) == 0 })
}

func identityOf(subject rbacv1.Subject) rbac.Identity {
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		return rbac.ServiceAccount(subject.Namespace, subject.Name)
	case rbacv1.GroupKind:
		return rbac.Identity{Groups: []string{subject.Name}}
	default:
		return rbac.Identity{User: subject.Name}
	}
}
