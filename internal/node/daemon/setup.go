package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Options configure the daemon.
type Options struct {
	// Node is the name of the node. Required.
	Node string
	// Root is the root folder of the node. Required.
	Root *os.Root
	// Host runs commands on the machine. Required.
	Host Host
	// RuntimeUnit is the unit of the container runtime. Empty means DefaultRuntimeUnit.
	RuntimeUnit string
}

// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigs,verbs=get
// +kubebuilder:rbac:groups=operator.openshift.io,resources=machineconfigurations,resourceNames=cluster,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the daemon of one node to a manager. The manager's cache needs no other nodes.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Node == "" || o.Root == nil || o.Host == nil {
		return errors.New("setting up machine-config-daemon: node, root and host are required")
	}

	r := &reconciler{client: mgr.GetClient(), daemon: &Daemon{
		Root: o.Root, Host: o.Host, Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("machine-config-daemon"), RuntimeUnit: o.RuntimeUnit,
	}}
	own := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == o.Node })
	err := ctrl.NewControllerManagedBy(mgr).
		Named("machine-config-daemon").
		For(&corev1.Node{}, builder.WithPredicates(own, predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up machine-config-daemon: %w", err)
	}

	return nil
}

type reconciler struct {
	client client.Client
	daemon *Daemon
}

// Reconcile calls Sync for the daemon's node.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	node := &corev1.Node{}
	if err := r.client.Get(ctx, req.NamespacedName, node); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil // It joins later.
		}
		return ctrl.Result{}, fmt.Errorf("reading node %q: %w", req.Name, err)
	}

	after, err := r.daemon.Sync(ctx, node)
	return ctrl.Result{RequeueAfter: after}, err
}
