package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

const (
	kindServiceAccount    = "ServiceAccount"
	defaultServiceAccount = "default"
	maxNameLength         = 63
)

// renderPermissions returns the ServiceAccounts, roles and bindings of a CSV. If all namespaces
// are watched, its namespaced permissions apply to the whole cluster, and each also allows listing
// the namespaces.
func renderPermissions(b *bundle.Bundle, installNamespace string, targets []string) []runtime.Object {
	strategy := b.CSV.Spec.InstallStrategy.StrategySpec
	namespaced, clusterWide := strategy.Permissions, slices.Clone(strategy.ClusterPermissions)
	objects := newServiceAccounts(slices.Concat(namespaced, clusterWide), installNamespace)
	if slices.Equal(targets, []string{metav1.NamespaceAll}) {
		for _, permission := range namespaced {
			permission.Rules = append(slices.Clone(permission.Rules), rbacv1.PolicyRule{
				Verbs:     []string{"get", "list", "watch"},
				APIGroups: []string{corev1.GroupName},
				Resources: []string{"namespaces"},
			})
			clusterWide = append(clusterWide, permission)
		}
		namespaced = nil
	}

	for _, namespace := range targets {
		for _, permission := range namespaced {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: permissionName(b.Name(), permission)}
			objects = append(objects, &rbacv1.Role{
				TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
				ObjectMeta: meta,
				Rules:      permission.Rules,
			}, &rbacv1.RoleBinding{
				TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
				ObjectMeta: meta,
				Subjects:   newAccountSubjects(permission, installNamespace),
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			})
		}
	}

	for _, permission := range clusterWide {
		meta := metav1.ObjectMeta{Name: permissionName(b.Name(), permission)}
		objects = append(objects, &rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: meta,
			Rules:      permission.Rules,
		}, &rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: meta,
			Subjects:   newAccountSubjects(permission, installNamespace),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		})
	}

	return objects
}

// newServiceAccounts returns the service accounts of permissions. Every namespace already has
// "default".
func newServiceAccounts(permissions []v1alpha1.StrategyDeploymentPermissions, namespace string) []runtime.Object {
	var objects []runtime.Object
	seen := map[string]bool{defaultServiceAccount: true}
	for _, permission := range permissions {
		name := serviceAccountName(permission)
		if seen[name] {
			continue
		}
		seen[name] = true
		objects = append(objects, &corev1.ServiceAccount{
			TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: kindServiceAccount},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		})
	}

	return objects
}

func newAccountSubjects(permission v1alpha1.StrategyDeploymentPermissions, namespace string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: serviceAccountName(permission)}}
}

func serviceAccountName(permission v1alpha1.StrategyDeploymentPermissions) string {
	if permission.ServiceAccountName == "" {
		return defaultServiceAccount
	}
	return permission.ServiceAccountName
}

// permissionName returns the name of the role and the binding of a permission. Other
// implementations of OLM v1 compute the same name. It must not change.
func permissionName(csvName string, permission v1alpha1.StrategyDeploymentPermissions) string {
	return uniqueName(csvName+"-"+serviceAccountName(permission), hashPermission(permission))
}

// uniqueName joins base and hash, and truncates the base if the two are too long for a name. At
// exactly 63 characters together nothing is truncated and the name has 64. Existing names were
// computed that way, and roles may be longer.
func uniqueName(base, hash string) string {
	if len(base)+len(hash) > maxNameLength {
		base = base[:max(0, maxNameLength-len(hash)-1)]
	}
	return base + "-" + hash
}

// hashPermission returns SHA-224 over the JSON encoding of a permission and a newline, in base 36.
// The types of a permission always encode.
func hashPermission(permission v1alpha1.StrategyDeploymentPermissions) string {
	var encoded bytes.Buffer
	_ = json.NewEncoder(&encoded).Encode(permission)
	sum := sha256.Sum224(encoded.Bytes())
	return new(big.Int).SetBytes(sum[:]).Text(36)
}
