package action

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// ExtensionHistory lists the revisions of an extension. The controller keeps all revisions
// that own objects, and the last five before them.
type ExtensionHistory struct {
	Client client.Client
	Name   string
}

// RevisionStatus is the state of a revision.
type RevisionStatus string

const (
	// RevisionActive means that the revision was rolled out completely and owns objects.
	RevisionActive RevisionStatus = "Active"
	// RevisionRollingOut means that the rollout is in progress.
	RevisionRollingOut RevisionStatus = "RollingOut"
	// RevisionFailed means that the revision was never rolled out completely: it was
	// replaced, is blocked, or has exceeded its progress deadline.
	RevisionFailed RevisionStatus = "Failed"
	// RevisionArchived means that the revision was rolled out completely and then replaced.
	RevisionArchived RevisionStatus = "Archived"
)

// RevisionRecord describes a revision of an extension.
type RevisionRecord struct {
	Name     string         `json:"name"`
	Revision int64          `json:"revision"`
	State    RevisionStatus `json:"state"`
	Bundle   string         `json:"bundle,omitempty"`
	Version  string         `json:"version,omitempty"`
	Release  string         `json:"release,omitempty"`
	// Image is the reference of the bundle image with its digest.
	Image   string      `json:"image,omitempty"`
	Created metav1.Time `json:"created"`
	// Completed is when the revision was first rolled out completely. It is nil if it never
	// was.
	Completed *metav1.Time `json:"completed,omitempty"`
	// Message says why the revision failed or what it lacks. It is empty if there is no
	// problem.
	Message string `json:"message,omitempty"`

	archived bool
}

// isRolledOut reports whether the revision was once rolled out completely.
func (r RevisionRecord) isRolledOut() bool { return r.Completed != nil }

// hasSameBundle reports whether two revisions contain the same bundle. Their configurations
// may differ.
func (r RevisionRecord) hasSameBundle(other RevisionRecord) bool {
	return r.Bundle == other.Bundle && r.Version == other.Version && r.Release == other.Release
}

// Run returns the revisions, the oldest first.
func (a *ExtensionHistory) Run(ctx context.Context) ([]RevisionRecord, error) {
	_, sets, err := readRevisions(ctx, a.Client, a.Name)
	if err != nil {
		return nil, err
	}
	return newRevisionRecords(sets), nil
}

// readRevisions returns an extension and its revisions, the oldest first.
func readRevisions(ctx context.Context, c client.Client, name string) (*olmv1.ClusterExtension, []olmv1.ClusterObjectSet, error) {
	extension := &olmv1.ClusterExtension{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, extension); err != nil {
		return nil, nil, NewNotFoundError(describeExtension(name), "mainstay extension list", err)
	}
	sets, err := listRevisions(ctx, c, name)
	return extension, sets, NewServerError(describeExtension(name), err)
}

// listRevisions returns the revisions of an extension, the oldest first.
func listRevisions(ctx context.Context, c client.Client, name string) ([]olmv1.ClusterObjectSet, error) {
	var list olmv1.ClusterObjectSetList
	err := c.List(ctx, &list, client.MatchingLabels{
		olmv1.LabelOwnerKind: olmv1.ClusterExtensionKind,
		olmv1.LabelOwnerName: name,
	})
	if err != nil {
		return nil, fmt.Errorf("listing revisions: %w", err)
	}

	slices.SortFunc(list.Items, func(a, b olmv1.ClusterObjectSet) int { return cmp.Compare(a.Spec.Revision, b.Spec.Revision) })
	return list.Items, nil
}

func newRevisionRecords(sets []olmv1.ClusterObjectSet) []RevisionRecord {
	result := make([]RevisionRecord, len(sets))
	for i := range sets {
		result[i] = newRevisionRecord(&sets[i])
	}
	return result
}

// newRevisionRecord returns the description of a revision.
func newRevisionRecord(set *olmv1.ClusterObjectSet) RevisionRecord {
	r := RevisionRecord{
		Name: set.Name, Revision: set.Spec.Revision, Created: set.CreationTimestamp,
		Bundle:  set.Annotations[olmv1.AnnotationBundleName],
		Version: set.Annotations[olmv1.AnnotationBundleVersion],
		Release: set.Annotations[olmv1.AnnotationBundleRelease],
		Image:   set.Annotations[olmv1.AnnotationBundleReference],
	}
	if c := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeSucceeded); c != nil && c.Status == metav1.ConditionTrue {
		r.Completed = &c.LastTransitionTime
	}

	progressing := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeProgressing)
	available := meta.FindStatusCondition(set.Status.Conditions, olmv1.TypeAvailable)
	r.archived = set.Spec.LifecycleState == olmv1.LifecycleStateArchived
	switch {
	case r.archived && r.isRolledOut():
		r.State = RevisionArchived
	case r.archived:
		r.State = RevisionFailed
		r.Message = cmp.Or(set.Annotations[olmv1.AnnotationFailure], "it was replaced before it was rolled out completely")
	case r.isRolledOut():
		r.State = RevisionActive
		if available != nil && available.Status == metav1.ConditionFalse {
			r.Message = available.Message
		}
	default:
		r.State = RevisionRollingOut
		if progressing != nil {
			r.Message = progressing.Message
			if progressing.Status == metav1.ConditionFalse {
				r.State = RevisionFailed
			}
		}
	}

	return r
}

// findRevision returns the index of the revision with a number.
func findRevision(history []RevisionRecord, extension string, number int64) (int, error) {
	for i := range history {
		if history[i].Revision == number {
			return i, nil
		}
	}
	return 0, &report.Error{
		Object: describeExtension(extension), Err: fmt.Errorf("it has no revision %d", number),
		Advice: fmt.Sprintf("'mainstay extension history %s' lists those that are kept", extension),
	}
}
