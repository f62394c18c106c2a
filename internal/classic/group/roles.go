package group

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

const (
	// aggregateKubernetes is the prefix of the labels by which Kubernetes aggregates the rules of a
	// ClusterRole to its own admin, edit and view.
	aggregateKubernetes = "rbac.authorization.k8s.io/aggregate-to-"
	// aggregateGroup is the prefix of the labels by which the ClusterRoles of groups aggregate rules.
	aggregateGroup = "olm.opgroup.permissions/aggregate-to-"
	// maxNameLength limits the name of an object.
	maxNameLength = 253
)

// accessLevel is a level of access to an API, with its verbs.
type accessLevel struct {
	suffix string
	verbs  []string
}

// accessLevels are the levels of access for which ClusterRoles are created.
var accessLevels = []accessLevel{
	{"admin", []string{"*"}},
	{"edit", []string{"create", "update", "patch", "delete"}},
	{"view", []string{"get", "list", "watch"}},
}

// aggregateLabel returns the label of the ClusterRoles for an API by which the ClusterRoles of groups aggregate them.
func aggregateLabel(api schema.GroupVersionKind, suffix string) string {
	return aggregateGroup + csvinfo.APIHash(api) + "-" + suffix
}

// ownerLabels returns the labels of the objects that belong to a group.
func ownerLabels(namespace, name string) map[string]string {
	return map[string]string{
		csvinfo.LabelOwner: name, csvinfo.LabelOwnerNamespace: namespace, csvinfo.LabelOwnerKind: operatorsv1.OperatorGroupKind,
	}
}

// newGroupRoles returns the ClusterRoles of a group. Each aggregates the rules of one level of access to its APIs.
func newGroupRoles(group *operatorsv1.OperatorGroup, apis csvinfo.APIs) []rbacv1.ClusterRole {
	roles := make([]rbacv1.ClusterRole, 0, len(accessLevels))
	for _, a := range accessLevels {
		role := rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
			Name:   groupRoleName(group.Namespace, group.Name, a.suffix),
			Labels: csvinfo.MergeLabels(ownerLabels(group.Namespace, group.Name), map[string]string{csvinfo.LabelManaged: "true"}),
		}}
		keys := make([]string, 0, len(apis))
		for api := range apis {
			keys = append(keys, aggregateLabel(api, a.suffix))
		}

		slices.Sort(keys)
		for _, key := range keys {
			if role.AggregationRule == nil {
				role.AggregationRule = &rbacv1.AggregationRule{}
			}
			role.AggregationRule.ClusterRoleSelectors = append(role.AggregationRule.ClusterRoleSelectors,
				metav1.LabelSelector{MatchLabels: map[string]string{key: "true"}})
		}

		roles = append(roles, role)
	}

	return roles
}

// groupRoleName returns the name of a ClusterRole of a group. The hash distinguishes groups with the same name in
// different namespaces.
func groupRoleName(namespace, name, suffix string) string {
	const prefix = "olm.og."
	end := "." + suffix + "-" + csvinfo.TextHash(namespace+"/"+name+"/"+suffix)
	return prefix + name[:min(len(name), maxNameLength-len(prefix)-len(end))] + end
}

// newAPIRoles returns the ClusterRoles that grant access to the APIs of a ClusterServiceVersion. It leaves out APIs
// for which uids returns no UID, because they do not exist.
func newAPIRoles(csv *v1alpha1.ClusterServiceVersion, uids func(kind, name string) types.UID) []rbacv1.ClusterRole {
	var roles []rbacv1.ClusterRole
	for _, d := range csv.Spec.CustomResourceDefinitions.Owned {
		plural, group, ok := strings.Cut(d.Name, ".")
		owner := newOwnerReference(apiextensionsGroupVersion, kindCRD, d.Name, uids)
		if !ok || owner == nil {
			continue
		}

		api := schema.GroupVersionKind{Group: group, Version: d.Version, Kind: d.Kind}
		roles = append(roles, newAccessRoles(d.Name+"-"+d.Version, api, plural, *owner)...)
		roles = append(roles, newAccessRole(d.Name+"-"+d.Version+"-crdview", api, "view", *owner, rbacv1.PolicyRule{
			Verbs: []string{"get"}, APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, ResourceNames: []string{d.Name},
		}))
	}

	for _, d := range csv.Spec.APIServiceDefinitions.Owned {
		owner := newOwnerReference(apiregistrationGroupVersion, kindAPIService, csvinfo.APIServiceName(d), uids)
		if owner == nil {
			continue
		}
		api := schema.GroupVersionKind{Group: d.Group, Version: d.Version, Kind: d.Kind}
		roles = append(roles, newAccessRoles(d.Name+"-"+d.Version, api, d.Name, *owner)...)
	}

	slices.SortFunc(roles, func(a, b rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(roles, func(a, b rbacv1.ClusterRole) bool { return a.Name == b.Name })
}

const (
	kindCRD        = "CustomResourceDefinition"
	kindAPIService = "APIService"
)

var (
	apiextensionsGroupVersion   = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	apiregistrationGroupVersion = schema.GroupVersion{Group: "apiregistration.k8s.io", Version: "v1"}
)

// newAccessRoles returns a ClusterRole for each level of access to a resource.
func newAccessRoles(name string, api schema.GroupVersionKind, resource string, owner metav1.OwnerReference) []rbacv1.ClusterRole {
	roles := make([]rbacv1.ClusterRole, 0, len(accessLevels))
	for _, a := range accessLevels {
		rule := rbacv1.PolicyRule{Verbs: a.verbs, APIGroups: []string{api.Group}, Resources: []string{resource}}
		roles = append(roles, newAccessRole(name+"-"+a.suffix, api, a.suffix, owner, rule))
	}
	return roles
}

func newAccessRole(name string, api schema.GroupVersionKind, suffix string, owner metav1.OwnerReference, rule rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				aggregateKubernetes + suffix: "true", aggregateLabel(api, suffix): "true", csvinfo.LabelManaged: "true",
			},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Rules: []rbacv1.PolicyRule{rule},
	}
}

// newOwnerReference returns the reference to the API that owns a ClusterRole; nil when the API does not exist.
func newOwnerReference(version schema.GroupVersion, kind, name string, uids func(kind, name string) types.UID) *metav1.OwnerReference {
	uid := uids(kind, name)
	if uid == "" {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: version.String(), Kind: kind, Name: name, UID: uid}
}
