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
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// workers is the number of nodes that are drained in parallel. A node that waits takes no worker.
const workers = 16

// drainError is 1 for nodes whose drain has failed for an hour. Existing alerts use it.
var drainError = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "mcc_drain_err", Help: "1 for a node that could not be drained for an hour.",
}, []string{"exported_node"})

// registerMetrics registers the metrics. Setup calls it, so that a process exports only the metrics of the
// controllers that it runs.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(drainError) })

// Options configure the controller.
type Options struct {
	// Clock is the source of time. Nil means the real clock.
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

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	registerMetrics()

	r := &reconciler{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("machine-config-drain"),
		clock: o.Clock, drains: drainTracker{nodes: map[string]drainProgress{}},
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("drain").
		For(&corev1.Node{}, builder.WithPredicates(predicate.NewPredicateFuncs(hasPendingDrainRequest))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r.newObjectReconciler())
	if err != nil {
		return fmt.Errorf("setting up the controller of drains: %w", err)
	}
	return nil
}

// newObjectReconciler returns the reconciler of a node.
func (r *reconciler) newObjectReconciler() *reconcile.ObjectReconciler[*corev1.Node, facts, *decision] {
	return &reconcile.ObjectReconciler[*corev1.Node, facts, *decision]{
		Client:  r.client,
		New:     func() *corev1.Node { return &corev1.Node{} },
		Gather:  r.gatherFacts,
		Decide:  decideRequest,
		Execute: r.executeDecision,
		Report:  func(_ *corev1.Node, _ facts, d *decision, _ error) []reconcile.Event { return d.eventsOrNone() },
		Forget: func(_ context.Context, name types.NamespacedName) error {
			r.forgetNode(name.Name)
			return nil
		},
		ResyncAfter: func(_ *corev1.Node, _ facts, d *decision) time.Duration { return d.requeueAfter },
		Events:      r.events,
	}
}

// gatherFacts returns the progress of a node's drain.
func (r *reconciler) gatherFacts(_ context.Context, node *corev1.Node) (facts, error) {
	now := r.clock.Now()
	return facts{now: now, progress: r.drains.progressOf(node, desiredDrain(node), now), reason: r.drains.reasonOf(node.Name)}, nil
}

// executeDecision carries out a decision. It changes a copy of the node, because a node has no status to report.
func (r *reconciler) executeDecision(ctx context.Context, node *corev1.Node, f facts, d *decision) error {
	node = node.DeepCopy()
	switch d.action {
	case actionForget:
		r.forgetNode(node.Name)
	case actionIgnore:
		ctrl.LoggerFrom(ctx).Info("A node asks for what nobody knows", "node", node.Name, "desiredDrain", desiredDrain(node))
	case actionUncordon:
		return r.completeRequest(ctx, node, f, d)
	case actionDrain:
		return r.drainNode(ctx, node, f, d)
	}

	return nil
}

// drainNode cordons a node and evicts its pods, as far as their budgets allow. It is called again until none is left.
func (r *reconciler) drainNode(ctx context.Context, node *corev1.Node, f facts, d *decision) error {
	r.drains.setProgress(node.Name, f.progress)
	if err := r.cordonAndRecordDrain(ctx, node, &f.progress, d); err != nil {
		return err
	}
	if d.requeueAfter > 0 {
		return nil // between attempts
	}

	// Pods are only listed after the node is cordoned. Otherwise, others could be scheduled since.
	pods, err := listPodsToEvict(ctx, r.reader, node.Name)
	if err != nil {
		return err
	}

	refused, err := evictPods(ctx, r.client, pods)
	if err != nil {
		return err
	}

	if len(pods) > 0 {
		// Pods without a grace period may be gone already.
		if pods, err = listPodsToEvict(ctx, r.reader, node.Name); err != nil {
			return err
		}
	}

	if len(pods) == 0 {
		d.cordoned = true
		return r.completeRequest(ctx, node, f, d)
	}

	outcome := assessAttempt(node.Name, f.progress, f.now, len(pods), refused)
	r.drains.setProgress(node.Name, outcome.progress)
	if outcome.progress.failed {
		drainError.WithLabelValues(node.Name).Set(1)
	}

	d.requeueAfter = outcome.requeueAfter
	d.events = append(d.events, outcome.events...)
	return r.cordonAndRecordDrain(ctx, node, &outcome.progress, d)
}

// cordonAndRecordDrain cordons a node, also when it was uncordoned since, and annotates it with the start of the drain
// and with what blocks it.
func (r *reconciler) cordonAndRecordDrain(ctx context.Context, node *corev1.Node, p *drainProgress, d *decision) error {
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
	if !before.Spec.Unschedulable {
		d.events = append(d.events, reconcile.Event{Reason: "Cordon", Action: "Drain", Note: "Cordoned node to apply update"})
	}

	return nil
}

// completeRequest records that a request is done. In the same write it uncordons the node, unless it has to stay
// cordoned.
func (r *reconciler) completeRequest(ctx context.Context, node *corev1.Node, f facts, d *decision) error {
	before := node.DeepCopy()
	node.Spec.Unschedulable = d.cordoned
	node.Annotations[mcfgv1.AnnotationLastAppliedDrain] = desiredDrain(node)
	delete(node.Annotations, mcfgv1.AnnotationDrainStarted)
	if f.reason != "" && node.Annotations[mcfgv1.AnnotationReason] == f.reason {
		node.Annotations[mcfgv1.AnnotationReason] = ""
	}

	// The daemon may have made another request since.
	if err := r.client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("recording what was done on node %q: %w", node.Name, err)
	}

	r.forgetNode(node.Name)
	done := reconcile.Event{Reason: "Uncordon", Action: "Uncordon", Note: "Update completed and node has been uncordoned"}
	if d.cordoned {
		done = reconcile.Event{Reason: "Drain", Action: "Drain", Note: "Drained node to apply update"}
	}

	d.events = append(d.events, done)
	return nil
}

// forgetNode removes the progress of the drain of a node.
func (r *reconciler) forgetNode(name string) {
	r.drains.forgetNode(name)
	drainError.DeleteLabelValues(name)
}
