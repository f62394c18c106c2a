package rollout

import (
	"fmt"
	"time"

	"k8s.io/client-go/metadata"
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
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// workers is how many revisions are reconciled side by side. Most of the time of one
	// is spent waiting for the API server.
	workers = 8
	// remembered is how many objects are remembered as applied: 100 extensions of 200
	// objects, in about 6 MB.
	remembered = 20_000
	// firstPause and longestPause bound the pauses between attempts that failed. What
	// heals by a person's act that no watch shows, such as a right that is granted, is
	// noticed within the longest.
	firstPause, longestPause = 50 * time.Millisecond, 15 * time.Second
)

// Options are what the controller is set up with.
type Options struct {
	// SystemNamespace holds the Secrets of references that name no namespace.
	SystemNamespace string
	// RequireServiceAccount refuses revisions that name no service account.
	RequireServiceAccount bool
	// Accounts are the clients of service accounts. Nil makes new ones.
	Accounts *account.Clients
	// Clock tells the time, for progress deadlines. Nil means the real one.
	Clock clock.PassiveClock
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets/status,verbs=patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;impersonate
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,verbs=get;list;watch

// Setup adds the controller of ClusterObjectSets to a manager.
//
// The manager's own account impersonates the service accounts that revisions name: their
// objects are read, watched and written with those rights. It also sees to the objects of
// revisions that name no account, for which it needs the rights of whatever they hold.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Accounts == nil {
		o.Accounts = account.NewClients(mgr)
	}

	observer := func(as account.Account) (metadata.Interface, error) {
		c, err := o.Accounts.For(as)
		if err != nil {
			return nil, err
		}
		return c.Metadata, nil
	}

	watches := newWatches(observer, o.Clock, mgr.GetLogger().WithName("clusterobjectset"))
	r := &reconciler{
		client: newFreshClient(mgr.GetClient()), reader: mgr.GetAPIReader(), mapper: mgr.GetRESTMapper(),
		accounts: o.Accounts, watches: watches, pace: newPace(), memory: apply.NewMemory(remembered), later: &reconcile.Later{}, clock: o.Clock, namespace: o.SystemNamespace, requireAccount: o.RequireServiceAccount,
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusterobjectset").
		For(&olmv1.ClusterObjectSet{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&olmv1.ClusterObjectSet{}, handler.EnqueueRequestsFromMapFunc(r.siblingRequests), builder.WithPredicates(givesUp)).
		WatchesRawSource(watches).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstPause, longestPause),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the ClusterObjectSet controller: %w", err)
	}

	return nil
}
