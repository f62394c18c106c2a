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
	// conflictRetryInterval is enough time for the cache to receive a concurrent write.
	conflictRetryInterval = 100 * time.Millisecond
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
	// Clock tells the time. Nil means the real one.
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
	contested map[string]string
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools,verbs=get;list;watch;patch
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
		rendered: renderCache{pools: map[string]*poolSources{}}, targeted: targetedNodes{}, contested: map[string]string{},
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
		Complete(r)
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

// Reconcile renders the configuration of a pool, updates its nodes and reports their progress.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &attempt{reconciler: r}
	lifecycle := reconcile.Lifecycle[*mcfgv1.MachineConfigPool]{
		Client:      r.client,
		New:         func() *mcfgv1.MachineConfigPool { return &mcfgv1.MachineConfigPool{} },
		Steps:       []reconcile.Step[*mcfgv1.MachineConfigPool]{a.assignNodes, a.renderConfig, a.targetNodes},
		Summarize:   a.summarizeStatus,
		ResyncAfter: func(*mcfgv1.MachineConfigPool) time.Duration { return a.requeueAfter },
	}

	return lifecycle.Reconcile(ctx, req)
}

// attempt is one reconciliation of a pool.
type attempt struct {
	*reconciler

	// nodes are the nodes of the pool, including what the cache has not received yet.
	nodes []*corev1.Node
	// allNodes is the number of nodes of the cluster.
	allNodes int
	// selectorError is why the nodes are not known.
	selectorError error
	// renderError is why the configuration could not be rendered.
	renderError error
	// requeueAfter is when to reconcile again; zero for when something changes.
	requeueAfter time.Duration
}

// assignNodes finds the nodes of the pool.
func (a *attempt) assignNodes(ctx context.Context, pool *mcfgv1.MachineConfigPool) error {
	var nodes corev1.NodeList
	var list mcfgv1.MachineConfigPoolList
	err := errors.Join(a.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy), a.client.List(ctx, &list, client.UnsafeDisableDeepCopy))
	if err != nil {
		return fmt.Errorf("listing nodes and pools: %w", err)
	}

	a.allNodes = len(nodes.Items)
	seen := make([]*corev1.Node, 0, len(nodes.Items))
	for i := range nodes.Items {
		seen = append(seen, a.targeted.withPendingTarget(&nodes.Items[i]))
	}

	all := make([]*mcfgv1.MachineConfigPool, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}

	membership := pools.Assign(all, seen)
	if err := membership.Invalid[pool.Name]; err != nil {
		a.selectorError = err
		return reconcile.Stop("", err)
	}

	a.nodes = membership.Nodes[pool.Name]
	a.reportContested(membership.Contested)
	return nil
}

// reportContested records an event, once, for each node that several custom pools select.
func (a *attempt) reportContested(contested []pools.Contested) {
	now := map[string]string{}
	for _, c := range contested {
		text := c.Error()
		now[c.Node.Name] = text
		if a.contested[c.Node.Name] != text {
			a.events.Eventf(c.Node, nil, corev1.EventTypeWarning, "MultipleCustomPools", "Assign", "%s", text)
		}
	}

	a.contested = now
}

func (a *attempt) summarizeStatus(pool *mcfgv1.MachineConfigPool, err error) {
	now := metav1.NewTime(a.Clock.Now()).Rfc3339Copy()
	if a.selectorError != nil {
		pool.Status = pools.Unreadable(pool, a.selectorError, now)
		return
	}
	if a.nodes == nil && err != nil {
		return // Nothing is known.
	}

	was := pool.Status.Configuration.Name
	pool.Status = pools.Status(pool, a.nodes, a.renderError, now)
	if is := pool.Status.Configuration.Name; is != was {
		a.events.Eventf(pool, nil, corev1.EventTypeNormal, "Completed", "Update", "Pool %s has completed update to MachineConfig: %s", pool.Name, is)
	}
}
