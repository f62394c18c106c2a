package csv

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
)

// rightsReconciler retries the failed installations of a namespace when a role, a binding or a service
// account in the namespace changes. It retries those that failed because of missing rights. It is
// not part of the Reconciler: only such a change may end that failure, and a reconcile does not know
// which event enqueued it.
//
// When the program starts, all objects are reported as created, so each of these installations is
// retried once.
type rightsReconciler struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

func setupRightsController(mgr ctrl.Manager, clock clock.PassiveClock) error {
	t := &rightsReconciler{client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: clock}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []ctrl.Request {
		return []ctrl.Request{newRequest("", object.GetNamespace())}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("clusterserviceversion-rights").
		Watches(&operatorsv1.OperatorGroup{}, enqueue, builder.WithPredicates(serviceAccountRefChanged))
	for _, kind := range []string{"Role", "RoleBinding"} {
		b = b.WatchesMetadata(newPartialMetadata(rbacv1.SchemeGroupVersion.WithKind(kind)), enqueue, builder.WithPredicates(resourceVersionChanged))
	}

	return b.WatchesMetadata(newPartialMetadata(corev1.SchemeGroupVersion.WithKind("ServiceAccount")), enqueue, builder.WithPredicates(resourceVersionChanged)).Complete(t)
}

// serviceAccountRefChanged is a predicate for OperatorGroups whose service account changed.
var serviceAccountRefChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1.OperatorGroup)
		after, okAfter := e.ObjectNew.(*operatorsv1.OperatorGroup)
		return ok && okAfter && !equality.Semantic.DeepEqual(before.Status.ServiceAccountRef, after.Status.ServiceAccountRef)
	},
}

// Reconcile retries the failed installations of the namespace that the request names.
func (t *rightsReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var list v1alpha1.ClusterServiceVersionList
	// The failure that led to the change may not be in the cache yet.
	for _, reader := range []client.Reader{t.client, t.live} {
		if err := reader.List(ctx, &list, client.InNamespace(req.Name)); err != nil {
			return ctrl.Result{}, fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", req.Name, err)
		}
		if !slices.ContainsFunc(list.Items, func(csv v1alpha1.ClusterServiceVersion) bool {
			return !csvinfo.IsCopied(&csv) && csv.Status.Phase != v1alpha1.CSVPhaseSucceeded
		}) {
			return ctrl.Result{}, nil
		}
	}

	for i := range list.Items {
		csv := &list.Items[i]
		if csv.Status.Reason != v1alpha1.CSVReasonComponentFailedNoRetry || csvinfo.IsCopied(csv) || !csv.DeletionTimestamp.IsZero() {
			continue
		}

		before := csv.DeepCopy()
		RecordOutcome(&csv.Status, transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonDetectedClusterChange, "Cluster resources changed state"), t.clock.Now())
		err := t.client.Status().Patch(ctx, csv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: conflictRetryInterval}, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("writing the status of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
		}
	}

	return ctrl.Result{}, nil
}
