package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// KeyReconciler reconciles what belongs to a key, for example all Subscriptions of a namespace, in
// three parts: Gather reads the facts, Decide concludes from them what must be done, and Execute
// does it. Execute writes statuses with PatchStatus.
//
// F is the type of the facts, D that of the decision.
type KeyReconciler[F, D any] struct {
	// Gather reads what the decision depends on. It writes nothing.
	Gather func(ctx context.Context, key types.NamespacedName) (F, error)
	// Decide returns what must be done. It is pure.
	Decide func(facts F) D
	// Execute carries a decision out.
	Execute func(ctx context.Context, facts F, decision D) error
	// ResyncAfter returns the resync interval after a pass without error. Zero means that only
	// events enqueue the key. Nil means zero.
	ResyncAfter func(facts F, decision D) time.Duration
	// Observe is called with the error of each pass: nil for success, for a state that is awaited,
	// and for a conflict. It may be nil.
	Observe func(err error)
}

// Reconcile runs one pass over a key. It implements reconcile.Reconciler of controller-runtime.
func (r *KeyReconciler[F, D]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := toResult(r.reconcileKey(ctx, req.NamespacedName))
	if r.Observe != nil {
		r.Observe(err)
	}
	return result, err
}

func (r *KeyReconciler[F, D]) reconcileKey(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	facts, err := r.Gather(ctx, key)
	if err != nil {
		return 0, err
	}

	decision := r.Decide(facts)
	if err := r.Execute(ctx, facts, decision); err != nil {
		return 0, err
	}
	if r.ResyncAfter == nil {
		return 0, nil
	}

	return r.ResyncAfter(facts, decision), nil
}

// Func is a controller without a decision, such as one that keeps one object as it must be. It
// returns when to reconcile again; zero means that only events enqueue the key.
type Func func(ctx context.Context, key types.NamespacedName) (time.Duration, error)

// Reconcile runs the function. It implements reconcile.Reconciler of controller-runtime.
func (f Func) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return toResult(f(ctx, req.NamespacedName))
}
