package rbac

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object of the API of any kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// Installer is the service account that writes an extension's objects.
type Installer struct {
	// Extension is the name of the ClusterExtension. Required.
	Extension string
	// Namespace is the install namespace, which contains the account. Required.
	Namespace string
	// ServiceAccount is the name of the account. Empty means <extension>-installer.
	ServiceAccount string
}

// Account returns the name of the service account.
func (i Installer) Account() string { return cmp.Or(i.ServiceAccount, i.namePrefix()) }

func (i Installer) namePrefix() string { return i.Extension + "-installer" }

// Objects returns the service account, and the roles and bindings that grant it the rules: a
// ClusterRole for cluster-wide rules, and a Role in each namespace that has rules. Their names
// follow the documentation of OLM v1. They are in an order in which they can be created.
func (i Installer) Objects(grants []Gap) []Object {
	objects := []Object{&corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: rbacv1.ServiceAccountKind},
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: i.Account()},
	}}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, grant := range grants {
		rules[grant.Namespace] = append(rules[grant.Namespace], grant.Rule)
	}

	for _, namespace := range slices.Sorted(maps.Keys(rules)) {
		objects = append(objects, i.newRoleAndBinding(namespace, rules[namespace])...)
	}

	return objects
}

// newRoleAndBinding returns a role with the rules, and its binding to the account. They are
// cluster-wide if the namespace is empty.
func (i Installer) newRoleAndBinding(namespace string, rules []rbacv1.PolicyRule) []Object {
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	role := metav1.ObjectMeta{Namespace: namespace, Name: i.namePrefix() + "-role"}
	binding := metav1.ObjectMeta{Namespace: namespace, Name: i.namePrefix() + "-binding"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: i.Namespace, Name: i.Account()}}
	if namespace == "" {
		role.Name = i.namePrefix() + "-clusterrole"
		return []Object{
			&rbacv1.ClusterRole{TypeMeta: kind(kindClusterRole), ObjectMeta: role, Rules: rules},
			&rbacv1.ClusterRoleBinding{
				TypeMeta: kind(kindClusterRoleBinding), ObjectMeta: binding, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: role.Name},
			},
		}
	}

	return []Object{
		&rbacv1.Role{TypeMeta: kind(kindRole), ObjectMeta: role, Rules: rules},
		&rbacv1.RoleBinding{
			TypeMeta: kind(kindRoleBinding), ObjectMeta: binding, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindRole, Name: role.Name},
		},
	}
}
