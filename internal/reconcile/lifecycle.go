// Package reconcile is the kit that every controller of Mainstay is built from: a
// runner for ordered steps, one error type that says what happens next, and
// conditions declared as data.
//
// It knows no kind. What a controller does stands in its steps; when and how the
// result is written stands here, once.
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

// conflictPause is how long to wait for a change of the object that was not seen yet.
// The watch mostly brings it sooner, and runs the reconciliation by itself.
const conflictPause = time.Second

// Step is one part of a reconciliation. It reads, decides, writes, and records what
// it found in the status of the object, which is written after the last step. It
// returns nil to go on, ErrDone to end, and otherwise an error made by Stop, Wait or
// Retry.
type Step[T client.Object] func(ctx context.Context, obj T) error

// Lifecycle reconciles the objects of a kind: it fetches the object, adds the
// finalizers, runs the steps in order until one fails, has the outcome summarised in
// the conditions, and writes the status once if it changed.
//
// The object that the steps see is a copy of their own.
type Lifecycle[T client.Object] struct {
	// Client reads and writes the object.
	Client client.Client
	// New makes an empty object of the kind.
	New func() T
	// Finalizers are set before the first step and removed after the last of
	// Finalize. None means that Finalize is not run.
	Finalizers []string
	// Holds reports whether an object that is not being deleted needs the finalizers. When
	// it does not, they are removed once the steps have succeeded, so that nothing is
	// left to do at its deletion. Nil means that it always does.
	Holds func(obj T) bool
	// Steps are run, in order, on an object that is not being deleted.
	Steps []Step[T]
	// Finalize are run, in order, on an object that is being deleted.
	Finalize []Step[T]
	// Summarize records the outcome, nil for success, in the object's conditions.
	Summarize func(obj T, err error)
	// Again says after how long a successful reconciliation is run again; zero means
	// when a watched object changes. Nil means zero.
	Again func(obj T) time.Duration
	// Passing says of a status that it will soon be another by itself, as long as all goes
	// well. Such a status is written a little later, if it still holds then: see Later.
	// It is asked after Summarize. Nil means never.
	Passing func(obj T, err error) bool
	// Later remembers which statuses wait. Nil with Passing nil.
	Later *Later
}

// Reconcile runs the lifecycle for one object. It is what a controller is built with.
func (l *Lifecycle[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj := l.New()
	if err := l.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		return l.finalize(ctx, obj)
	}

	holds := l.Holds == nil || l.Holds(obj)
	if holds {
		if err := l.addFinalizers(ctx, obj); err != nil {
			return ctrl.Result{}, err
		}
	}

	before := obj.DeepCopyObject().(T)
	err := run(ctx, obj, l.Steps)
	if l.Summarize != nil {
		l.Summarize(obj, err)
	}
	if pause := l.waits(obj, before, err); pause > 0 {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	if perr := l.patchStatus(ctx, obj, before); perr != nil {
		return unwritten(err, perr)
	}

	if !holds && err == nil {
		if err := l.removeFinalizers(ctx, obj); err != nil {
			return ctrl.Result{}, err
		}
	}

	return l.result(obj, err)
}

func (l *Lifecycle[T]) finalize(ctx context.Context, obj T) (ctrl.Result, error) {
	if !hasAny(obj, l.Finalizers) {
		return ctrl.Result{}, nil
	}

	before := obj.DeepCopyObject().(T)
	if err := run(ctx, obj, l.Finalize); err != nil {
		if l.Summarize != nil {
			l.Summarize(obj, err)
		}
		if pause := l.waits(obj, before, err); pause > 0 {
			return ctrl.Result{RequeueAfter: pause}, nil
		}
		if perr := l.patchStatus(ctx, obj, before); perr != nil {
			return unwritten(err, perr)
		}
		return l.result(obj, err)
	}

	if l.Later != nil {
		l.Later.pause(client.ObjectKeyFromObject(obj), false)
	}

	return ctrl.Result{}, l.removeFinalizers(ctx, obj)
}

// waits returns how long a changed status waits to be written; zero means that it does not.
func (l *Lifecycle[T]) waits(obj, before T, err error) time.Duration {
	if l.Passing == nil {
		return 0
	}
	changed := !equality.Semantic.DeepEqual(obj, before)
	return l.Later.pause(client.ObjectKeyFromObject(obj), changed && l.Passing(obj, err))
}

// removeFinalizers removes those that are there. The object may be gone afterwards.
func (l *Lifecycle[T]) removeFinalizers(ctx context.Context, obj T) error {
	if !hasAny(obj, l.Finalizers) {
		return nil
	}

	before := obj.DeepCopyObject().(T)
	for _, name := range l.Finalizers {
		controllerutil.RemoveFinalizer(obj, name)
	}
	return client.IgnoreNotFound(l.patchMeta(ctx, obj, before))
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

	return l.patchMeta(ctx, obj, before)
}

// patchMeta writes what changed outside the status. The resource version guards the
// finalizer list, which a merge patch replaces as a whole.
func (l *Lifecycle[T]) patchMeta(ctx context.Context, obj, before T) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := l.Client.Patch(ctx, obj, patch); err != nil {
		return fmt.Errorf("updating finalizers: %w", err)
	}
	return nil
}

// patchStatus writes the status if it changed. The resource version guards it
// against a second controller that still believes itself the leader.
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

// unwritten says what happens after a status that could not be written. A conflict
// means that the object was read before it changed: what was found is out of date, and
// is found again from the newer object.
func unwritten(err, writing error) (ctrl.Result, error) {
	if apierrors.IsConflict(writing) {
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	return ctrl.Result{}, errors.Join(err, writing)
}

func (l *Lifecycle[T]) result(obj T, err error) (ctrl.Result, error) {
	var e *Error
	switch {
	case err == nil:
		if l.Again == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{RequeueAfter: l.Again(obj)}, nil
	case IsStop(err):
		return ctrl.Result{}, ctrlreconcile.TerminalError(err)
	case errors.As(err, &e) && e.next == nextWait:
		return ctrl.Result{RequeueAfter: e.after}, nil
	default:
		return ctrl.Result{}, err
	}
}

// run runs the steps until one does not return nil.
func run[T client.Object](ctx context.Context, obj T, steps []Step[T]) error {
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

func hasAny(obj client.Object, finalizers []string) bool {
	for _, name := range finalizers {
		if controllerutil.ContainsFinalizer(obj, name) {
			return true
		}
	}
	return false
}
