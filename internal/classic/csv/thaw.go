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

// thaw has the installations of a namespace tried again that failed for rights, when a right or an
// account there changes. It cannot be a part of the Reconciler: one that failed so leaves its phase
// for nothing but such a change, and a pass does not know what woke it.
//
// When the program starts, everything is new to it, and each of them is tried once more.
type thaw struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

func setupThaw(mgr ctrl.Manager, clock clock.PassiveClock) error {
	t := &thaw{client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: clock}
	wake := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []ctrl.Request {
		return []ctrl.Request{request("", object.GetNamespace())}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("clusterserviceversion-rights").
		Watches(&operatorsv1.OperatorGroup{}, wake, builder.WithPredicates(accountChanged))
	for _, kind := range []string{"Role", "RoleBinding"} {
		b = b.WatchesMetadata(metadataOf(rbacv1.SchemeGroupVersion.WithKind(kind)), wake, builder.WithPredicates(contentChanged))
	}

	return b.WatchesMetadata(metadataOf(corev1.SchemeGroupVersion.WithKind("ServiceAccount")), wake, builder.WithPredicates(contentChanged)).Complete(t)
}

// accountChanged lets through a group that operators are to be installed by another account for.
var accountChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1.OperatorGroup)
		after, okAfter := e.ObjectNew.(*operatorsv1.OperatorGroup)
		return ok && okAfter && !equality.Semantic.DeepEqual(before.Status.ServiceAccountRef, after.Status.ServiceAccountRef)
	},
}

// Reconcile looks at one namespace, whose name is that of the request.
func (t *thaw) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var list v1alpha1.ClusterServiceVersionList
	// The cache may not have the failure yet that the change was made for.
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
		Record(&csv.Status, to(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonDetectedClusterChange, "Cluster resources changed state"), t.clock.Now())
		err := t.client.Status().Patch(ctx, csv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: conflictPause}, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("writing the status of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
		}
	}

	return ctrl.Result{}, nil
}
