package install

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

// maxArchived is how many archived revisions of an extension are kept as history.
const maxArchived = 5

// revisions are the ClusterObjectSets of one extension, oldest first.
type revisions []olmv1.ClusterObjectSet

func sortRevisions(items []olmv1.ClusterObjectSet) revisions {
	slices.SortFunc(items, func(a, b olmv1.ClusterObjectSet) int {
		return cmp.Compare(a.Spec.Revision, b.Spec.Revision)
	})
	return items
}

// newest returns the last active revision, or nil if there is none.
func (r revisions) newest() *olmv1.ClusterObjectSet {
	for i := range slices.Backward(r) {
		if isActiveRevision(&r[i]) {
			return &r[i]
		}
	}
	return nil
}

// installed returns the last active revision that was rolled out completely, or nil if there is
// none. During an update it is not the newest.
func (r revisions) installed() *olmv1.ClusterObjectSet {
	for i := range slices.Backward(r) {
		if isActiveRevision(&r[i]) && hasSucceeded(&r[i]) {
			return &r[i]
		}
	}
	return nil
}

// findRevisionToKeep returns the revision whose bundle is kept while no catalog is selected: the
// newest one, or the installed one if the spec asks for its version. It returns nil if nothing is
// installed, or if the spec asks for another version.
func (r revisions) findRevisionToKeep(version string) *olmv1.ClusterObjectSet {
	installed := r.installed()
	switch {
	case installed == nil:
		return nil
	case version == "":
		return r.newest()
	case version == bundleMetadata(installed).Version:
		return installed
	default:
		return nil
	}
}

// findByInputsDigest returns the active revision with the same digest of inputs: the newest, or the
// installed one while it is being updated. It returns nil if neither matches.
func (r revisions) findByInputsDigest(inputs string) *olmv1.ClusterObjectSet {
	for _, set := range []*olmv1.ClusterObjectSet{r.newest(), r.installed()} {
		if set != nil && set.Annotations[annotationInputs] == inputs {
			return set
		}
	}
	return nil
}

// findByName returns the revision with a name, or nil if there is none.
func (r revisions) findByName(name string) *olmv1.ClusterObjectSet {
	for i := range r {
		if r[i].Name == name {
			return &r[i]
		}
	}
	return nil
}

// replaceRevision replaces the revision of the same name.
func (r revisions) replaceRevision(set *olmv1.ClusterObjectSet) {
	if found := r.findByName(set.Name); found != nil {
		*found = *set
	}
}

// withArchived returns the revisions as they are once some of them are archived, and refused for a
// generation of the spec if that is not zero.
func (r revisions) withArchived(names []string, refusedFor int64) revisions {
	result := slices.Clone(r)
	for _, name := range names {
		result.replaceRevision(archivedRevision(r.findByName(name), refusedFor))
	}
	return result
}

// active returns copies of the revisions that own objects, oldest first.
func (r revisions) active() revisions {
	var result revisions
	for i := range r {
		if isActiveRevision(&r[i]) {
			result = append(result, r[i])
		}
	}
	return result
}

// listActiveAfter returns the names of the active revisions after the given one, newest first.
func (r revisions) listActiveAfter(set *olmv1.ClusterObjectSet) []string {
	var names []string
	for i := range slices.Backward(r) {
		if isActiveRevision(&r[i]) && r[i].Spec.Revision > set.Spec.Revision {
			names = append(names, r[i].Name)
		}
	}
	return names
}

// findRefusedRevision returns the revision with the same digest of inputs that was abandoned for
// the same generation of the spec. It returns nil if there is none.
func (r revisions) findRefusedRevision(inputs string, generation int64) *olmv1.ClusterObjectSet {
	for i := range r {
		if r[i].Annotations[annotationInputs] == inputs && r[i].Annotations[olmv1.AnnotationRefusedGeneration] == strconv.FormatInt(generation, 10) {
			return &r[i]
		}
	}
	return nil
}

// nextRevisionNumber returns the number of the next revision.
func (r revisions) nextRevisionNumber() int64 {
	if len(r) == 0 {
		return 1
	}
	return r[len(r)-1].Spec.Revision + 1
}

// listReplacedRevisions returns the names of the active revisions before the installed one. They are
// not needed any more.
func (r revisions) listReplacedRevisions() []string {
	installed := r.installed()
	if installed == nil {
		return nil
	}

	var names []string
	for i := range r {
		if isActiveRevision(&r[i]) && r[i].Spec.Revision < installed.Spec.Revision {
			names = append(names, r[i].Name)
		}
	}

	return names
}

// listExpiredRevisions returns the names of the oldest archived revisions, beyond the maxArchived
// that are kept.
func (r revisions) listExpiredRevisions() []string {
	var archived []string
	for i := range r {
		if !isActiveRevision(&r[i]) {
			archived = append(archived, r[i].Name)
		}
	}

	if len(archived) <= maxArchived {
		return nil
	}
	return archived[:len(archived)-maxArchived]
}

func isActiveRevision(set *olmv1.ClusterObjectSet) bool {
	return set.Spec.LifecycleState == olmv1.LifecycleStateActive && set.DeletionTimestamp.IsZero()
}

func hasSucceeded(set *olmv1.ClusterObjectSet) bool {
	return meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded)
}

// bundleMetadata returns the bundle of a revision for resolution, or nil without a revision.
func bundleMetadata(set *olmv1.ClusterObjectSet) *resolve.Installed {
	if set == nil {
		return nil
	}
	return &resolve.Installed{
		Name:    set.Annotations[olmv1.AnnotationBundleName],
		Version: set.Annotations[olmv1.AnnotationBundleVersion],
		Release: set.Annotations[olmv1.AnnotationBundleRelease],
	}
}
