package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

// maxConcurrentReconciles limits how many namespaces are reconciled concurrently.
const maxConcurrentReconciles = 4

// After a failure a namespace backs off exponentially between these limits. The maximum is short, because a catalog
// that cannot be read blocks installations.
const (
	minRetryInterval = 200 * time.Millisecond
	maxRetryInterval = 2 * time.Minute
)

// Options configure the controller.
type Options struct {
	// Pool holds the connections to catalogs.
	Pool *dial.Pool
	// Snapshots reads catalogs through them.
	Snapshots *snapshot.Store
	// Unpacker unpacks bundles from their images.
	Unpacker *unpack.Unpacker
	// OnePlanPerNamespace keeps the behavior of other versions of OLM: all Subscriptions of a namespace are resolved,
	// approved and installed together, or not at all.
	OnePlanPerNamespace bool
	// UnpackTimeout limits unpacking when the OperatorGroup sets no timeout; 0 means no limit.
	UnpackTimeout time.Duration
	// GlobalNamespace is the namespace of the catalogs that all namespaces may use. Empty means none.
	GlobalNamespace string
	// Syncs counts reconciles; it may be nil.
	Syncs *clusteroperator.Syncs
	// Clock returns the current time. Nil means the system clock.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=operators.coreos.com,resources=subscriptions,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=subscriptions/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=installplans,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=installplans/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions;catalogsources,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Cached returns the cache options that this controller needs. The cache holds no copied CSVs, and only the fields of
// ClusterServiceVersions that the controller reads.
func Cached() map[client.Object]cache.ByObject {
	original, _ := labels.NewRequirement(csvinfo.LabelCopiedFrom, selection.DoesNotExist, nil) // The label is valid.
	return map[client.Object]cache.ByObject{
		&v1alpha1.ClusterServiceVersion{}: {Label: labels.NewSelector().Add(*original), Transform: transformCSV},
	}
}

func transformCSV(object any) (any, error) {
	if csv, ok := object.(*v1alpha1.ClusterServiceVersion); ok {
		csv.ManagedFields = nil
		delete(csv.Annotations, "alm-examples")
		delete(csv.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
		csv.Spec.Description, csv.Spec.Icon = "", nil
		csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{}
		csv.Status.Conditions, csv.Status.RequirementStatus = nil, nil
	}

	return object, nil
}

// Setup adds the controller to a manager whose cache uses the options of Cached.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Pool == nil || o.Snapshots == nil || o.Unpacker == nil {
		return errors.New("setting up the controller of Subscriptions: pool, snapshots and unpacker are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	registerMetrics()

	r := newReconciler(o, mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("operator-lifecycle-manager"))
	own := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []ctrl.Request {
		return []ctrl.Request{newRequest(o.GetNamespace())}
	})
	err := ctrl.NewControllerManagedBy(mgr).
		Named("subscription").
		Watches(&v1alpha1.Subscription{}, own).
		Watches(&v1alpha1.InstallPlan{}, own, builder.WithPredicates(updatedIf(hasPlanChanged))).
		Watches(&v1alpha1.ClusterServiceVersion{}, own, builder.WithPredicates(updatedIf(hasCSVChanged))).
		Watches(&operatorsv1.OperatorGroup{}, own, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.CatalogSource{}, handler.EnqueueRequestsFromMapFunc(enqueueCatalog), builder.WithPredicates(updatedIf(hasCatalogChanged))).
		WatchesRawSource(r.catalogs.newConnectionSource()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](minRetryInterval, maxRetryInterval),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of Subscriptions: %w", err)
	}

	return nil
}

// updatedIf returns a predicate for creations and deletions, and for the updates that isNews selects.
func updatedIf[T client.Object](isNews func(before, after T) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(T)
		after, ok2 := e.ObjectNew.(T)
		return ok && ok2 && isNews(before, after)
	}}
}

func hasPlanChanged(before, after *v1alpha1.InstallPlan) bool {
	return before.Status.Phase != after.Status.Phase || before.Spec.Approved != after.Spec.Approved || isPlanUnfinished(before) != isPlanUnfinished(after) || isBeingDeleted(before) != isBeingDeleted(after)
}

func hasCSVChanged(before, after *v1alpha1.ClusterServiceVersion) bool {
	return before.Status.Phase != after.Status.Phase || before.Spec.Replaces != after.Spec.Replaces ||
		before.Annotations[csvinfo.AnnotationProperties] != after.Annotations[csvinfo.AnnotationProperties]
}

func hasCatalogChanged(before, after *v1alpha1.CatalogSource) bool {
	return before.Spec.Priority != after.Spec.Priority || isCatalogHealthy(before) != isCatalogHealthy(after) || isBeingDeleted(before) != isBeingDeleted(after)
}

func isBeingDeleted(o metav1.Object) bool { return !o.GetDeletionTimestamp().IsZero() }
