package serving

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-dev/mainstay/internal/impersonation"
)

// secretWatches enqueues a Secret when it is changed or deleted. Each Secret is watched by its
// name, with the rights of the account that writes it, so that no account needs rights to other
// Secrets.
//
// It is a source of the controller, which starts it and passes the queue.
type secretWatches struct {
	log logr.Logger

	mu sync.Mutex
	// ctx and queue are set by Start.
	ctx     context.Context
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
	running map[ctrl.Request]secretWatch
}

// secretWatch is one watch.
type secretWatch struct {
	as   impersonation.Account
	stop context.CancelFunc
}

// Start sets the queue. The watches stop when the context is done.
func (w *secretWatches) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.queue, w.running = ctx, queue, map[ctrl.Request]secretWatch{}
	return nil
}

// ensureWatch watches a Secret with the rights of an account, until release.
func (w *secretWatches) ensureWatch(req ctrl.Request, as impersonation.Account, client metadata.Interface) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current, ok := w.running[req]; ok {
		if current.as == as {
			return
		}
		current.stop()
	}

	ctx, stop := context.WithCancel(w.ctx)
	w.running[req] = secretWatch{as: as, stop: stop}
	go w.runInformer(ctx, req, client)
}

// release stops the watch of a Secret that no Service requests any more.
func (w *secretWatches) release(req ctrl.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current, ok := w.running[req]; ok {
		current.stop()
		delete(w.running, req)
	}
}

// runInformer watches a Secret until the context is done. A watch that is refused is retried with
// a backoff of up to half a minute: the account may be granted the right.
func (w *secretWatches) runInformer(ctx context.Context, req ctrl.Request, client metadata.Interface) {
	informer := metadatainformer.NewFilteredMetadataInformer(client, corev1.SchemeGroupVersion.WithResource("secrets"), req.Namespace, 0,
		toolscache.Indexers{}, func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, req.Name).String()
		}).Informer()
	enqueue := func(any) { w.queue.Add(req) }
	// These calls fail only on a running informer.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) {
		w.log.V(1).Info("The watch of a serving certificate broke and is restarted", "secret", req.String(), "cause", err.Error())
	})
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, DeleteFunc: enqueue, UpdateFunc: func(_, after any) { enqueue(after) },
	})
	informer.RunWithContext(ctx)
}
