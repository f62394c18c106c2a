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

// attempt is one reconciliation of one revision: what its steps found, for the steps
// after them and for the report.
type attempt struct {
	*reconciler

	content *apply.Content
	digests []olmv1.ObservedPhase
	probes  *apply.Probes
	engine  *apply.Engine
	applied *apply.RevisionResult
}

// load reads what the revision holds, and checks that it is what it was.
func (a *attempt) load(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	if apply.HoldsReferences(set) {
		// The Secrets are labelled as managed objects are. They are operator-controller's own.
		a.watches.use(set.Name, watched{scope{namespace: a.namespace}, secrets}) //nolint:contextcheck // a watch outlives the pass that begins it
	}

	content, err := a.readContent(ctx, set, account.Of(set))
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if len(content.Mutable) > 0 {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the following secrets are not immutable (referenced secrets must have immutable set to true): %s", strings.Join(content.Mutable, ", ")))
	}
	if len(content.Malformed) > 0 {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the revision holds objects that cannot be applied, and must be replaced by another: %w", joined(content.Malformed)))
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

	if changed := changedPhases(set.Status.ObservedPhases, a.digests); len(changed) > 0 {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"resolved content of %d phase(s) has changed: phase %s: a Secret that holds its objects is not what it was when the revision was first loaded; restore the Secret, or replace the revision",
			len(changed), strings.Join(changed, ", phase ")))
	}

	if err := a.pin(ctx, set); err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}
	if a.probes, err = apply.CompileProbes(set.Spec.ProgressionProbes); err != nil {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf("spec.%w", err))
	}

	return nil
}

// pin records the content of the phases at the first load. Of objects in Secrets it does so
// before any is applied: only then is a Secret that is replaced during the rollout, or
// while this program restarts, noticed.
func (a *attempt) pin(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	if len(set.Status.ObservedPhases) > 0 {
		return nil
	}

	before := set.DeepCopy()
	set.Status.ObservedPhases = a.digests
	if !apply.HoldsReferences(set) {
		return nil // The spec is immutable: the next status that is written is early enough.
	}
	if err := a.client.Status().Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording the content of the phases: %w", err)
	}

	return nil
}

// connect makes the engine that writes as the revision's account.
func (a *attempt) connect(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	as := account.Of(set)
	if as.IsOwn() && a.requireAccount {
		return reconcile.Stop(olmv1.ReasonBlocked, fmt.Errorf(
			"the revision names no service account, and this cluster requires one: set the annotations %s and %s",
			olmv1.AnnotationServiceAccountNamespace, olmv1.AnnotationServiceAccountName))
	}

	if err := a.checkAccount(ctx, as); errors.Is(err, apply.ErrMissingAccount) {
		return reconcile.Wait(olmv1.ReasonRetrying, recheck, err)
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

// readContent reads what a revision holds, with the rights of an account.
func (r *reconciler) readContent(ctx context.Context, set *olmv1.ClusterObjectSet, as account.Account) (*apply.Content, error) {
	reader, err := r.accounts.For(as)
	if err != nil {
		return nil, err
	}
	return apply.Load(ctx, &account.ContentReader{Reader: reader, Own: r.reader, SystemNamespace: r.namespace}, set, r.namespace)
}

// secrets is where the objects of large revisions stand.
var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

// checkAccount makes sure that the account exists.
func (r *reconciler) checkAccount(ctx context.Context, as account.Account) error {
	if as.IsOwn() {
		return nil
	}
	if as.Name == "" || as.Namespace == "" {
		return fmt.Errorf("%w: the revision's annotations %s and %s must both be set, or neither",
			apply.ErrMissingAccount, olmv1.AnnotationServiceAccountName, olmv1.AnnotationServiceAccountNamespace)
	}
	return apply.CheckAccount(ctx, r.reader, types.NamespacedName(as))
}

// rollOut applies the objects. Once a revision was rolled out its phases do not wait
// for each other any more: it is only kept as it is.
func (a *attempt) rollOut(ctx context.Context, set *olmv1.ClusterObjectSet) error {
	owner, err := a.owner(ctx, set)
	if err != nil {
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	within := scopeOf(set)
	rev := apply.Revision{
		Owner: owner, Phases: a.content.Phases, Probes: a.probes, Ungated: isSucceeded(set),
		Watch: func(resource schema.GroupVersionResource) { a.watches.use(set.Name, watched{within, resource}) }, //nolint:contextcheck // a watch outlives the pass that begins it
		First: !isSucceeded(set) && len(owner.Siblings) == 0,
	}
	if !a.pace.isThorough(set.Name, a.clock.Now()) {
		rev.Current = a.watches.seenIn(within)
	}

	result := a.engine.Apply(ctx, &rev)
	a.applied = &result
	logChanges(ctx, result)

	return a.judge(set, result)
}

// judge says what follows from the result. Probes that fail after the first success
// are no part of the roll-out: they show in the condition Available alone.
func (a *attempt) judge(set *olmv1.ClusterObjectSet, result apply.RevisionResult) error {
	if err := result.Err(); err != nil {
		if waiting := result.Waiting(); waiting != "" {
			err = fmt.Errorf("%w; %s", err, waiting)
		}
		return reconcile.Retry(olmv1.ReasonRetrying, err)
	}

	pause := a.pause(set)
	if result.Count(apply.ActionDeleting) > 0 {
		pause = min(pause, recheck)
	}
	if waiting := result.Waiting(); waiting != "" {
		return reconcile.Wait(olmv1.ReasonRollingOut, pause, errors.New(waiting))
	}
	if result.Superseded() > 0 && !isSucceeded(set) {
		return reconcile.Wait(olmv1.ReasonRollingOut, pause, fmt.Errorf(
			"a later revision has taken over %d of the %d objects so far: nothing more is rolled out", result.Superseded(), result.Objects()))
	}

	return nil
}

// owner says for whom objects are applied, and who the other revisions are.
func (a *attempt) owner(ctx context.Context, set *olmv1.ClusterObjectSet) (apply.Owner, error) {
	siblings, err := a.siblings(ctx, set)
	if err != nil {
		return apply.Owner{}, err
	}

	owner := apply.Owner{
		Reference: reference(set), Labels: objectLabels(set), Revision: set.Spec.Revision,
		Siblings: make(map[types.UID]int64, len(siblings)),
	}
	for i := range siblings {
		number := siblings[i].Spec.Revision
		if isGivingUp(&siblings[i]) {
			number = 0
		}
		owner.Siblings[siblings[i].UID] = number
	}

	if parent := metav1.GetControllerOf(set); parent != nil {
		owner.Parent = parent.UID
	}

	return owner, nil
}

// isPassing reports whether the first roll-out, or the removal, is under way and nothing is
// wrong: mostly the watches bring the next step at once.
func (a *attempt) isPassing(set *olmv1.ClusterObjectSet, err error) bool {
	if isGivingUp(set) {
		return reconcile.IsWait(err) && a.watches.covers(set.Name)
	}
	return reconcile.IsWait(err) && a.applied != nil && !isSucceeded(set) && !a.outcome(set, err).late && a.watches.covers(set.Name)
}

// again says when a revision that is as it should be is looked at again.
func (a *attempt) again(set *olmv1.ClusterObjectSet) time.Duration {
	switch {
	case isArchived(set):
		return 0
	case a.watches.covers(set.Name):
		return wait.Jitter(settled, 0.2)
	default:
		return a.pause(set)
	}
}

// pause is the time until the next periodic pass, spread so that revisions do not
// come all at once, and no longer than until the progress deadline.
func (a *attempt) pause(set *olmv1.ClusterObjectSet) time.Duration {
	pause := wait.Jitter(resync, 0.2)
	if deadline, ok := deadlineOf(set); ok {
		if left := deadline.Sub(a.clock.Now()); left > 0 {
			pause = min(pause, left)
		}
	}
	return pause
}

// outcome is what is reported of the attempt.
func (a *attempt) outcome(set *olmv1.ClusterObjectSet, err error) outcome {
	deadline, ok := deadlineOf(set)
	return outcome{
		err: err, applied: a.applied,
		late: ok && !a.clock.Now().Before(deadline),
	}
}

// deadlineOf returns the time by which the first roll-out is to be complete; false when
// there is none, or it was complete.
func deadlineOf(set *olmv1.ClusterObjectSet) (time.Time, bool) {
	if set.Spec.ProgressDeadlineMinutes == nil || isSucceeded(set) {
		return time.Time{}, false
	}
	return set.CreationTimestamp.Add(time.Duration(*set.Spec.ProgressDeadlineMinutes) * time.Minute), true
}

func reference(set *olmv1.ClusterObjectSet) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterObjectSetKind, Name: set.Name, UID: set.UID,
	}
}

// changedPhases returns the names, in quotes, of the phases whose content is not what was
// observed at the first load.
func changedPhases(observed, now []olmv1.ObservedPhase) []string {
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

func joined(errs []error) error {
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

// logChanges logs what was written; a pass that changed nothing logs nothing.
func logChanges(ctx context.Context, result apply.RevisionResult) {
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
