package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// attempt is one reconciliation of one revision. It holds the results of its steps for later steps
// and for the status.
type attempt struct {
	*reconciler

	content *apply.Content
	digests []olmv1.ObservedPhase
	probes  *apply.Probes
	engine  *apply.Engine
	applied *apply.RevisionResult
}

// loadAndVerifyContent reads the objects of the revision, and checks that they have not changed
// since the first load.
func (a *attempt) loadAndVerifyContent(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	if apply.HoldsReferences(set) {
		// The Secrets have the labels of managed objects. They belong to operator-controller.
		a.watches.ensureWatch(set.Name, watchKey{scope{namespace: a.systemNamespace}, secretsResource}) //nolint:contextcheck // the watch outlives this reconciliation
	}

	content, err := a.readRevisionContent(ctx, set, account.ForRevision(set))
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if len(content.Mutable) > 0 {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the following secrets are not immutable (referenced secrets must have immutable set to true): %s", strings.Join(content.Mutable, ", ")))
	}
	if len(content.Malformed) > 0 {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the revision holds objects that cannot be applied, and must be replaced by another: %w", joinErrorMessages(content.Malformed)))
	}
	if len(content.Missing) > 0 {
		return reconcile.Retry(olmv1.ReasonRetrying, fmt.Errorf(
			"objects of the revision are missing, as there is no Secret %s: restore it, or replace the revision", strings.Join(content.Missing, ", ")))
	}
	if len(content.Phases) == 0 {
		return reconcile.Wait(olmv1.ReasonRollingOut, 0, errors.New("the revision has no phases yet"))
	}

	a.content = content
	if a.digests, err = content.Digests(); err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, err)
	}

	if changed := findChangedPhases(set.Status.ObservedPhases, a.digests); len(changed) > 0 {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"resolved content of %d phase(s) has changed: phase %s: a Secret that holds its objects is not what it was when the revision was first loaded; restore the Secret, or replace the revision",
			len(changed), strings.Join(changed, ", phase ")))
	}

	if err := a.recordPhaseDigests(ctx, set); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if a.probes, err = apply.CompileProbes(set.Spec.ProgressionProbes); err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("spec.%w", err))
	}

	return nil
}

// recordPhaseDigests records the digests of the phases in the status at the first load. For
// objects in Secrets it patches the status before any object is applied. Otherwise a Secret that
// is replaced during the rollout, or while this program restarts, would go unnoticed.
func (a *attempt) recordPhaseDigests(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	if len(set.Status.ObservedPhases) > 0 {
		return nil
	}

	before := set.DeepCopy()
	set.Status.ObservedPhases = a.digests
	if !apply.HoldsReferences(set) {
		return nil // The spec is immutable: the status patch at the end is early enough.
	}
	if err := a.client.Status().Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the content of the phases: %w", err)
	}

	return nil
}

// newEngineForAccount sets the engine that impersonates the revision's service account.
func (a *attempt) newEngineForAccount(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	as := account.ForRevision(set)
	if as.IsOwn() && a.requireServiceAccount {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the revision names no service account, and this cluster requires one: set the annotations %s and %s",
			olmv1.AnnotationServiceAccountNamespace, olmv1.AnnotationServiceAccountName))
	}

	if err := a.checkServiceAccount(ctx, as); errors.Is(err, apply.ErrMissingAccount) {
		return reconcile.Wait(olmv1.ReasonRetrying, unwatchedRetryInterval, err)
	} else if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	writer, err := a.accounts.For(as)
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	a.engine = apply.New(writer.Dynamic, a.mapper, a.memory)
	return nil
}

// readRevisionContent reads the objects of a revision with the rights of an account.
func (r *reconciler) readRevisionContent(ctx context.Context, set *olmv1.ClusterObjectSet, as account.Account) (*apply.Content, error) {
	reader, err := r.accounts.For(as)
	if err != nil {
		return nil, err
	}
	return apply.Load(ctx, &account.ContentReader{Reader: reader, Own: r.reader, SystemNamespace: r.systemNamespace}, set, r.systemNamespace)
}

// secretsResource is the resource that holds the objects of large revisions.
var secretsResource = corev1.SchemeGroupVersion.WithResource("secrets")

// checkServiceAccount returns an error if the service account does not exist.
func (r *reconciler) checkServiceAccount(ctx context.Context, as account.Account) error {
	if as.IsOwn() {
		return nil
	}
	if as.Name == "" || as.Namespace == "" {
		return fmt.Errorf("%w: the revision's annotations %s and %s must both be set, or neither",
			apply.ErrMissingAccount, olmv1.AnnotationServiceAccountName, olmv1.AnnotationServiceAccountNamespace)
	}
	return apply.CheckAccount(ctx, r.reader, types.NamespacedName(as))
}

// rollOutObjects applies the objects. After the first complete rollout, phases no longer wait for
// each other.
func (a *attempt) rollOutObjects(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	owner, err := a.newApplyOwner(ctx, set)
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	within := scopeForRevision(set)
	rev := apply.Revision{
		Owner: owner, Phases: a.content.Phases, Probes: a.probes, Ungated: hasSucceeded(set),
		//nolint:contextcheck // the watch outlives this reconciliation
		Watch: func(resource schema.GroupVersionResource) {
			a.watches.ensureWatch(set.Name, watchKey{within, resource})
		},
		FirstRollout: !hasSucceeded(set) && len(owner.Siblings) == 0,
	}
	if !a.passLimiter.claimFullRead(set.Name, a.clock.Now()) {
		rev.LastSeen = a.watches.lastSeenFunc(within)
	}

	result := a.engine.Apply(ctx, &rev)
	a.applied = &result
	logAppliedChanges(ctx, result)

	return a.evaluateResult(set, result)
}

// evaluateResult returns the error that follows from the result. After the first complete rollout,
// failing probes are no error: they only affect the condition Available.
func (a *attempt) evaluateResult(set *olmv1.ClusterObjectSet, result apply.RevisionResult) error {
	if err := result.Err(); err != nil {
		if waiting := result.Waiting(); waiting != "" {
			err = fmt.Errorf("%w; %s", err, waiting)
		}
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	retryInterval := a.jitteredResyncInterval(set)
	if result.Count(apply.ActionDeleting) > 0 {
		retryInterval = min(retryInterval, unwatchedRetryInterval)
	}
	if waiting := result.Waiting(); waiting != "" {
		return reconcile.Wait(olmv1.ReasonRollingOut, retryInterval, errors.New(waiting))
	}
	if result.Superseded() > 0 && !hasSucceeded(set) {
		return reconcile.Wait(olmv1.ReasonRollingOut, retryInterval, fmt.Errorf(
			"a later revision has taken over %d of the %d objects so far: nothing more is rolled out", result.Superseded(), result.Objects()))
	}

	return nil
}

// newApplyOwner returns the owner that objects are applied for, with the numbers of its siblings.
func (a *attempt) newApplyOwner(ctx context.Context, set *olmv1.ClusterObjectSet) (apply.Owner, error) {
	siblings, err := a.listSiblings(ctx, set)
	if err != nil {
		return apply.Owner{}, err
	}

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

	return owner, nil
}

// isTransientStatus reports whether the first rollout, or the removal, is in progress without a
// problem. The watches mostly report the next step immediately.
func (a *attempt) isTransientStatus(set *olmv1.ClusterObjectSet, err error) bool {
	if isInactiveRevision(set) {
		return reconcile.IsWait(err) && a.watches.isFullyWatched(set.Name)
	}
	return reconcile.IsWait(err) && a.applied != nil && !hasSucceeded(set) && !a.newOutcome(set, err).deadlineExceeded && a.watches.isFullyWatched(set.Name)
}

// resyncIntervalAfterSuccess returns the resync interval of a complete revision. Zero means that
// only events enqueue it.
func (a *attempt) resyncIntervalAfterSuccess(set *olmv1.ClusterObjectSet) time.Duration {
	switch {
	case hasFinishedArchiving(set):
		return 0
	case a.watches.isFullyWatched(set.Name):
		return wait.Jitter(stableResyncInterval, 0.2)
	default:
		return a.jitteredResyncInterval(set)
	}
}

// jitteredResyncInterval returns the time until the next resync, but at most until the progress
// deadline. It has jitter, so that revisions are not reconciled all at once.
func (a *attempt) jitteredResyncInterval(set *olmv1.ClusterObjectSet) time.Duration {
	interval := wait.Jitter(defaultResyncInterval, 0.2)
	if deadline, ok := progressDeadline(set); ok {
		if left := deadline.Sub(a.clock.Now()); left > 0 {
			interval = min(interval, left)
		}
	}
	return interval
}

// newOutcome returns the outcome of the attempt for the status.
func (a *attempt) newOutcome(set *olmv1.ClusterObjectSet, err error) outcome {
	deadline, ok := progressDeadline(set)
	return outcome{
		err: err, applied: a.applied,
		deadlineExceeded: ok && !a.clock.Now().Before(deadline),
	}
}

// progressDeadline returns the time by which the first rollout must be complete. It returns false
// if there is no deadline, or if the rollout was complete before.
func progressDeadline(set *olmv1.ClusterObjectSet) (time.Time, bool) {
	if set.Spec.ProgressDeadlineMinutes == nil || hasSucceeded(set) {
		return time.Time{}, false
	}
	return set.CreationTimestamp.Add(time.Duration(*set.Spec.ProgressDeadlineMinutes) * time.Minute), true
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
	const named = 3
	texts := make([]string, 0, named+1)
	for i, err := range errs {
		if i == named {
			texts = append(texts, fmt.Sprintf("and %d more", len(errs)-named))
			break
		}
		texts = append(texts, err.Error())
	}

	return errors.New(strings.Join(texts, "; "))
}

// logAppliedChanges logs the number of written objects, if any.
func logAppliedChanges(ctx context.Context, result apply.RevisionResult) {
	var counts []any
	for _, action := range []apply.Action{apply.ActionCreated, apply.ActionUpdated, apply.ActionRecovered} {
		if count := result.Count(action); count > 0 {
			counts = append(counts, strings.ToLower(string(action)), count)
		}
	}

	if len(counts) > 0 {
		ctrl.LoggerFrom(ctx).Info("Applied objects", counts...)
	}
}
