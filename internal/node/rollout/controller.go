// Package rollout is the controller of MachineConfigPools: it renders the configuration of each
// pool, tells its nodes, a few at a time, to take it, and reports how far they are.
//
// What it decides is decided in internal/node/config and internal/node/pools. It changes no node
// but for the annotations and the taint that tell of its turn: draining is in internal/node/drain,
// and what happens on the node in internal/node/daemon.
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
	// DefaultSettle is how long the MachineConfigs of a pool must stay as they are before they
	// are rendered: an update brings many, and each rendered configuration is a reboot.
	DefaultSettle = 5 * time.Second
	// coalesce is how long changes of nodes are collected: many come at once.
	coalesce = 50 * time.Millisecond
	// conflictPause is time enough for the cache to see what somebody else has written.
	conflictPause = 100 * time.Millisecond
)

// Options are what the controller is set up with.
type Options struct {
	// Release is what every rendered configuration has.
	Release config.Base
	// ReleaseVersion is the version of the release. It may be empty.
	ReleaseVersion string
	// Program is the version of this program.
	Program string
	// Self is the name of the node that this runs on: its turn comes last. It may be empty.
	Self string
	// Settle is how long MachineConfigs must stay as they are. Zero means DefaultSettle.
	Settle time.Duration
	// News gets an event when a configuration was rendered, unless one waits there. Nil: nobody
	// wants to know.
	News chan<- event.GenericEvent
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// reconciler brings the nodes of pools to their configurations.
type reconciler struct {
	Options

	client client.Client
	// reader reads from the API server what the cache may not have seen yet.
	reader client.Reader
	events events.EventRecorder
	// rendered remembers what was rendered, and what is about to be.
	rendered memory
	// told remembers nodes that were told, until the cache shows it.
	told told
	// contested remembers which nodes were reported as such.
	contested map[string]string
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools/status,verbs=patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller to a manager. It gives a function that tells which configuration was
// rendered for a pool since the program runs, empty for none.
func Setup(mgr ctrl.Manager, o Options) (rendered func(pool string) string, err error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}

	r := &reconciler{
		Options: o, client: mgr.GetClient(), reader: mgr.GetAPIReader(), events: mgr.GetEventRecorder("machine-config-controller"),
		rendered: memory{pools: map[string]*sources{}}, told: told{}, contested: map[string]string{},
	}
	all := handler.Funcs{
		CreateFunc:  func(ctx context.Context, _ event.CreateEvent, q queue) { r.wakeAll(ctx, q) },
		UpdateFunc:  func(ctx context.Context, _ event.UpdateEvent, q queue) { r.wakeAll(ctx, q) },
		DeleteFunc:  func(ctx context.Context, _ event.DeleteEvent, q queue) { r.wakeAll(ctx, q) },
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, q queue) { r.wakeAll(ctx, q) },
	}

	err = ctrl.NewControllerManagedBy(mgr).
		Named("machineconfigpool").
		// The maps are written by one worker alone.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		// What the controller writes in the status wakes nothing.
		WatchesRawSource(sourceOf(mgr, &mcfgv1.MachineConfigPool{}, &handler.EnqueueRequestForObject{}, predicate.GenerationChangedPredicate{})).
		WatchesRawSource(sourceOf(mgr, &mcfgv1.MachineConfig{}, all)).
		WatchesRawSource(sourceOf(mgr, &corev1.Node{}, all, matters)).
		Complete(r)
	if err != nil {
		return nil, fmt.Errorf("setting up the controller of MachineConfigPools: %w", err)
	}

	return r.rendered.name, nil
}

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// wakeAll looks at every pool soon: a node may move from one to another, and a MachineConfig may
// be of several.
func (r *reconciler) wakeAll(ctx context.Context, q queue) {
	var list mcfgv1.MachineConfigPoolList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the pools to be woken")
		return
	}

	for i := range list.Items {
		q.AddAfter(ctrl.Request{NamespacedName: client.ObjectKey{Name: list.Items[i].Name}}, coalesce)
	}
}

// Reconcile brings one pool a step further.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &attempt{reconciler: r}
	lifecycle := reconcile.Lifecycle[*mcfgv1.MachineConfigPool]{
		Client:    r.client,
		New:       func() *mcfgv1.MachineConfigPool { return &mcfgv1.MachineConfigPool{} },
		Steps:     []reconcile.Step[*mcfgv1.MachineConfigPool]{a.assign, a.render, a.target},
		Summarize: a.summarize,
		Again:     func(*mcfgv1.MachineConfigPool) time.Duration { return a.again },
	}

	return lifecycle.Reconcile(ctx, req)
}

// attempt is one reconciliation of a pool.
type attempt struct {
	*reconciler

	// nodes are those of the pool, as they are or were told to be.
	nodes []*corev1.Node
	// allNodes is how many the cluster has.
	allNodes int
	// selectorError says why the nodes are not known.
	selectorError error
	// renderError says why the configuration could not be made.
	renderError error
	// again is when to look again, zero for when something changes.
	again time.Duration
}

// assign finds the nodes of the pool.
func (a *attempt) assign(ctx context.Context, pool *mcfgv1.MachineConfigPool) error {
	var nodes corev1.NodeList
	var list mcfgv1.MachineConfigPoolList
	err := errors.Join(a.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy), a.client.List(ctx, &list, client.UnsafeDisableDeepCopy))
	if err != nil {
		return fmt.Errorf("listing nodes and pools: %w", err)
	}

	a.allNodes = len(nodes.Items)
	seen := make([]*corev1.Node, 0, len(nodes.Items))
	for i := range nodes.Items {
		seen = append(seen, a.told.overlay(&nodes.Items[i]))
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

// reportContested tells of nodes that no pool takes because several want them, once.
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

func (a *attempt) summarize(pool *mcfgv1.MachineConfigPool, err error) {
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
