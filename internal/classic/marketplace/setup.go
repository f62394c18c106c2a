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
)

// DefaultNamespace is where default catalogs are: platforms offer its catalogs to all namespaces.
const DefaultNamespace = "openshift-marketplace"

// clusterOperatorName is the name of the ClusterOperator, as platforms know it.
const clusterOperatorName = "marketplace"

// Options configure the component.
type Options struct {
	// Namespace of the default catalogs. Empty means DefaultNamespace.
	Namespace string
	// Defaults is the folder with the manifests of the default catalogs. It is read once. Nil means
	// that there are none.
	Defaults fs.FS
	// Release is the version of the platform that the program belongs to. Empty means that of the
	// program.
	Release string
	// Program is the version of the program.
	Program string
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

func (o *Options) reportedVersion() string { return cmp.Or(o.Release, o.Program) }

// +kubebuilder:rbac:groups=config.openshift.io,resources=operatorhubs,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=operatorhubs,resourceNames=cluster,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=operatorhubs/status,resourceNames=cluster,verbs=patch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=marketplace,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=marketplace,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,namespace=openshift-marketplace,resources=catalogsources,verbs=get;list;watch;create;update;delete

// Tune has the cache of a manager hold what the component reads, and no more.
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
	found := readDefaults(o.Defaults, o.Namespace)
	for _, problem := range found.problems {
		mgr.GetLogger().Error(problem, "A manifest of a default catalog cannot be used")
	}

	ends := newResultRecorder(o.Clock)
	k := &catalogReconciler{namespace: o.Namespace, defaults: found, client: mgr.GetClient(), reader: mgr.GetAPIReader(), results: ends}
	if err := k.setupController(mgr); err != nil {
		return fmt.Errorf("setting up the controller of OperatorHub %q: %w", configv1.OperatorHubName, err)
	}

	r := &operatorstatus.Reporter{Name: clusterOperatorName, Report: newReportFunc(o, ends, found.problems)}
	return r.Setup(mgr, source.Channel(ends.changes, r.Wake()))
}

func (k *catalogReconciler) setupController(mgr manager.Manager) error {
	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: configv1.OperatorHubName}}
	wake := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{request} })
	begin := make(chan event.GenericEvent, 1)
	begin <- event.GenericEvent{Object: &configv1.OperatorHub{ObjectMeta: metav1.ObjectMeta{Name: configv1.OperatorHubName}}}
	isTheOne := predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == configv1.OperatorHubName })

	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorhub").
		WatchesRawSource(source.Channel(begin, wake)).
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &configv1.OperatorHub{}, wake, isTheOne)).
		WatchesRawSource(source.Kind[client.Object](mgr.GetCache(), &v1alpha1.CatalogSource{}, wake, k.newCatalogPredicate())).
		Complete(k)
}

// newCatalogPredicate lets through what happens to default catalogs, but for what is observed of them.
func (k *catalogReconciler) newCatalogPredicate() predicate.Predicate {
	is := func(object client.Object) bool {
		return object.GetNamespace() == k.namespace && k.defaults.catalogs[object.GetName()] != nil
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return is(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return is(e.ObjectNew) && (e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()))
		},
		GenericFunc: func(event.GenericEvent) bool { return true },
	}
}
