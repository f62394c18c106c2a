package group

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Outcome is what the APIs that a ClusterServiceVersion provides mean for its group.
type Outcome string

const (
	// NoAPIConflict: the group lists all of them, and nobody else does.
	NoAPIConflict Outcome = "NoAPIConflict"
	// AddAPIs: the group is to list those that it does not list yet.
	AddAPIs Outcome = "AddAPIs"
	// RemoveAPIs: the group lists what an intersecting group lists as well, and is to take it back.
	RemoveAPIs Outcome = "RemoveAPIs"
	// APIConflict: an intersecting group lists one of them first.
	APIConflict Outcome = "APIConflict"
)

// Decision is an outcome, and what is to be done about it.
type Decision struct {
	Outcome Outcome
	// ProvidedAPIs is what the annotation olm.providedAPIs of the group is to be, where the outcome
	// changes it and the group is not static. Otherwise it is the list that the group has.
	ProvidedAPIs csvinfo.APIs
	// Reason and Message are those of the failure of the ClusterServiceVersion; empty when it does
	// not fail. When it fails, its Deployments are removed.
	Reason, Message string
}

// Decide says what becomes of a ClusterServiceVersion that provides APIs, when its group lists those
// in own, the groups whose targets intersect with the group's list those in others, and the group
// keeps its list (static) or not. These are the rules of intersecting OperatorGroups of OLM Classic.
func Decide(provided, own, others csvinfo.APIs, static bool) Decision {
	isTaken := provided.Intersection(others).Len() > 0
	isListed := own.IsSuperset(provided)
	d := Decision{ProvidedAPIs: own.Clone()}
	switch {
	case isTaken && isListed:
		d.Outcome, d.ProvidedAPIs = RemoveAPIs, own.Difference(provided)
	case isTaken:
		d.Outcome = APIConflict
		d.Reason, d.Message = v1alpha1.CSVReasonInterOperatorGroupOwnerConflict, "intersecting operatorgroups provide the same apis"
		return d
	case !isListed:
		d.Outcome, d.ProvidedAPIs = AddAPIs, own.Union(provided)
	default:
		d.Outcome = NoAPIConflict
		return d
	}

	if static {
		d.ProvidedAPIs = own.Clone()
		d.Reason = v1alpha1.CSVReasonCannotModifyStaticOperatorGroupAPIs
		d.Message = "static provided api operatorgroup cannot be modified by these apis"
	}

	return d
}

// Listed are the APIs that a group says that it provides.
func Listed(group *operatorsv1.OperatorGroup) csvinfo.APIs {
	return csvinfo.Split(group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotation])
}

// Others are the APIs that other groups say that they provide, as far as their targets intersect with
// those of the group.
func Others(group *operatorsv1.OperatorGroup, all []operatorsv1.OperatorGroup) csvinfo.APIs {
	apis := csvinfo.APIs{}
	own := reach(group)
	for i := range all {
		other := &all[i]
		if other.Namespace == group.Namespace && other.Name == group.Name || !intersect(own, reach(other)) {
			continue
		}
		apis = apis.Union(Listed(other))
	}

	return apis
}

// reach are the namespaces that intersections go by: the targets and the group's own.
func reach(group *operatorsv1.OperatorGroup) sets.Set[string] {
	names := sets.New(group.Status.Namespaces...)
	if !names.Has(metav1.NamespaceAll) {
		names.Insert(group.Namespace)
	}
	return names
}

func intersect(a, b sets.Set[string]) bool {
	return a.Has(metav1.NamespaceAll) || b.Has(metav1.NamespaceAll) || a.Intersection(b).Len() > 0
}

// Prune returns the APIs that a group is to list of those that it lists, given the
// ClusterServiceVersions of its namespace: those that its members provide. ok is false when the list
// is to stay, because the group is static or because a member has not got as far as to list its APIs.
func Prune(group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) (kept csvinfo.APIs, ok bool) {
	listed := Listed(group)
	if group.Spec.StaticProvidedAPIs {
		return listed, false
	}

	provided := csvinfo.APIs{}
	for i := range members {
		csv := &members[i]
		apis, err := csvinfo.Provided(csv)
		if err != nil || !isMember(group, csv) {
			continue // It cannot be installed, and is told so.
		}

		isEarly := csv.Status.Phase == v1alpha1.CSVPhaseNone || csv.Status.Phase == v1alpha1.CSVPhasePending
		if isEarly && csv.DeletionTimestamp.IsZero() && !listed.IsSuperset(apis) {
			return listed, false
		}

		provided = provided.Union(apis)
	}

	return listed.Intersection(provided), true
}

// isMember reports whether a ClusterServiceVersion counts for what its group provides.
func isMember(group *operatorsv1.OperatorGroup, csv *v1alpha1.ClusterServiceVersion) bool {
	if csv.Namespace != group.Namespace || csvinfo.IsCopied(csv) {
		return false
	}
	if csv.Status.Reason == v1alpha1.CSVReasonInterOperatorGroupOwnerConflict {
		return false
	}
	return csvinfo.Supports(csv.Spec.InstallModes, csv.Namespace, group.Status.Namespaces) == nil
}

// sorted returns the names of a set as status.namespaces and annotations have them.
func sorted(names sets.Set[string]) []string {
	return slices.Sorted(slices.Values(names.UnsortedList()))
}
