// Package rollout is the controller of MachineConfigPools: it renders the configuration of each pool, assigns it to the
// nodes, a few at a time, and reports their progress.
//
// Packages config and pools decide. This package changes only annotations and one taint of a node: package drain drains
// it, and package daemon updates it.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// DefaultSettle is how long the MachineConfigs of a pool must stay unchanged before they are rendered. An update of the
	// cluster changes many, and each rendered configuration reboots the nodes.
	DefaultSettle = 5 * time.Second
	// nodeChangeDelay is how long changes of nodes are collected, because many nodes change at the same time.
	nodeChangeDelay = 50 * time.Millisecond
)

// Options configure the controller.
type Options struct {
	// Release is the part of every rendered configuration that the release defines.
	Release config.Base
	// ReleaseVersion is the version of the release. It may be empty.
	ReleaseVersion string
	// Program is the version of this program.
	Program string
	// Self is the name of the node that this program runs on, which is updated last. It may be empty.
	Self string
	// Settle is how long MachineConfigs must stay unchanged. Zero means DefaultSettle.
	Settle time.Duration
	// News receives an event when a configuration was rendered, unless one is pending. It may be nil.
	News chan<- event.GenericEvent
	// Clock is the source of time. Nil means the real clock.
	Clock clock.PassiveClock
}

// reconciler reconciles MachineConfigPools.
type reconciler struct {
	Options

	client client.Client
	// reader reads from the API server what the cache may not have received yet.
	reader client.Reader
	events events.EventRecorder
	// rendered holds the rendered configuration of each pool, and what it was rendered from.
	rendered renderCache
	// targeted holds the nodes that were targeted, until the cache has received that.
	targeted targetedNodes
	// contested holds the nodes that were reported as contested.
	contested contestedNodes
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools,verbs=list;watch;patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools/status,verbs=patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to a manager. It returns a function that returns the configuration that this process rendered
// for a pool; empty for none.
func Setup(mgr ctrl.Manager, o Options) (rendered func(pool string) string, err error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}

	r := &reconciler{
		Options: o, client: mgr.GetClient(), reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("machine-config-controller"),
		rendered: renderCache{pools: map[string]*poolSources{}}, targeted: targetedNodes{}, contested: contestedNodes{},
	}
	all := handler.Funcs{
		CreateFunc:  func(ctx context.Context, _ event.CreateEvent, q queue) { r.enqueueAllPools(ctx, q) },
		UpdateFunc:  func(ctx context.Context, _ event.UpdateEvent, q queue) { r.enqueueAllPools(ctx, q) },
		DeleteFunc:  func(ctx context.Context, _ event.DeleteEvent, q queue) { r.enqueueAllPools(ctx, q) },
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, q queue) { r.enqueueAllPools(ctx, q) },
	}

	err = ctrl.NewControllerManagedBy(mgr).
		Named("machineconfigpool").
		// The maps are written by one worker alone.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		// Writes of the status by the controller enqueue nothing.
		WatchesRawSource(kindSource(mgr, &mcfgv1.MachineConfigPool{}, &handler.EnqueueRequestForObject{}, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(kindSource(mgr, &mcfgv1.MachineConfig{}, all)).
		WatchesRawSource(kindSource(mgr, &corev1.Node{}, all, nodeDecisionChanges)).
		Complete(r.newObjectReconciler())
	if err != nil {
		return nil, fmt.Errorf("setting up the controller of MachineConfigPools: %w", err)
	}

	return r.rendered.renderedName, nil
}

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// enqueueAllPools enqueues all pools: a node may move from one to another, and a MachineConfig may belong to several.
func (r *reconciler) enqueueAllPools(ctx context.Context, q queue) {
	var list mcfgv1.MachineConfigPoolList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the pools to enqueue")
		return
	}

	for i := range list.Items {
		q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}}, nodeChangeDelay)
	}
}

// newObjectReconciler returns the reconciler of a pool.
func (r *reconciler) newObjectReconciler() *reconcile.ObjectReconciler[*mcfgv1.MachineConfigPool, *facts, *decision] {
	return &reconcile.ObjectReconciler[*mcfgv1.MachineConfigPool, *facts, *decision]{
		Client:      r.client,
		New:         func() *mcfgv1.MachineConfigPool { return &mcfgv1.MachineConfigPool{} },
		Gather:      r.gatherFacts,
		Decide:      func(pool *mcfgv1.MachineConfigPool, f *facts) *decision { return decideRendering(pool, f, r.Settle) },
		Execute:     r.executeDecision,
		Report:      r.reportStatus,
		ResyncAfter: func(_ *mcfgv1.MachineConfigPool, _ *facts, d *decision) time.Duration { return d.requeueAfter },
		Events:      r.events,
	}
}

// gatherFacts reads the nodes of a pool and the MachineConfigs that it selects.
func (r *reconciler) gatherFacts(ctx context.Context, pool *mcfgv1.MachineConfigPool) (*facts, error) {
	f := &facts{now: r.Clock.Now()}
	var nodes corev1.NodeList
	var list mcfgv1.MachineConfigPoolList
	err := errors.Join(r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy), r.client.List(ctx, &list, client.UnsafeDisableDeepCopy))
	if err != nil {
		return f, fmt.Errorf("listing nodes and pools: %w", err)
	}

	f.allNodes = len(nodes.Items)
	seen := make([]*corev1.Node, 0, len(nodes.Items))
	for i := range nodes.Items {
		seen = append(seen, r.targeted.withPendingTarget(&nodes.Items[i]))
	}

	all := make([]*mcfgv1.MachineConfigPool, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}

	membership := pools.Assign(all, seen)
	if f.selectorError = membership.Invalid[pool.Name]; f.selectorError != nil {
		return f, nil //nolint:nilerr // the error is a fact, which the status reports
	}

	f.nodes = membership.Nodes[pool.Name]
	f.contested = membership.Contested
	f.configs, f.configsError = r.listSelectedConfigs(ctx, pool)
	f.known = r.rendered.sourcesOf(pool.Name)
	return f, nil
}

// executeDecision renders the configuration of the pool if that is due, sets it in the spec, and assigns it to nodes. A
// configuration that cannot be rendered is an outcome that the status reports: nodes go on to the previous one.
func (r *reconciler) executeDecision(ctx context.Context, pool *mcfgv1.MachineConfigPool, f *facts, d *decision) error {
	if f.selectorError != nil {
		return reconcile.Stop("", f.selectorError)
	}

	d.events = append(d.events, r.contested.recordContested(f.contested)...)
	if d.renderError == nil {
		if err := r.ensureConfiguration(ctx, pool, f, d); err != nil {
			return err
		}
	}

	return r.targetNodes(ctx, pool, f, d)
}

// reportStatus returns the status of a pool with the outcome of a pass.
func (r *reconciler) reportStatus(pool *mcfgv1.MachineConfigPool, f *facts, d *decision, err error) []reconcile.Event {
	now := metav1.NewTime(f.now).Rfc3339Copy()
	if f.selectorError != nil {
		pool.Status = pools.Unreadable(pool, f.selectorError, now)
		return nil
	}
	if d == nil {
		return nil // Nothing is known.
	}
	if f.nodes == nil && err != nil {
		return d.events
	}

	was := pool.Status.Configuration.Name
	pool.Status = pools.Status(pool, f.nodes, d.renderError, now)
	if is := pool.Status.Configuration.Name; is != was {
		return append(d.events, reconcile.Event{
			Reason: "Completed", Action: "Update", Note: fmt.Sprintf("Pool %s has completed update to MachineConfig: %s", pool.Name, is),
		})
	}

	return d.events
}

// contestedNodes are the nodes that were reported as contested, and what was reported.
type contestedNodes map[string]string

// recordContested records the nodes that several custom pools select, and returns the events of those that were not
// reported yet.
func (c contestedNodes) recordContested(contested []pools.Contested) []reconcile.Event {
	var list []reconcile.Event
	now := map[string]string{}
	for _, node := range contested {
		text := node.Error()
		now[node.Node.Name] = text
		if c[node.Node.Name] != text {
			list = append(list, reconcile.Event{Regarding: node.Node, Warning: true, Reason: "MultipleCustomPools", Action: "Assign", Note: text})
		}
	}

	clear(c)
	maps.Copy(c, now)
	return list
}
