package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// decision is what must be done about a revision.
type decision struct {
	// remove are the phases of an archived revision to remove.
	remove []apply.Phase
	// stop is why the objects cannot be rolled out or removed. It is nil if they can be.
	stop error
	// observed are the digests of the phases to record at the first load. It is empty if they are
	// recorded.
	observed []olmv1.ObservedPhase
	// revision is what is rolled out. It is nil if nothing is.
	revision *apply.Revision

	// applied is the result of the rollout. It is nil until then.
	applied *apply.RevisionResult
}

// decidePass decides what must be done about a revision. It checks that the content is complete, and
// that it has not changed since the first load. After the first complete rollout, phases no longer
// wait for each other.
func decidePass(set *olmv1.ClusterObjectSet, f facts) *decision {
	switch {
	case f.removal != nil:
		phases, err := decideRemoval(set, f.removal)
		return &decision{remove: phases, stop: err}
	case isInactiveRevision(set):
		return &decision{} // Its objects are removed.
	}
	if err := checkContent(f.content); err != nil {
		return &decision{stop: err}
	}

	digests, err := f.content.Digests()
	if err != nil {
		return &decision{stop: reconcile.Stop(olmv1.ReasonBlocked, err)}
	}
	if changed := findChangedPhases(set.Status.ObservedPhases, digests); len(changed) > 0 {
		return &decision{stop: reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"resolved content of %d phase(s) has changed: phase %s: a Secret that holds its objects is not what it was when the revision was first loaded; restore the Secret, or replace the revision",
			len(changed), strings.Join(changed, ", phase ")))}
	}

	d := &decision{}
	if len(set.Status.ObservedPhases) == 0 {
		d.observed = digests
	}
	probes, err := apply.CompileProbes(set.Spec.ProgressionProbes)
	if err != nil {
		d.stop = reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("spec.%w", err))
		return d
	}

	owner := newApplyOwner(set, f.siblings)
	d.revision = &apply.Revision{
		Owner: owner, Phases: f.content.Phases, Probes: probes, Ungated: hasSucceeded(set),
		FirstRollout: !hasSucceeded(set) && len(owner.Siblings) == 0,
	}
	return d
}

// checkContent returns an error if the content of a revision cannot be rolled out.
func checkContent(content *apply.Content) error {
	switch {
	case len(content.Mutable) > 0:
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the following secrets are not immutable (referenced secrets must have immutable set to true): %s", strings.Join(content.Mutable, ", ")))
	case len(content.Malformed) > 0:
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the revision holds objects that cannot be applied, and must be replaced by another: %w", joinErrorMessages(content.Malformed)))
	case len(content.Missing) > 0:
		return reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf(
			"objects of the revision are missing, as there is no Secret %s: restore it, or replace the revision", strings.Join(content.Missing, ", ")))
	case len(content.Phases) == 0:
		return reconcile.Wait(olmv1.ReasonRollingOut, 0, errors.New("the revision has no phases yet"))
	default:
		return nil
	}
}

// newApplyOwner returns the owner that objects are applied for, with the numbers of its siblings.
func newApplyOwner(set *olmv1.ClusterObjectSet, siblings []olmv1.ClusterObjectSet) apply.Owner {
	owner := apply.Owner{
		Reference: newOwnerReference(set), Labels: objectLabels(set), Revision: set.Spec.Revision,
		Siblings: make(map[types.UID]int64, len(siblings)),
	}
	for i := range siblings {
		number := siblings[i].Spec.Revision
		if isInactiveRevision(&siblings[i]) {
			number = 0
		}
		owner.Siblings[siblings[i].UID] = number
	}

	if parent := metav1.GetControllerOf(set); parent != nil {
		owner.Parent = parent.UID
	}

	return owner
}

func newOwnerReference(set *olmv1.ClusterObjectSet) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: set.Name, UID: set.UID,
	}
}

// findChangedPhases returns the quoted names of the phases whose digests differ from those
// observed at the first load.
func findChangedPhases(observed, now []olmv1.ObservedPhase) []string {
	if len(observed) == 0 {
		return nil
	}

	var changed []string
	for _, phase := range now {
		if !slices.Contains(observed, phase) {
			changed = append(changed, fmt.Sprintf("%q", phase.Name))
		}
	}
	return changed
}

func joinErrorMessages(errs []error) error {
	const maxNamedErrors = 3
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}

	return errors.New(excerpt.Join(texts, maxNamedErrors, "; ", "; and "))
}

// incompleteError is the wait for objects that are applied.
type incompleteError struct{ message string }

// Error implements error.
func (e *incompleteError) Error() string { return e.message }

// evaluateResult returns the error that follows from the result of a rollout. After the first
// complete rollout, failing probes are no error: they only affect the condition Available.
func evaluateResult(set *olmv1.ClusterObjectSet, result apply.RevisionResult, resyncInterval time.Duration) error {
	if err := result.Err(); err != nil {
		if waiting := result.Waiting(); waiting != "" {
			err = fmt.Errorf("%w; %s", err, waiting)
		}
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	retryInterval := resyncInterval
	if result.Count(apply.ActionDeleting) > 0 {
		retryInterval = min(retryInterval, unwatchedRetryInterval)
	}
	if waiting := result.Waiting(); waiting != "" {
		return reconcile.Wait(olmv1.ReasonRollingOut, retryInterval, &incompleteError{waiting})
	}
	if result.Superseded() > 0 && !hasSucceeded(set) {
		return reconcile.Wait(olmv1.ReasonRollingOut, retryInterval, &incompleteError{fmt.Sprintf(
			"a later revision has taken over %d of the %d objects so far: nothing more is rolled out", result.Superseded(), result.Objects())})
	}

	return nil
}
