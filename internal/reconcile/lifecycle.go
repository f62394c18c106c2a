// Package reconcile is the common part of every controller of Mainstay: a runner for
// ordered steps, one error type that determines what happens next, and conditions that
// are declared as data.
//
// It knows no kind. A controller's steps contain what it does. This package determines
// when and how the result is written.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictRetryInterval is the retry interval after a conflict, which means that the cache is
// stale. Mostly the watch delivers the change sooner, and enqueues the object by itself.
const conflictRetryInterval = time.Second

// Step is one part of a reconciliation. It reads, decides, writes, and records its findings in the
// status of the object, which is written after the last step. It returns nil to continue, ErrDone
// to end, and otherwise an error made by Stop, Wait or Retry.
type Step[T client.Object] func(ctx context.Context, obj T) error

// Lifecycle reconciles the objects of a kind. It gets the object, adds the finalizers, runs the
// steps in order until one fails, calls Summarize for the conditions, and patches the status once
// if it changed.
//
// The steps work on their own copy of the object.
type Lifecycle[T client.Object] struct {
	// Client reads and writes the object.
	Client client.Client
	// New returns an empty object of the kind.
	New func() T
	// Finalizers are added before the first step and removed after the last step of Finalize. If
	// there are none, Finalize is not run.
	Finalizers []string
	// NeedsFinalizers reports whether an object that is not being deleted needs the finalizers. If it does
	// not, they are removed once the steps have succeeded, so that its deletion needs no work. Nil
	// means that it always does.
	NeedsFinalizers func(obj T) bool
	// Steps are run, in order, on an object that is not being deleted.
	Steps []Step[T]
	// Finalize are run, in order, on an object that is being deleted.
	Finalize []Step[T]
	// Summarize records the outcome, nil for success, in the object's conditions.
	Summarize func(obj T, err error)
	// ResyncAfter returns the resync interval after a successful reconciliation. Zero means that only
	// events enqueue the object. Nil means zero.
	ResyncAfter func(obj T) time.Duration
	// IsTransient reports whether a status is transient: it will soon change by itself, as long as
	// there is no problem. The write of such a status is delayed, see Later. It is called after
	// Summarize. Nil means never.
	IsTransient func(obj T, err error) bool
	// StatusDelays tracks the delayed statuses. It is required if Passing is set.
	StatusDelays *StatusDelays
}

// Reconcile runs the lifecycle for one object. It implements reconcile.Reconciler of
// controller-runtime.
func (l *Lifecycle[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := l.New()
	if err := l.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return l.finalizeObject(ctx, obj)
	}

	holds := l.NeedsFinalizers == nil || l.NeedsFinalizers(obj)
	if holds {
		if err := l.addFinalizers(ctx, obj); err != nil {
			return ctrl.Result{}, err
		}
	}

	before := obj.DeepCopyObject().(T)
	err := runSteps(ctx, obj, l.Steps)
	if l.Summarize != nil {
		l.Summarize(obj, err)
	}
	if pause := l.statusDelay(obj, before, err); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	if perr := l.patchStatus(ctx, obj, before); perr != nil {
		return resultOfFailedPatch(err, perr)
	}

	if !holds && err == nil {
		if err := l.removeFinalizers(ctx, obj); err != nil {
			return ctrl.Result{}, err
		}
	}

	return l.resultForError(obj, err)
}

func (l *Lifecycle[T]) finalizeObject(ctx context.Context, obj T) (ctrl.Result, error) {
	if !hasAnyFinalizer(obj, l.Finalizers) {
		return ctrl.Result{}, nil
	}

	before := obj.DeepCopyObject().(T)
	if err := runSteps(ctx, obj, l.Finalize); err != nil {
		if l.Summarize != nil {
			l.Summarize(obj, err)
		}
		if pause := l.statusDelay(obj, before, err); pause > 0 {
			return ctrl.Result{RequeueAfter: pause}, nil
		}
		if perr := l.patchStatus(ctx, obj, before); perr != nil {
			return resultOfFailedPatch(err, perr)
		}
		return l.resultForError(obj, err)
	}

	if l.StatusDelays != nil {
		l.StatusDelays.updateDelay(client.ObjectKeyFromObject(obj), false)
	}

	return ctrl.Result{}, l.removeFinalizers(ctx, obj)
}

// statusDelay returns how long the write of a changed status is delayed. Zero means that it is
// not.
func (l *Lifecycle[T]) statusDelay(obj, before T, err error) time.Duration {
	if l.IsTransient == nil {
		return 0
	}
	changed := !equality.Semantic.DeepEqual(obj, before)
	return l.StatusDelays.updateDelay(client.ObjectKeyFromObject(obj), changed && l.IsTransient(obj, err))
}

// removeFinalizers removes the finalizers of the lifecycle. The object may be gone afterwards.
func (l *Lifecycle[T]) removeFinalizers(ctx context.Context, obj T) error {
	if !hasAnyFinalizer(obj, l.Finalizers) {
		return nil
	}

	before := obj.DeepCopyObject().(T)
	for _, name := range l.Finalizers {
		controllerutil.RemoveFinalizer(obj, name)
	}
	return client.IgnoreNotFound(l.patchFinalizers(ctx, obj, before))
}

func (l *Lifecycle[T]) addFinalizers(ctx context.Context, obj T) error {
	before := obj.DeepCopyObject().(T)
	changed := false
	for _, name := range l.Finalizers {
		changed = controllerutil.AddFinalizer(obj, name) || changed
	}

	if !changed {
		return nil
	}

	return l.patchFinalizers(ctx, obj, before)
}

// patchFinalizers patches the finalizers. The resource version is a precondition, because a merge
// patch replaces the whole list.
func (l *Lifecycle[T]) patchFinalizers(ctx context.Context, obj, before T) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := l.Client.Patch(ctx, obj, patch); err != nil {
		return fmt.Errorf("updating finalizers: %w", err)
	}
	return nil
}

// patchStatus patches the status if it changed. The resource version is a precondition. It
// protects the status against a second controller that still believes it is the leader.
func (l *Lifecycle[T]) patchStatus(ctx context.Context, obj, before T) error {
	if equality.Semantic.DeepEqual(obj, before) {
		return nil
	}

	before.SetResourceVersion(obj.GetResourceVersion())
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := l.Client.Status().Patch(ctx, obj, patch)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing status: %w", err)
	}

	return nil
}

// resultOfFailedPatch returns the result after a failed status patch. A conflict means that the
// object changed after it was read: it is requeued and reconciled again with the new version.
func resultOfFailedPatch(err, writing error) (ctrl.Result, error) {
	if apierrors.IsConflict(writing) {
		return ctrl.Result{RequeueAfter: conflictRetryInterval}, nil
	}
	return ctrl.Result{}, errors.Join(err, writing)
}

func (l *Lifecycle[T]) resultForError(obj T, err error) (ctrl.Result, error) {
	var e *Error
	switch {
	case err == nil:
		if l.ResyncAfter == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: l.ResyncAfter(obj)}, nil
	case IsStop(err):
		return ctrl.Result{}, ctrlreconcile.TerminalError(err)
	case errors.As(err, &e) && e.next == nextWait:
		return ctrl.Result{RequeueAfter: e.after}, nil
	default:
		return ctrl.Result{}, err
	}
}

// runSteps runs the steps until one returns an error. ErrDone counts as success.
func runSteps[T client.Object](ctx context.Context, obj T, steps []Step[T]) error {
	for _, step := range steps {
		if err := step(ctx, obj); err != nil {
			if errors.Is(err, ErrDone) {
				return nil
			}
			return err
		}
	}

	return nil
}

func hasAnyFinalizer(obj client.Object, finalizers []string) bool {
	for _, name := range finalizers {
		if controllerutil.ContainsFinalizer(obj, name) {
			return true
		}
	}
	return false
}
