// Package drain is the controller that moves the pods of nodes away when their daemons ask for it,
// and lets pods come back when they ask for that.
//
// It evicts as the API server allows, so that disruption budgets hold; it never deletes a pod past
// a budget, however long that takes. What changes on the node in between is in
// internal/node/daemon, and which node's turn it is in internal/node/rollout.
package drain

import (
	"context"
	"fmt"
	"maps"
	"strings"
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
	// workers is how many nodes are looked at at the same time. Between looks none is held.
	workers = 16
	// conflictPause is time enough for the cache to see what somebody else has written.
	conflictPause = 100 * time.Millisecond
)

// drainError is 1 for nodes whose drain has failed for an hour, as the field's alerts expect it.
var drainError = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "mcc_drain_err", Help: "1 for a node that could not be drained for an hour.",
}, []string{"exported_node"})

func init() { metrics.Registry.MustRegister(drainError) }

// Options are what the controller is set up with.
type Options struct {
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// reconciler drains nodes.
type reconciler struct {
	client client.Client
	// reader reads pods from the API server: holding all of a cluster's would take much memory.
	reader client.Reader
	events events.EventRecorder
	clock  clock.PassiveClock
	paces  paces
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

	err := ctrl.NewControllerManagedBy(mgr).
		Named("drain").
		For(&corev1.Node{}, builder.WithPredicates(predicate.NewPredicateFuncs(asks))).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{
			client: mgr.GetClient(), reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("machine-config-drain"),
			clock: o.Clock, paces: paces{nodes: map[string]*progress{}},
		})
	if err != nil {
		return fmt.Errorf("setting up the controller of drains: %w", err)
	}
	return nil
}

// asks reports whether a node's daemon asks for something that is not done.
func asks(object client.Object) bool {
	annotations := object.GetAnnotations()
	desired := annotations[mcfgv1.AnnotationDesiredDrain]
	return desired != "" && desired != annotations[mcfgv1.AnnotationLastAppliedDrain]
}

// Reconcile does what the daemon of a node asks for.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	err := r.client.Get(ctx, req.NamespacedName, node)
	if apierrors.IsNotFound(err) || (err == nil && !asks(node)) {
		r.paces.forget(req.Name)
		drainError.DeleteLabelValues(req.Name)
		return ctrl.Result{}, nil
	}

	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading node %q: %w", req.Name, err)
	}

	desired := node.Annotations[mcfgv1.AnnotationDesiredDrain]
	switch {
	case strings.HasPrefix(desired, mcfgv1.UncordonPrefix):
		return r.finish(ctx, node, desired, false)
	case strings.HasPrefix(desired, mcfgv1.DrainPrefix):
		return r.drain(ctx, node, desired)
	}

	ctrl.LoggerFrom(ctx).Info("A node asks for what nobody knows", "node", node.Name, "desiredDrain", desired)
	return ctrl.Result{}, nil
}

// drain makes one look at a node: it is cordoned, and its pods are evicted as far as that goes.
func (r *reconciler) drain(ctx context.Context, node *corev1.Node, desired string) (ctrl.Result, error) {
	now := r.clock.Now()
	p := r.paces.of(node, desired, now)
	if err := r.hold(ctx, node, p); err != nil {
		return ctrl.Result{}, err
	}
	if wait := p.attempt.Sub(now); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // between attempts
	}

	pods, err := podsToMove(ctx, r.reader, node.Name)
	if err != nil {
		return ctrl.Result{}, err
	}

	refused, err := evict(ctx, r.client, pods)
	if err != nil {
		return ctrl.Result{}, err
	}

	if len(pods) > 0 {
		// Pods without a grace period are gone by now.
		if pods, err = podsToMove(ctx, r.reader, node.Name); err != nil {
			return ctrl.Result{}, err
		}
	}

	if len(pods) == 0 {
		return r.finish(ctx, node, desired, true)
	}

	why := describe(len(pods), refused)
	pause, ended := p.next(now)
	p.explain(node.Name, len(refused) > 0, ended, now, why)
	if ended {
		r.report(node, p, now, why)
		p.attempt = now.Add(pause)
	}

	return ctrl.Result{RequeueAfter: pause}, r.hold(ctx, node, p)
}

// report tells of an attempt that has not drained a node, and of a drain that takes long.
func (r *reconciler) report(node *corev1.Node, p *progress, now time.Time, why string) {
	since := now.Sub(p.begun).Round(time.Second)
	r.events.Eventf(node, nil, corev1.EventTypeWarning, "FailedToDrain", "Drain", "The node is not drained after %s, and it is tried again: %s", since, why)
	if since >= slowAfter && !p.slow {
		p.slow = true
		r.events.Eventf(node, nil, corev1.EventTypeWarning, "DrainThresholdExceeded", "Drain", "The drain takes longer than %s; it is tried again every %s: %s", slowAfter, longPause, why)
	}

	if since >= failedAfter && !p.failed {
		p.failed = true
		drainError.WithLabelValues(node.Name).Set(1)
		r.events.Eventf(node, nil, corev1.EventTypeWarning, "DrainFailed", "Drain", "The drain has failed for %s; it is tried on: %s", failedAfter, why)
	}
}

// hold cordons a node, also when somebody has uncordoned it meanwhile, and records on it when its
// drain began and what keeps the drain from ending.
func (r *reconciler) hold(ctx context.Context, node *corev1.Node, p *progress) error {
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

// finish writes that a request is done, and lets pods come back, in one write with it, unless the
// node stays cordoned.
func (r *reconciler) finish(ctx context.Context, node *corev1.Node, desired string, cordoned bool) (ctrl.Result, error) {
	before := node.DeepCopy()
	node.Spec.Unschedulable = cordoned
	node.Annotations[mcfgv1.AnnotationLastAppliedDrain] = desired
	delete(node.Annotations, mcfgv1.AnnotationDrainStarted)
	if reason := r.paces.reasonOf(node.Name); reason != "" && node.Annotations[mcfgv1.AnnotationReason] == reason {
		node.Annotations[mcfgv1.AnnotationReason] = ""
	}

	// The daemon may have asked for something else since.
	err := r.client.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("recording what was done on node %q: %w", node.Name, err)
	}

	r.paces.forget(node.Name)
	drainError.DeleteLabelValues(node.Name)
	if cordoned {
		r.events.Eventf(node, nil, corev1.EventTypeNormal, "Drain", "Drain", "Drained node to apply update")
		return ctrl.Result{}, nil
	}

	r.events.Eventf(node, nil, corev1.EventTypeNormal, "Uncordon", "Drain", "Update completed and node has been uncordoned")
	return ctrl.Result{}, nil
}
