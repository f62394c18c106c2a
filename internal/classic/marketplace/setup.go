package marketplace

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// DefaultNamespace is the namespace of default catalogs, whose catalogs platforms offer to all
// namespaces.
const DefaultNamespace = "openshift-marketplace"

// clusterOperatorName is the name of the ClusterOperator.
const clusterOperatorName = "marketplace"

// Options configure the component.
type Options struct {
	// Namespace is the namespace of the default catalogs. If it is empty, DefaultNamespace is
	// used.
	Namespace string
	// Defaults is the folder with the manifests of the default catalogs. It is read once and
	// may be nil.
	Defaults fs.FS
	// Release is the version of the platform to which the program belongs. If it is empty, the
	// version of the program is used.
	Release string
	// Program is the version of the program.
	Program string
	// Clock is the clock. If it is nil, the real time is used.
	Clock clock.PassiveClock
}

func (o *Options) reportedVersion() string { return cmp.Or(o.Release, o.Program) }

// +kubebuilder:rbac:groups=config.openshift.io,resources=operatorhubs,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=operatorhubs,resourceNames=cluster,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=operatorhubs/status,resourceNames=cluster,verbs=patch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=marketplace,verbs=list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=marketplace,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,namespace=openshift-marketplace,resources=catalogsources,verbs=list;watch;create;update;delete

// Tune restricts the cache of a manager to the objects that the component reads.
func Tune(options *ctrl.Options, namespace string) {
	options.Cache.ByObject = map[client.Object]cache.ByObject{
		&configv1.OperatorHub{}:   {Field: fields.OneTermEqualSelector("metadata.name", configv1.OperatorHubName)},
		&v1alpha1.CatalogSource{}: {Namespaces: map[string]cache.Config{cmp.Or(namespace, DefaultNamespace): {}}},
	}
}

// Setup adds the controllers of the component to a manager.
func Setup(mgr manager.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	catalogs := readDefaults(o.Defaults, o.Namespace)
	for _, problem := range catalogs.problems {
		mgr.GetLogger().Error(problem, "Ignoring invalid manifest of a default catalog")
	}

	results := newResultRecorder(o.Clock)
	k := &catalogReconciler{namespace: o.Namespace, defaults: catalogs, client: mgr.GetClient(), reader: mgr.GetAPIReader(), results: results}
	if err := k.setupController(mgr); err != nil {
		return fmt.Errorf("setting up the controller of OperatorHub %q: %w", configv1.OperatorHubName, err)
	}

	r := &operatorstatus.Reporter{Name: clusterOperatorName, Report: newReportFunc(o, results, catalogs.problems)}
	return r.Setup(mgr, source.Channel(results.changes, r.EventHandler()))
}

// setupController adds the controller, and enqueues its only request at the start.
func (r *catalogReconciler) setupController(mgr manager.Manager) error {
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: configv1.OperatorHubName}}
	enqueueHub := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{request} })
	initial := make(chan event.GenericEvent, 1)
	initial <- event.GenericEvent{Object: &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: configv1.OperatorHubName}}}
	isHub := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == configv1.OperatorHubName })

	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorhub").
		WatchesRawSource(source.Channel(initial, enqueueHub)).
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &configv1.OperatorHub{}, enqueueHub, isHub)).
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &v1alpha1.CatalogSource{}, enqueueHub, r.newCatalogPredicate())).
		Complete(reconcile.Func(r.reconcileCatalogs))
}

// newCatalogPredicate returns a predicate for events of default catalogs. Updates of the status
// are ignored.
func (r *catalogReconciler) newCatalogPredicate() predicate.Predicate {
	isDefault := func(object client.Object) bool {
		return object.GetNamespace() == r.namespace && r.defaults.catalogs[object.GetName()] != nil
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return isDefault(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return isDefault(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return isDefault(e.ObjectNew) && (e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()))
		},
		GenericFunc: func(event.GenericEvent) bool { return true },
	}
}
