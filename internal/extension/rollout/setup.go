package rollout

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/extension/account"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// maxConcurrentReconciles is how many revisions are reconciled in parallel. A reconciliation
	// mostly waits for the API server.
	maxConcurrentReconciles = 8
	// maxRememberedObjects is the size of the memory of applied objects: 100 extensions of 200
	// objects take about 6 MB.
	maxRememberedObjects = 20_000
	// firstRetryInterval and maxRetryInterval limit the exponential backoff of failed attempts.
	// Changes that no watch reports, such as a granted right, are noticed within the maximum.
	firstRetryInterval, maxRetryInterval = 50 * time.Millisecond, 15 * time.Second
)

// Options are the options of the controller.
type Options struct {
	// SystemNamespace is the namespace of Secrets whose references name none.
	SystemNamespace string
	// RequireServiceAccount refuses revisions that name no service account.
	RequireServiceAccount bool
	// Accounts are the clients of service accounts. Nil creates new ones.
	Accounts *impersonation.Clients
	// Clock is used for progress deadlines. Nil means the real clock.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets/status,verbs=patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;impersonate
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,verbs=get;list;watch

// Setup adds the controller of ClusterObjectSets to a manager.
//
// The manager's own account impersonates the service accounts that revisions name: their objects
// are read, watched and written with those rights. The objects of revisions that name no account
// are managed with the manager's own rights.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Accounts == nil {
		accounts, err := account.NewClients(mgr)
		if err != nil {
			return err
		}
		o.Accounts = accounts
	}

	watches := newWatchManager(o.Clock, mgr.GetLogger().WithName("clusterobjectset"))
	revisions := &revisionReader{
		client: mgr.GetClient(), reader: mgr.GetAPIReader(), accounts: o.Accounts, systemNamespace: o.SystemNamespace,
	}
	r := &reconciler{
		client: newFreshClient(mgr.GetClient()), mapper: mgr.GetRESTMapper(), revisions: revisions,
		watches: watches, passLimiter: newPassLimiter(), memory: apply.NewMemory(maxRememberedObjects),
		statusDelays: &reconcile.StatusDelays{}, schedule: schedule{clock: o.Clock, watches: watches},
		requireServiceAccount: o.RequireServiceAccount,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusterobjectset").
		For(&olmv1.ClusterObjectSet{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&olmv1.ClusterObjectSet{}, handler.EnqueueRequestsFromMapFunc(revisions.mapToSiblings), builder.WithPredicates(becameInactive)).
		WatchesRawSource(watches).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetryInterval, maxRetryInterval),
		}).
		Complete(r.newObjectReconciler())
	if err != nil {
		return fmt.Errorf("setting up the ClusterObjectSet controller: %w", err)
	}

	return nil
}
