package report

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

const (
	// operatorName is the name of the ClusterOperator, as platforms know it.
	operatorName = "machine-config"
	// lookAgain is how often it is looked whether an update takes too long.
	lookAgain = time.Minute
	// soon is how long changes of pools are collected.
	soon = 200 * time.Millisecond
)

// Options are what the controller is set up with.
type Options struct {
	// Version is what the nodes are brought to. Required.
	Version string
	// Rendered gives the configuration that was rendered for a pool since this program runs,
	// empty for none. Required.
	Rendered func(pool string) string
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// reporter reconciles the one ClusterOperator.
type reporter struct {
	Options

	client client.Client
	// reader reads the ClusterOperator from the API server.
	reader client.Reader
	mapper meta.RESTMapper
}

// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=machine-config,verbs=get
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=machine-config,verbs=patch
// +kubebuilder:rbac:groups=machineconfiguration.openshift.io,resources=machineconfigpools,verbs=get;list;watch

type queue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: operatorName}}
	wake := handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { q.AddAfter(request, soon) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { q.AddAfter(request, soon) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { q.AddAfter(request, soon) },
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusteroperator-machine-config").
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &mcfgv1.MachineConfigPool{}, wake)).
		Complete(&reporter{Options: o, client: mgr.GetClient(), reader: mgr.GetAPIReader(), mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("setting up the reporter of ClusterOperator %q: %w", operatorName, err)
	}
	return nil
}

// Reconcile writes the report. A cluster without ClusterOperators gets none.
func (r *reporter) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	again := ctrl.Result{RequeueAfter: lookAgain}
	_, err := r.mapper.RESTMapping(configv1.GroupVersion.WithKind(configv1.ClusterOperatorKind).GroupKind(), configv1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return again, nil
	}
	if err != nil {
		return again, fmt.Errorf("looking for the kind ClusterOperator: %w", err)
	}
	var list mcfgv1.MachineConfigPoolList
	if err := r.client.List(ctx, &list); err != nil {
		return again, fmt.Errorf("listing pools: %w", err)
	}
	operator := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: operatorName}}
	err = r.reader.Get(ctx, client.ObjectKeyFromObject(operator), operator)
	if apierrors.IsNotFound(err) {
		err = r.client.Create(ctx, operator)
	}
	if err != nil {
		return again, fmt.Errorf("making ClusterOperator %q: %w", operatorName, err)
	}
	before := operator.DeepCopy()
	f := facts{version: r.Version, pools: list.Items, isRendered: r.isRendered, now: metav1.NewTime(r.Clock.Now()).Rfc3339Copy()}
	f.fill(&operator.Status)
	if equality.Semantic.DeepEqual(before.Status, operator.Status) {
		return again, nil
	}
	if err := r.client.Status().Patch(ctx, operator, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return again, fmt.Errorf("reporting as ClusterOperator %q: %w", operatorName, err)
	}
	return again, nil
}

func (r *reporter) isRendered(pool *mcfgv1.MachineConfigPool) bool {
	name := r.Rendered(pool.Name)
	return name != "" && name == pool.Spec.Configuration.Name
}
