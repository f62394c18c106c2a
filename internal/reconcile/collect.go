package reconcile

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Collect returns a handler that enqueues what a map function returns after an interval. All changes in this time cause
// one pass. It is for objects that change several times in succession, and whose state need not be current at once.
func Collect(interval time.Duration, requests handler.MapFunc) handler.EventHandler {
	return CollectFor(func(context.Context, ctrl.Request) time.Duration { return interval }, requests)
}

// CollectFor does what Collect does, with an interval for each request. Zero enqueues it at once.
func CollectFor(interval func(context.Context, ctrl.Request) time.Duration, requests handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]
	add := func(ctx context.Context, object client.Object, q queue) {
		for _, request := range requests(ctx, object) {
			q.AddAfter(request, interval(ctx, request))
		}
	}

	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			add(ctx, e.ObjectOld, q)
			add(ctx, e.ObjectNew, q)
		},
		DeleteFunc:  func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) { add(ctx, e.Object, q) },
	}
}

// EnqueueObject is a map function that returns the object itself.
func EnqueueObject(_ context.Context, object client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
}
