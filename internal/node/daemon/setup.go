package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-dev/mainstay/internal/reconcile"
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

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigs,verbs=get
// +kubebuilder:rbac:groups=operator.openshift.io,resources=machineconfigurations,resourceNames=cluster,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the daemon of one node to a manager. The manager's cache needs no other nodes.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Node == "" || o.Root == nil || o.Host == nil {
		return errors.New("setting up machine-config-daemon: node, root and host are required")
	}

	daemon := &Daemon{
		Root: o.Root, Host: o.Host, Client: mgr.GetClient(), Reader: mgr.GetAPIReader(),
		Events: mgr.GetEventRecorder("machine-config-daemon"), RuntimeUnit: o.RuntimeUnit,
	}
	own := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == o.Node })
	err := ctrl.NewControllerManagedBy(mgr).
		Named("machine-config-daemon").
		For(&corev1.Node{}, builder.WithPredicates(own, predicate.AnnotationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(reconcileNode(mgr.GetClient(), daemon))
	if err != nil {
		return fmt.Errorf("setting up machine-config-daemon: %w", err)
	}

	return nil
}

// reconcileNode returns the controller that calls Sync for the daemon's node.
func reconcileNode(c client.Reader, daemon *Daemon) reconcile.Func {
	return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
		node := &corev1.Node{}
		err := c.Get(ctx, key, node)
		switch {
		case apierrors.IsNotFound(err):
			return 0, nil // It joins later.
		case err != nil:
			return 0, fmt.Errorf("reading node %q: %w", key.Name, err)
		}

		return daemon.Sync(ctx, node)
	}
}
