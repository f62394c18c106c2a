package reconcile

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
		if err := addFinalizers(ctx, l.Client, obj, l.Finalizers); err != nil {
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
	if perr := PatchStatus(ctx, l.Client, obj, before); perr != nil {
		return toResult(0, joinWriteError(err, perr))
	}

	if !holds && err == nil {
		if err := removeFinalizers(ctx, l.Client, obj, l.Finalizers); err != nil {
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
		if perr := PatchStatus(ctx, l.Client, obj, before); perr != nil {
			return toResult(0, joinWriteError(err, perr))
		}
		return l.resultForError(obj, err)
	}

	if l.StatusDelays != nil {
		l.StatusDelays.updateDelay(client.ObjectKeyFromObject(obj), false)
	}

	return ctrl.Result{}, removeFinalizers(ctx, l.Client, obj, l.Finalizers)
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

func (l *Lifecycle[T]) resultForError(obj T, err error) (ctrl.Result, error) {
	if err != nil || l.ResyncAfter == nil {
		return toResult(0, err)
	}
	return toResult(l.ResyncAfter(obj), nil)
}

// runSteps runs the steps until one returns an error. ErrDone counts as success.
func runSteps[T client.Object](ctx context.Context, obj T, steps []Step[T]) error {
	for _, step := range steps {
		if err := step(ctx, obj); errors.Is(err, ErrDone) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
