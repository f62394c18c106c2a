package membership

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// Outcome is the result of comparing the APIs of a ClusterServiceVersion with the lists of the groups.
type Outcome string

const (
	// NoAPIConflict means that only this group lists all of the APIs.
	NoAPIConflict Outcome = "NoAPIConflict"
	// AddAPIs means that the group must list further APIs.
	AddAPIs Outcome = "AddAPIs"
	// RemoveAPIs means that an intersecting group lists the APIs too, and that this group must remove them.
	RemoveAPIs Outcome = "RemoveAPIs"
	// APIConflict means that an intersecting group lists one of the APIs and that this group does not list all.
	APIConflict Outcome = "APIConflict"
)

// Decision is an outcome with the resulting changes.
type Decision struct {
	Outcome Outcome
	// ProvidedAPIs is the new value of the group's annotation olm.providedAPIs. It equals the current
	// value when the outcome does not change it or the group is static.
	ProvidedAPIs csvinfo.APIs
	// Reason and Message are set when the ClusterServiceVersion fails. Its Deployments are deleted then.
	Reason, Message string
}

// DecideProvidedAPIs returns the decision for a ClusterServiceVersion that provides APIs. Its group lists the APIs in
// own, and groups with intersecting targets list those in others. The list of a static group must not change.
// These are OLM Classic's rules for intersecting OperatorGroups.
func DecideProvidedAPIs(provided, own, others csvinfo.APIs, static bool) Decision {
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

// ListedAPIs returns the APIs in the annotation olm.providedAPIs of a group.
func ListedAPIs(group *operatorsv1.OperatorGroup) csvinfo.APIs {
	return csvinfo.ParseAPIs(group.Annotations[operatorsv1.OperatorGroupProvidedAPIsAnnotation])
}

// APIsOfIntersectingGroups returns the APIs that are listed by other groups whose targets intersect with those of the group.
func APIsOfIntersectingGroups(group *operatorsv1.OperatorGroup, all []operatorsv1.OperatorGroup) csvinfo.APIs {
	apis := csvinfo.APIs{}
	own := intersectionNamespaces(group)
	for i := range all {
		other := &all[i]
		if other.Namespace == group.Namespace && other.Name == group.Name || !hasIntersection(own, intersectionNamespaces(other)) {
			continue
		}
		apis = apis.Union(ListedAPIs(other))
	}

	return apis
}

// intersectionNamespaces returns the namespaces that count for intersections: the targets and the group's own one.
func intersectionNamespaces(group *operatorsv1.OperatorGroup) sets.Set[string] {
	names := sets.New(group.Status.Namespaces...)
	if !names.Has(metav1.NamespaceAll) {
		names.Insert(group.Namespace)
	}
	return names
}

func hasIntersection(a, b sets.Set[string]) bool {
	return a.Has(metav1.NamespaceAll) || b.Has(metav1.NamespaceAll) || a.Intersection(b).Len() > 0
}

// PruneProvidedAPIs returns the listed APIs of a group that its members provide. members are the ClusterServiceVersions of
// its namespace. ok is false when the list must stay, because the group is static or because the APIs of a new
// member are not listed yet.
func PruneProvidedAPIs(group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) (kept csvinfo.APIs, ok bool) {
	listed := ListedAPIs(group)
	if group.Spec.StaticProvidedAPIs {
		return listed, false
	}

	provided := csvinfo.APIs{}
	for i := range members {
		csv := &members[i]
		apis, err := csvinfo.ProvidedAPIs(csv)
		if err != nil || !isMember(group, csv) {
			continue // It cannot be installed. Its own controller reports that.
		}

		if isNewMember(csv) && !listed.IsSuperset(apis) {
			return listed, false
		}

		provided = provided.Union(apis)
	}

	return listed.Intersection(provided), true
}

// APIsOfNewMembers returns the APIs that members of a group provide that are not installed yet. members are the
// ClusterServiceVersions of its namespace.
func APIsOfNewMembers(group *operatorsv1.OperatorGroup, members []v1alpha1.ClusterServiceVersion) csvinfo.APIs {
	provided := csvinfo.APIs{}
	for i := range members {
		csv := &members[i]
		if apis, err := csvinfo.ProvidedAPIs(csv); err == nil && isNewMember(csv) && isMember(group, csv) {
			provided = provided.Union(apis)
		}
	}
	return provided
}

// isNewMember reports whether a ClusterServiceVersion is not installed yet.
func isNewMember(csv *v1alpha1.ClusterServiceVersion) bool {
	isEarly := csv.Status.Phase == v1alpha1.CSVPhaseNone || csv.Status.Phase == v1alpha1.CSVPhasePending
	return isEarly && csv.DeletionTimestamp.IsZero()
}

// isMember reports whether the APIs of a ClusterServiceVersion count as provided by the group.
func isMember(group *operatorsv1.OperatorGroup, csv *v1alpha1.ClusterServiceVersion) bool {
	if csv.Namespace != group.Namespace || csvinfo.IsCopied(csv) {
		return false
	}
	if csv.Status.Reason == v1alpha1.CSVReasonInterOperatorGroupOwnerConflict {
		return false
	}
	return csvinfo.ValidateTargets(csv.Spec.InstallModes, csv.Namespace, group.Status.Namespaces) == nil
}

// sortedNames returns the names of a set in the order of status.namespaces and annotations.
func sortedNames(names sets.Set[string]) []string {
	return slices.Sorted(slices.Values(names.UnsortedList()))
}
