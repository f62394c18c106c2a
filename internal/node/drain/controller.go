// Package drain is the controller that drains and uncordons nodes when their daemons request it.
//
// It evicts pods through the API server, so that disruption budgets are respected. It never deletes a pod despite its
// budget, however long the drain takes. Package daemon updates the drained node, and package rollout decides which
// nodes update.
package drain

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

const (
	// workers is the number of nodes that are drained in parallel. A node that waits takes no worker.
	workers = 16
	// conflictRetryInterval is enough time for the cache to receive a concurrent write.
	conflictRetryInterval = 100 * time.Millisecond
)

// drainError is 1 for nodes whose drain has failed for an hour, as the field's alerts expect it.
var drainError = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "mcc_drain_err", Help: "1 for a node that could not be drained for an hour.",
}, []string{"exported_node"})

// registerMetrics registers the metrics. Setup calls it, so that a process exports only the metrics of the
// controllers that it runs.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(drainError) })

// Options configure the controller.
type Options struct {
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// reconciler drains nodes.
type reconciler struct {
	client client.Client
	// reader reads pods from the API server, because caching all pods of a cluster takes too much memory.
	reader client.Reader
	events events.EventRecorder
	clock  clock.PassiveClock
	drains drainTracker
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	registerMetrics()

	err := ctrl.NewControllerManagedBy(mgr).
		Named("drain").
		For(&corev1.Node{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasPendingDrainRequest))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{
			client: mgr.GetClient(), reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("machine-config-drain"),
			clock: o.Clock, drains: drainTracker{nodes: map[string]*drainProgress{}},
		})
	if err != nil {
		return fmt.Errorf("setting up the controller of drains: %w", err)
	}
	return nil
}

// hasPendingDrainRequest reports whether the daemon of a node requests a drain or uncordon that is not done.
func hasPendingDrainRequest(object client.Object) bool {
	annotations := object.GetAnnotations()
	desired := annotations[mcfgv1.AnnotationDesiredDrain]
	return desired != "" && desired != annotations[mcfgv1.AnnotationLastAppliedDrain]
}

// Reconcile drains or uncordons a node as its daemon requests.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	err := r.client.Get(ctx, req.NamespacedName, node)
	if apierrors.IsNotFound(err) || (err == nil && !hasPendingDrainRequest(node)) {
		r.drains.forgetNode(req.Name)
		drainError.DeleteLabelValues(req.Name)
		return ctrl.Result{}, nil
	}

	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading node %q: %w", req.Name, err)
	}

	desired := node.Annotations[mcfgv1.AnnotationDesiredDrain]
	switch {
	case strings.HasPrefix(desired, mcfgv1.UncordonPrefix):
		return r.completeRequest(ctx, node, desired, false)
	case strings.HasPrefix(desired, mcfgv1.DrainPrefix):
		return r.drainNode(ctx, node, desired)
	}

	ctrl.LoggerFrom(ctx).Info("A node asks for what nobody knows", "node", node.Name, "desiredDrain", desired)
	return ctrl.Result{}, nil
}

// drainNode cordons a node and evicts its pods, as far as their budgets allow. It is called again until none is left.
func (r *reconciler) drainNode(ctx context.Context, node *corev1.Node, desired string) (ctrl.Result, error) {
	now := r.clock.Now()
	p := r.drains.progressOf(node, desired, now)
	if err := r.cordonAndRecordDrain(ctx, node, p); err != nil {
		return ctrl.Result{}, err
	}
	if wait := p.attempt.Sub(now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // between attempts
	}

	pods, err := listPodsToEvict(ctx, r.reader, node.Name)
	if err != nil {
		return ctrl.Result{}, err
	}

	refused, err := evictPods(ctx, r.client, pods)
	if err != nil {
		return ctrl.Result{}, err
	}

	if len(pods) > 0 {
		// Pods without a grace period may be gone already.
		if pods, err = listPodsToEvict(ctx, r.reader, node.Name); err != nil {
			return ctrl.Result{}, err
		}
	}

	if len(pods) == 0 {
		return r.completeRequest(ctx, node, desired, true)
	}

	why := describeRemainingPods(len(pods), refused)
	pause, ended := p.nextCheck(now)
	p.updateReason(node.Name, len(refused) > 0, ended, now, why)
	if ended {
		r.reportSlowDrain(node, p, now, why)
		p.attempt = now.Add(pause)
	}

	return ctrl.Result{RequeueAfter: pause}, r.cordonAndRecordDrain(ctx, node, p)
}

// reportSlowDrain records events for an attempt that did not drain a node, and for a drain that takes long.
func (r *reconciler) reportSlowDrain(node *corev1.Node, p *drainProgress, now time.Time, why string) {
	since := now.Sub(p.begun).Round(time.Second)
	r.events.Eventf(node, nil, corev1.EventTypeWarning, "FailedToDrain", "Drain", "The node is not drained after %s, and it is tried again: %s", since, why)
	if since >= slowAfter && !p.slow {
		p.slow = true
		r.events.Eventf(node, nil, corev1.EventTypeWarning, "DrainThresholdExceeded", "Drain", "The drain takes longer than %s; it is tried again every %s: %s", slowAfter, slowDrainRetryInterval, why)
	}

	if since >= failedAfter && !p.failed {
		p.failed = true
		drainError.WithLabelValues(node.Name).Set(1)
		r.events.Eventf(node, nil, corev1.EventTypeWarning, "DrainFailed", "Drain", "The drain has failed for %s; it is tried on: %s", failedAfter, why)
	}
}

// cordonAndRecordDrain cordons a node, also when it was uncordoned since, and annotates it with the start of the drain
// and with what blocks it.
func (r *reconciler) cordonAndRecordDrain(ctx context.Context, node *corev1.Node, p *drainProgress) error {
	before := node.DeepCopy()
	node.Spec.Unschedulable = true
	node.Annotations[mcfgv1.AnnotationDrainStarted] = pools.FormatDrainStarted(p.begun, p.desired)
	if p.reason != "" {
		node.Annotations[mcfgv1.AnnotationReason] = p.reason
	}
	if before.Spec.Unschedulable && maps.Equal(before.Annotations, node.Annotations) {
		return nil
	}

	if err := r.client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("cordoning node %q and recording its drain: %w", node.Name, err)
	}
	if before.Spec.Unschedulable {
		return nil
	}

	r.events.Eventf(node, nil, corev1.EventTypeNormal, "Cordon", "Drain", "Cordoned node to apply update")
	return nil
}

// completeRequest records that a request is done. In the same write it uncordons the node, unless it has to stay
// cordoned.
func (r *reconciler) completeRequest(ctx context.Context, node *corev1.Node, desired string, cordoned bool) (ctrl.Result, error) {
	before := node.DeepCopy()
	node.Spec.Unschedulable = cordoned
	node.Annotations[mcfgv1.AnnotationLastAppliedDrain] = desired
	delete(node.Annotations, mcfgv1.AnnotationDrainStarted)
	if reason := r.drains.reasonOf(node.Name); reason != "" && node.Annotations[mcfgv1.AnnotationReason] == reason {
		node.Annotations[mcfgv1.AnnotationReason] = ""
	}

	// The daemon may have made another request since.
	err := r.client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRetryInterval}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("recording what was done on node %q: %w", node.Name, err)
	}

	r.drains.forgetNode(node.Name)
	drainError.DeleteLabelValues(node.Name)
	if cordoned {
		r.events.Eventf(node, nil, corev1.EventTypeNormal, "Drain", "Drain", "Drained node to apply update")
		return ctrl.Result{}, nil
	}

	r.events.Eventf(node, nil, corev1.EventTypeNormal, "Uncordon", "Drain", "Update completed and node has been uncordoned")
	return ctrl.Result{}, nil
}
