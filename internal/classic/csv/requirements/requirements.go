// Package requirements checks whether a cluster meets the requirements of a ClusterServiceVersion: a version of
// Kubernetes, CRDs, APIs, and service accounts with their rights.
//
// The package is pure: it evaluates a World that the caller has read.
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
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/rbac"
)

// ClusterState is the part of a cluster's state that the requirements refer to.
type ClusterState struct {
	// ServerVersion is the version of the API server, such as v1.36.3; ServerVersionErr is why it is
	// unknown.
	ServerVersion    string
	ServerVersionErr error
	// CRDs are the existing CRDs that the ClusterServiceVersion names, by name. Their schemas are not
	// needed.
	CRDs map[string]*apiextensionsv1.CustomResourceDefinition
	// APIServices states whether the existing APIServices that it requires are available, by name.
	APIServices map[string]bool
	// Served are the native and required APIs that discovery lists.
	Served sets.Set[schema.GroupVersionKind]
	// Accounts are the existing service accounts that it names, by name.
	Accounts map[string]*metav1.PartialObjectMetadata
	// Policy has the roles and bindings to check rights against.
	Policy *rbac.Policy
	// Ancestors are the names of the ClusterServiceVersions that it replaces, directly or indirectly.
	Ancestors sets.Set[string]
}

// Result is the result of a check.
type Result struct {
	// Statuses has the status of each requirement, ordered by kind of requirement.
	Statuses []v1alpha1.RequirementStatus
	// Met is true when all requirements are met.
	Met bool
	// LacksRights is true when the Policy does not grant a service account a required right.
	LacksRights bool
}

func (r *Result) add(met bool, status v1alpha1.RequirementStatus) {
	r.Statuses = append(r.Statuses, status)
	r.Met = r.Met && met
}

// Check checks the requirements of a ClusterServiceVersion. It returns an error when a rule of the strategy is invalid.
func Check(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState) (*Result, error) {
	r := &Result{Met: true, Statuses: []v1alpha1.RequirementStatus{}}
	r.checkServerVersion(csv, cluster)
	r.checkCRDs(csv, cluster)
	r.checkRequiredAPIs(csv, cluster)
	r.checkOwnedAPIs(csv)
	r.checkNativeAPIs(csv, cluster)
	if err := r.checkServiceAccounts(csv, cluster); err != nil {
		return nil, err
	}

	return r, nil
}

// Definitions returns the CRDs that a ClusterServiceVersion owns or requires, sorted by name, with each version once.
func Definitions(csv *v1alpha1.ClusterServiceVersion) []v1alpha1.CRDDescription {
	d := csv.Spec.CustomResourceDefinitions
	all := slices.Concat(d.Owned, d.Required)
	slices.SortStableFunc(all, func(a, b v1alpha1.CRDDescription) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return slices.CompactFunc(all, func(a, b v1alpha1.CRDDescription) bool { return a.Name == b.Name && a.Version == b.Version })
}

// RequiredAPIs returns the aggregated APIs that a ClusterServiceVersion requires and does not own.
func RequiredAPIs(csv *v1alpha1.ClusterServiceVersion) []v1alpha1.APIServiceDescription {
	d := csv.Spec.APIServiceDefinitions
	return slices.DeleteFunc(slices.Clone(d.Required), func(r v1alpha1.APIServiceDescription) bool {
		return slices.ContainsFunc(d.Owned, func(o v1alpha1.APIServiceDescription) bool {
			return o.Group == r.Group && o.Version == r.Version && o.Kind == r.Kind
		})
	})
}

// AccountNames returns the sorted names of the service accounts for which the strategy has permissions.
func AccountNames(csv *v1alpha1.ClusterServiceVersion) []string {
	spec := csv.Spec.InstallStrategy.StrategySpec
	names := sets.Set[string]{}
	for _, p := range slices.Concat(spec.Permissions, spec.ClusterPermissions) {
		names.Insert(csvinfo.AccountName(p))
	}
	return sets.List(names)
}

func (r *Result) checkOwnedAPIs(csv *v1alpha1.ClusterServiceVersion) {
	for _, api := range csv.Spec.APIServiceDefinitions.Owned {
		status := newAPIServiceStatus(api)
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

func (r *Result) checkRequiredAPIs(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState) {
	for _, api := range RequiredAPIs(csv) {
		status := newAPIServiceStatus(api)
		available, exists := cluster.APIServices[status.Name]
		served := cluster.Served.Has(schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind})
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

func newAPIServiceStatus(api v1alpha1.APIServiceDescription) v1alpha1.RequirementStatus {
	return v1alpha1.RequirementStatus{
		Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Name: api.Version + "." + api.Group,
	}
}

func (r *Result) checkNativeAPIs(csv *v1alpha1.ClusterServiceVersion, cluster *ClusterState) {
	for _, api := range csv.Spec.NativeAPIs {
		status := v1alpha1.RequirementStatus{
			Group: api.Group, Version: api.Version, Kind: api.Kind, Name: api.Kind,
			Status: v1alpha1.RequirementPresent, Message: "Native API exists",
		}
		met := cluster.Served.Has(schema.GroupVersionKind(api))
		if !met {
			status.Status, status.Message = v1alpha1.RequirementNotPresent, "Native API does not exist"
		}
		r.add(met, status)
	}
}

func newAccountStatus(name string) v1alpha1.RequirementStatus {
	return v1alpha1.RequirementStatus{Group: corev1.GroupName, Version: "v1", Kind: "ServiceAccount", Name: name}
}
