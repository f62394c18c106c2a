package steps

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	kindServiceAccount     = "ServiceAccount"
	kindRole               = "Role"
	kindRoleBinding        = "RoleBinding"
	kindClusterRole        = "ClusterRole"
	kindClusterRoleBinding = "ClusterRoleBinding"

	defaultAccount = "default"
	maxNameLength  = 63
)

// FromCSV returns the steps for the service accounts, roles and bindings that a ClusterServiceVersion asks for. Their
// owner references to the ClusterServiceVersion have no UID yet. Its errors are of type [*InvalidError].
func FromCSV(csv *v1alpha1.ClusterServiceVersion, place Place) ([]*v1alpha1.Step, error) {
	objects, err := newPermissionObjects(csv, place.Namespace)
	if err != nil {
		return nil, err
	}

	all := make([]*v1alpha1.Step, 0, len(objects))
	for _, object := range objects {
		step, err := NewStep(object, csv.Name, place)
		if err != nil {
			return nil, err
		}
		all = append(all, step)
	}

	return all, nil
}

func newPermissionObjects(csv *v1alpha1.ClusterServiceVersion, namespace string) ([]runtime.Object, error) {
	strategy := csv.Spec.InstallStrategy.StrategySpec
	var objects []runtime.Object
	// Every namespace has the account "default" already.
	seen := map[string]bool{defaultAccount: true}
	account := func(permission v1alpha1.StrategyDeploymentPermissions) {
		name := csvinfo.AccountName(permission)
		if !seen[name] {
			seen[name] = true
			objects = append(objects, &corev1.ServiceAccount{
				TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: kindServiceAccount},
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{csvinfo.OwnerReference(csv)}},
			})
		}
	}

	for _, permission := range strategy.Permissions {
		account(permission)
		hashInput := map[string]any{"name": csv.Name, "permission": permission}
		meta, err := newRoleMeta(csv, namespace, csv.Name+"-"+csvinfo.AccountName(permission), hashInput)
		if err != nil {
			return nil, err
		}

		meta.Namespace, meta.OwnerReferences = namespace, []metav1.OwnerReference{csvinfo.OwnerReference(csv)}
		role := &rbacv1.Role{TypeMeta: rbacTypeMeta(kindRole), ObjectMeta: meta, Rules: permission.Rules}
		binding := &rbacv1.RoleBinding{
			TypeMeta: rbacTypeMeta(kindRoleBinding), ObjectMeta: *meta.DeepCopy(),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindRole, Name: meta.Name}, Subjects: newSubjects(permission, namespace),
		}
		if err := setHashLabels(role, role.Rules, binding, binding.RoleRef, binding.Subjects); err != nil {
			return nil, err
		}

		objects = append(objects, role, binding)
	}

	for _, permission := range strategy.ClusterPermissions {
		account(permission)
		hashInput := map[string]any{"name": csv.Name, "namespace": namespace, "permission": permission}
		meta, err := newRoleMeta(csv, namespace, csv.Name, hashInput)
		if err != nil {
			return nil, err
		}

		role := &rbacv1.ClusterRole{TypeMeta: rbacTypeMeta(kindClusterRole), ObjectMeta: meta, Rules: permission.Rules}
		binding := &rbacv1.ClusterRoleBinding{
			TypeMeta: rbacTypeMeta(kindClusterRoleBinding), ObjectMeta: *meta.DeepCopy(),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: meta.Name}, Subjects: newSubjects(permission, namespace),
		}
		if err := setHashLabels(role, role.Rules, binding, binding.RoleRef, binding.Subjects); err != nil {
			return nil, err
		}

		objects = append(objects, role, binding)
	}

	return objects, nil
}

func rbacTypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// newRoleMeta returns the metadata of a role and its binding. Existing clusters have objects with these names, so the
// input of the hash must not change.
func newRoleMeta(csv *v1alpha1.ClusterServiceVersion, namespace, base string, hashInput any) (metav1.ObjectMeta, error) {
	hash, err := csvinfo.Hash(hashInput)
	if err != nil {
		return metav1.ObjectMeta{}, newInvalidError("permissions of %q: %v", csv.Name, err)
	}
	if len(base)+len(hash) > maxNameLength {
		base = base[:maxNameLength-len(hash)-1]
	}
	return metav1.ObjectMeta{Name: base + "-" + hash, Labels: csvinfo.OwnerLabels(namespace, csv.Name)}, nil
}

// setHashLabels sets the hashes of their content as labels of a role and its binding.
func setHashLabels(role metav1.Object, rules []rbacv1.PolicyRule, binding metav1.Object, ref rbacv1.RoleRef, subjects []rbacv1.Subject) error {
	bound := struct {
		RoleRef  rbacv1.RoleRef
		Subjects []rbacv1.Subject
	}{ref, subjects}
	for object, content := range map[metav1.Object]any{role: rules, binding: bound} {
		hash, err := csvinfo.PlainHash(content)
		if err != nil {
			return newInvalidError("%s: %v", object.GetName(), err)
		}
		object.SetLabels(csvinfo.MergeLabels(object.GetLabels(), map[string]string{csvinfo.LabelPermissionsHash: hash}))
	}

	return nil
}

func newSubjects(permission v1alpha1.StrategyDeploymentPermissions, namespace string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: csvinfo.AccountName(permission), Namespace: namespace}}
}
