package report

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

const (
	// operatorName is the name of the ClusterOperator, as platforms know it.
	operatorName = "machine-config"
	// defaultResyncInterval is the default of Options.ResyncInterval.
	defaultResyncInterval = time.Minute
	// poolChangeDelay is how long changes of pools are collected before a report.
	poolChangeDelay = 200 * time.Millisecond
)

// Options are what the controller is set up with.
type Options struct {
	// Version is the version to which the nodes are updated. Required.
	Version string
	// Rendered returns the configuration that was rendered for a pool since this program runs,
	// empty for none. Required.
	Rendered func(pool string) string
	// News receives an event when that has changed. It is needed because no pool changes when a new process renders the
	// configurations that the pools have. Required.
	News <-chan event.GenericEvent
	// ResyncInterval is how often the report is checked for updates that take too long. Zero means one minute.
	ResyncInterval time.Duration
	// Clock is the source of time. Nil means the real clock.
	Clock clock.PassiveClock
}

// reporter gathers what the report depends on.
type reporter struct {
	Options

	client client.Reader
	// server returns the version of the API server.
	server func() (*version.Info, error)
}

// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=machine-config,verbs=get
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=machine-config,verbs=patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.ResyncInterval = cmp.Or(o.ResyncInterval, defaultResyncInterval)

	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: operatorName}}
	enqueueReport := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(request, poolChangeDelay) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(request, poolChangeDelay) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(request, poolChangeDelay) },

		GenericFunc: func(_ context.Context, _ event.GenericEvent, q queue) { q.AddAfter(request, poolChangeDelay) },
	}

	server, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("setting up the reporter of ClusterOperator %q: %w", operatorName, err)
	}

	r := &reporter{Options: o, client: mgr.GetClient(), server: server.ServerVersion}
	operator := &operatorstatus.Reporter{
		Name: operatorName, Report: r.gatherReport, Reader: mgr.GetAPIReader(), KindCheckInterval: o.ResyncInterval,
	}

	return operator.Setup(mgr,
		source.Kind[client.Object](mgr.GetCache(), &mcfgv1.MachineConfigPool{}, enqueueReport),
		source.Kind[client.Object](mgr.GetCache(), &corev1.Node{}, enqueueReport, kubeletChanges),
		source.Channel(o.News, enqueueReport))
}

// kubeletChanges passes only changes of the version of a kubelet.
var kubeletChanges = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return !ok || !ok2 || before.Status.NodeInfo.KubeletVersion != after.Status.NodeInfo.KubeletVersion
	},
}

// gatherReport reads the pools and nodes, and returns the function that reports them.
func (r *reporter) gatherReport(ctx context.Context, _ *configv1.ClusterOperatorStatus) (func(*configv1.ClusterOperatorStatus), time.Duration, error) {
	var list mcfgv1.MachineConfigPoolList
	if err := r.client.List(ctx, &list); err != nil {
		return nil, 0, fmt.Errorf("listing pools: %w", err)
	}

	behind, err := r.listOutdatedNodes(ctx)
	if err != nil {
		return nil, 0, err
	}

	f := facts{version: r.Version, pools: list.Items, isRendered: r.isRendered, now: metav1.NewTime(r.Clock.Now()).Rfc3339Copy(), skew: behind}
	return f.fillStatus, r.ResyncInterval, nil
}

// listOutdatedNodes returns a description of the nodes whose kubelets are too old for the next minor version.
func (r *reporter) listOutdatedNodes(ctx context.Context) (string, error) {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}

	info, err := r.server()
	if err != nil {
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}

	return describeOutdatedNodes(info.GitVersion, nodes.Items), nil
}

func (r *reporter) isRendered(pool *mcfgv1.MachineConfigPool) bool {
	name := r.Rendered(pool.Name)
	return name != "" && name == pool.Spec.Configuration.Name
}
