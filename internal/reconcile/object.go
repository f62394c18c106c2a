package reconcile

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ObjectReconciler reconciles the objects of a kind in three parts. Gather reads the facts that
// matter for an object, Decide concludes from them what must be done, and Execute does it. Report
// then records the outcome in the status, which is patched once if it changed.
//
// F is the type of the facts, D that of the decision. D is a pointer type if Execute records in the
// decision what it did, for Report.
//
// All functions work on one copy of the object, whose status only Report changes.
type ObjectReconciler[T client.Object, F, D any] struct {
	// Client reads and writes the object.
	Client client.Client
	// New returns an empty object of the kind.
	New func() T
	// Finalizers are added before the first pass and removed after Finalize has succeeded.
	Finalizers []string
	// NeedsFinalizers reports whether an object that is not being deleted needs the finalizers. If
	// it does not, they are removed after a pass without error, so that its deletion needs no work.
	// Nil means that it always does.
	NeedsFinalizers func(obj T) bool

	// Gather reads what the decision depends on. It writes nothing. Nil means that the object is
	// all that matters. Facts that are returned with an error are passed on to Report.
	Gather func(ctx context.Context, obj T) (F, error)
	// Decide returns what must be done. It is pure.
	Decide func(obj T, facts F) D
	// Execute carries a decision out. Nil means that a decision only concerns the status.
	Execute func(ctx context.Context, obj T, facts F, decision D) error
	// Report sets the status of the object, and returns the events to record once the status is
	// written. err is the error of Gather, in which case the decision is the zero value, or of
	// Execute. Nil means that the object has no status.
	Report func(obj T, facts F, decision D, err error) []Event

	// Live reads the object from the API server. If it is set, the status is written with PatchStatusLive, so
	// that a pass with many writes is not repeated because of a label. The decision must not depend on the
	// metadata then. Nil means that the pass is repeated after every change.
	Live client.Reader

	// Written is called after a changed status was written, with the object before the change. It is
	// for what must happen once for each change, such as counting it. Nil means nothing.
	Written func(obj, before T)

	// Finalize does what must precede the removal of an object that is being deleted. Its error is
	// reported by ReportDeletion. It is not run if there are no finalizers.
	Finalize func(ctx context.Context, obj T) error
	// ReportDeletion records in the status why an object cannot be removed yet. Nil means that the
	// status stays.
	ReportDeletion func(obj T, err error)
	// Forget drops what is remembered of an object that does not exist. Nil means nothing.
	Forget func(ctx context.Context, name types.NamespacedName) error

	// ResyncAfter returns the resync interval after a pass without error. Zero means that only
	// events enqueue the object. Nil means zero.
	ResyncAfter func(obj T, facts F, decision D) time.Duration
	// IsTransient reports whether a status will soon change by itself. The write of such a status is
	// delayed, see StatusDelays. It is called after Report. Nil means never.
	IsTransient func(obj T, err error) bool
	// StatusDelays tracks the delayed statuses. It is required if IsTransient is set.
	StatusDelays *StatusDelays
	// Events records the events that Report returns. It is required if Report returns any.
	Events events.EventRecorder
	// Observe is called with the error of each pass: nil for success, for a state that is awaited,
	// and for a conflict. It may be nil.
	Observe func(err error)
}

// Reconcile runs one pass over an object. It implements reconcile.Reconciler of
// controller-runtime.
func (r *ObjectReconciler[T, F, D]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := toResult(r.reconcileObject(ctx, req.NamespacedName))
	if r.Observe != nil {
		r.Observe(err)
	}
	return result, err
}

// reconcileObject returns when to reconcile again. Zero means that only events enqueue the object.
func (r *ObjectReconciler[T, F, D]) reconcileObject(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	obj := r.New()
	err := r.Client.Get(ctx, name, obj)
	switch {
	case apierrors.IsNotFound(err):
		return 0, r.forgetObject(ctx, name)
	case err != nil:
		return 0, fmt.Errorf("reading %s: %w", describeObject(r.Client, obj), err)
	case !obj.GetDeletionTimestamp().IsZero():
		return r.finalizeObject(ctx, obj)
	}

	needsFinalizers := r.NeedsFinalizers == nil || r.NeedsFinalizers(obj)
	if needsFinalizers {
		if err := addFinalizers(ctx, r.Client, obj, r.Finalizers); err != nil {
			return 0, err
		}
	}

	before := obj.DeepCopyObject().(T)
	facts, decision, err := r.runPass(ctx, obj)
	var recorded []Event
	if r.Report != nil {
		recorded = r.Report(obj, facts, decision, err)
	}

	delay, werr := r.writeStatus(ctx, obj, before, err)
	switch {
	case delay > 0:
		return delay, nil
	case werr != nil:
		return 0, joinWriteError(err, werr)
	}
	recordEvents(r.Events, obj, recorded)

	if err != nil {
		return 0, err
	}
	if !needsFinalizers {
		if err := removeFinalizers(ctx, r.Client, obj, r.Finalizers); err != nil {
			return 0, err
		}
	}
	if r.ResyncAfter == nil {
		return 0, nil
	}

	return r.ResyncAfter(obj, facts, decision), nil
}

// runPass gathers, decides and executes.
func (r *ObjectReconciler[T, F, D]) runPass(ctx context.Context, obj T) (facts F, decision D, err error) {
	if r.Gather != nil {
		if facts, err = r.Gather(ctx, obj); err != nil {
			return facts, decision, err
		}
	}

	decision = r.Decide(obj, facts)
	if r.Execute == nil {
		return facts, decision, nil
	}

	return facts, decision, r.Execute(ctx, obj, facts, decision)
}

// finalizeObject finalizes an object that is being deleted, and removes the finalizers.
func (r *ObjectReconciler[T, F, D]) finalizeObject(ctx context.Context, obj T) (time.Duration, error) {
	if !hasAnyFinalizer(obj, r.Finalizers) {
		return 0, nil
	}

	before := obj.DeepCopyObject().(T)
	if err := r.Finalize(ctx, obj); err != nil {
		if r.ReportDeletion != nil {
			r.ReportDeletion(obj, err)
		}
		delay, werr := r.writeStatus(ctx, obj, before, err)
		if delay > 0 {
			return delay, nil
		}
		return 0, joinWriteError(err, werr)
	}

	if r.StatusDelays != nil {
		r.StatusDelays.updateDelay(client.ObjectKeyFromObject(obj), false)
	}

	return 0, removeFinalizers(ctx, r.Client, obj, r.Finalizers)
}

// writeStatus patches a changed status, or returns how long its write is still delayed.
func (r *ObjectReconciler[T, F, D]) writeStatus(ctx context.Context, obj, before T, err error) (time.Duration, error) {
	if r.IsTransient != nil {
		waits := !isEqual(obj, before) && r.IsTransient(obj, err)
		if delay := r.StatusDelays.updateDelay(client.ObjectKeyFromObject(obj), waits); delay > 0 {
			return delay, nil
		}
	}

	isChanged := !isEqual(obj, before)
	if r.Live != nil {
		if err := PatchStatusLive(ctx, r.Client, r.Live, obj, before); err != nil {
			return 0, err
		}
	} else if err := PatchStatus(ctx, r.Client, obj, before); err != nil {
		return 0, err
	}
	if isChanged && r.Written != nil {
		r.Written(obj, before)
	}

	return 0, nil
}

func (r *ObjectReconciler[T, F, D]) forgetObject(ctx context.Context, name types.NamespacedName) error {
	if r.Forget == nil {
		return nil
	}
	return r.Forget(ctx, name)
}
