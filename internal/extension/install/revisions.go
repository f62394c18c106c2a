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

// newest is the last active revision, nil when there is none.
func (r revisions) newest() *olmv1.ClusterObjectSet {
	for i := range slices.Backward(r) {
		if isActive(&r[i]) {
			return &r[i]
		}
	}
	return nil
}

// installed is the last active revision that was rolled out completely, nil when
// there is none. During an update it is not the newest.
func (r revisions) installed() *olmv1.ClusterObjectSet {
	for i := range slices.Backward(r) {
		if isActive(&r[i]) && hasSucceeded(&r[i]) {
			return &r[i]
		}
	}
	return nil
}

// keeper returns the revision whose bundle stays while there is no catalog to choose from:
// the newest one, or the installed one when a version is asked for. It returns nil when
// nothing is installed, or another version is asked for than the installed one.
func (r revisions) keeper(version string) *olmv1.ClusterObjectSet {
	installed := r.installed()
	switch {
	case installed == nil:
		return nil
	case version == "":
		return r.newest()
	case version == bundleOf(installed).Version:
		return installed
	default:
		return nil
	}
}

// standing is the active revision that followed from the same inputs: the newest, or the
// one that is installed while an update of it is on its way. Nil when neither did.
func (r revisions) standing(inputs string) *olmv1.ClusterObjectSet {
	for _, set := range []*olmv1.ClusterObjectSet{r.newest(), r.installed()} {
		if set != nil && set.Annotations[annotationInputs] == inputs {
			return set
		}
	}
	return nil
}

// active are the revisions that own objects, oldest first.
func (r revisions) active() revisions {
	var result revisions
	for i := range r {
		if isActive(&r[i]) {
			result = append(result, r[i])
		}
	}
	return result
}

// activeAfter are the active revisions after one, oldest first. They are those of r, not
// copies.
func (r revisions) activeAfter(set *olmv1.ClusterObjectSet) []*olmv1.ClusterObjectSet {
	var result []*olmv1.ClusterObjectSet
	for i := range r {
		if isActive(&r[i]) && r[i].Spec.Revision > set.Spec.Revision {
			result = append(result, &r[i])
		}
	}
	return result
}

// refused is the revision that followed from the same inputs and was given up for the same
// generation of the spec; nil when there is none.
func (r revisions) refused(inputs string, generation int64) *olmv1.ClusterObjectSet {
	for i := range r {
		if r[i].Annotations[annotationInputs] == inputs && r[i].Annotations[olmv1.AnnotationRefusedGeneration] == strconv.FormatInt(generation, 10) {
			return &r[i]
		}
	}
	return nil
}

// nextNumber is the number of the revision to be made.
func (r revisions) nextNumber() int64 {
	if len(r) == 0 {
		return 1
	}
	return r[len(r)-1].Spec.Revision + 1
}

// toArchive are the active revisions that the newest one has replaced: once it was
// rolled out completely nothing but it is needed.
func (r revisions) toArchive() []*olmv1.ClusterObjectSet {
	installed := r.installed()
	if installed == nil {
		return nil
	}

	var result []*olmv1.ClusterObjectSet
	for i := range r {
		if isActive(&r[i]) && r[i].Spec.Revision < installed.Spec.Revision {
			result = append(result, &r[i])
		}
	}

	return result
}

// toDelete are the oldest archived revisions beyond those that are kept.
func (r revisions) toDelete() revisions {
	var archived revisions
	for i := range r {
		if !isActive(&r[i]) {
			archived = append(archived, r[i])
		}
	}

	if len(archived) <= maxArchived {
		return nil
	}
	return archived[:len(archived)-maxArchived]
}

func isActive(set *olmv1.ClusterObjectSet) bool {
	return set.Spec.LifecycleState == olmv1.LifecycleStateActive && set.DeletionTimestamp.IsZero()
}

func hasSucceeded(set *olmv1.ClusterObjectSet) bool {
	return meta.IsStatusConditionTrue(set.Status.Conditions, olmv1.TypeSucceeded)
}

// bundleOf returns the bundle that a revision holds.
func bundleOf(set *olmv1.ClusterObjectSet) *resolve.Installed {
	if set == nil {
		return nil
	}
	return &resolve.Installed{
		Name:    set.Annotations[olmv1.AnnotationBundleName],
		Version: set.Annotations[olmv1.AnnotationBundleVersion],
		Release: set.Annotations[olmv1.AnnotationBundleRelease],
	}
}
