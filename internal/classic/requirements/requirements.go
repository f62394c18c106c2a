// Package requirements says which of the things that a ClusterServiceVersion needs the cluster has:
// a version of Kubernetes, definitions, APIs, ServiceAccounts and their rights.
//
// It is pure: it judges a World that was read before.
package requirements

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// World is what of a cluster the requirements are about.
type World struct {
	// ServerVersion is the version of the API server, such as v1.36.3; ServerVersionErr why it is
	// not known.
	ServerVersion    string
	ServerVersionErr error
	// CRDs are those that the ClusterServiceVersion names and the cluster has, by name. Their
	// schemas are not looked at.
	CRDs map[string]*apiextensionsv1.CustomResourceDefinition
	// APIServices tells of those that it requires and the cluster has whether they are available.
	APIServices map[string]bool
	// Served are the native and required APIs that discovery lists.
	Served sets.Set[schema.GroupVersionKind]
	// Accounts are the ServiceAccounts that it names and its namespace has, by name.
	Accounts map[string]*metav1.PartialObjectMetadata
	// Policy is the roles and bindings that are looked at.
	Policy *rbac.Policy
	// Ancestors are the names of those that it replaces, directly or not.
	Ancestors sets.Set[string]
}

// Result is the judgement.
type Result struct {
	// Statuses tell of each requirement, in the order of the kinds of requirements.
	Statuses []v1alpha1.RequirementStatus
	// Met: all of them are.
	Met bool
	// LacksRights: some ServiceAccount lacks a right by the Policy.
	LacksRights bool
}

func (r *Result) add(met bool, status v1alpha1.RequirementStatus) {
	r.Statuses = append(r.Statuses, status)
	r.Met = r.Met && met
}

// Check judges a world. It fails when a rule of the strategy is none.
func Check(csv *v1alpha1.ClusterServiceVersion, world *World) (*Result, error) {
	r := &Result{Met: true, Statuses: []v1alpha1.RequirementStatus{}}
	r.kubernetes(csv, world)
	r.definitions(csv, world)
	r.requiredAPIs(csv, world)
	r.ownedAPIs(csv)
	r.nativeAPIs(csv, world)
	if err := r.accounts(csv, world); err != nil {
		return nil, err
	}

	return r, nil
}

// Definitions are the CRDs that a ClusterServiceVersion owns or requires, sorted by name, each
// version once.
func Definitions(csv *v1alpha1.ClusterServiceVersion) []v1alpha1.CRDDescription {
	d := csv.Spec.CustomResourceDefinitions
	all := slices.Concat(d.Owned, d.Required)
	slices.SortStableFunc(all, func(a, b v1alpha1.CRDDescription) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return slices.CompactFunc(all, func(a, b v1alpha1.CRDDescription) bool { return a.Name == b.Name && a.Version == b.Version })
}

// RequiredAPIs are the aggregated APIs that a ClusterServiceVersion requires and does not own.
func RequiredAPIs(csv *v1alpha1.ClusterServiceVersion) []v1alpha1.APIServiceDescription {
	d := csv.Spec.APIServiceDefinitions
	return slices.DeleteFunc(slices.Clone(d.Required), func(r v1alpha1.APIServiceDescription) bool {
		return slices.ContainsFunc(d.Owned, func(o v1alpha1.APIServiceDescription) bool {
			return o.Group == r.Group && o.Version == r.Version && o.Kind == r.Kind
		})
	})
}

// AccountNames are the ServiceAccounts that the strategy gives rights to, sorted.
func AccountNames(csv *v1alpha1.ClusterServiceVersion) []string {
	spec := csv.Spec.InstallStrategy.StrategySpec
	names := sets.Set[string]{}
	for _, p := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
		names.Insert(AccountName(p))
	}
	return sets.List(names)
}

// AccountName is the account of a permission.
func AccountName(p v1alpha1.StrategyDeploymentPermissions) string {
	return cmp.Or(p.ServiceAccountName, "default")
}

func (r *Result) ownedAPIs(csv *v1alpha1.ClusterServiceVersion) {
	for _, api := range csv.Spec.APIServiceDefinitions.Owned {
		status := apiServiceStatus(api)
		found := slices.ContainsFunc(csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs, func(d v1alpha1.StrategyDeploymentSpec) bool {
			return d.Name == api.DeploymentName
		})
		status.Status = v1alpha1.RequirementDeploymentFound
		if !found {
			status.Status = v1alpha1.RequirementDeploymentNotFound
			status.Message = "no deployment of the install strategy is named as its deploymentName"
		}

		r.add(found, status)
	}
}

func (r *Result) requiredAPIs(csv *v1alpha1.ClusterServiceVersion, world *World) {
	for _, api := range RequiredAPIs(csv) {
		status := apiServiceStatus(api)
		available, exists := world.APIServices[status.Name]
		served := world.Served.Has(schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind})
		met := exists && available && served
		status.Status = v1alpha1.RequirementPresent
		if !met {
			status.Status = v1alpha1.RequirementNotPresent
		}

		switch {
		case !exists:
			status.Message = "APIService does not exist"
		case !available:
			status.Message = "APIService is not available"
		case !served:
			status.Message = "APIService does not serve the kind"
		}

		r.add(met, status)
	}
}

func apiServiceStatus(api v1alpha1.APIServiceDescription) v1alpha1.RequirementStatus {
	return v1alpha1.RequirementStatus{
		Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Name: api.Version + "." + api.Group,
	}
}

func (r *Result) nativeAPIs(csv *v1alpha1.ClusterServiceVersion, world *World) {
	for _, api := range csv.Spec.NativeAPIs {
		status := v1alpha1.RequirementStatus{
			Group: api.Group, Version: api.Version, Kind: api.Kind, Name: api.Kind,
			Status: v1alpha1.RequirementPresent, Message: "Native API exists",
		}
		met := world.Served.Has(schema.GroupVersionKind(api))
		if !met {
			status.Status, status.Message = v1alpha1.RequirementNotPresent, "Native API does not exist"
		}
		r.add(met, status)
	}
}

func accountStatus(name string) v1alpha1.RequirementStatus {
	return v1alpha1.RequirementStatus{Group: corev1.GroupName, Version: "v1", Kind: "ServiceAccount", Name: name}
}
