package csv

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// failedInstallations retries the failed installations of a namespace when a role, a binding or a service
// account in the namespace changes. It retries those that failed because of missing rights. It is
// not part of the controller of ClusterServiceVersions: only such a change may end that failure, and a reconcile does not know
// which event enqueued it.
//
// When the program starts, all objects are reported as created, so each of these installations is
// retried once.
type failedInstallations struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

// rightsCollectInterval is how long changes of rights are collected. An installation creates several roles and bindings.
const rightsCollectInterval = time.Second

func setupRightsController(mgr ctrl.Manager, clock clock.PassiveClock) error {
	r := &failedInstallations{client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: clock}
	enqueue := reconcile.Collect(rightsCollectInterval, func(_ context.Context, object client.Object) []ctrl.Request {
		return []ctrl.Request{newRequest("", object.GetNamespace())}
	})
	b := ctrl.NewControllerManagedBy(mgr).Named("clusterserviceversion-rights").
		Watches(&operatorsv1.OperatorGroup{}, enqueue, builder.WithPredicates(serviceAccountRefChanged))
	for _, kind := range []string{"Role", "RoleBinding"} {
		b = b.WatchesMetadata(newPartialMetadata(rbacv1.SchemeGroupVersion.WithKind(kind)), enqueue, builder.WithPredicates(resourceVersionChanged))
	}

	return b.WatchesMetadata(newPartialMetadata(corev1.SchemeGroupVersion.WithKind("ServiceAccount")), enqueue, builder.WithPredicates(resourceVersionChanged)).Complete(
		&reconcile.KeyReconciler[[]v1alpha1.ClusterServiceVersion, []*v1alpha1.ClusterServiceVersion]{
			Gather: r.gatherInstallations, Decide: selectInstallationsToRetry, Execute: r.retryInstallations,
		})
}

// serviceAccountRefChanged is a predicate for OperatorGroups whose service account changed.
var serviceAccountRefChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*operatorsv1.OperatorGroup)
		after, okAfter := e.ObjectNew.(*operatorsv1.OperatorGroup)
		return ok && okAfter && !equality.Semantic.DeepEqual(before.Status.ServiceAccountRef, after.Status.ServiceAccountRef)
	},
}

// gatherInstallations lists the ClusterServiceVersions of a namespace; none if all have succeeded.
func (r *failedInstallations) gatherInstallations(ctx context.Context, key types.NamespacedName) ([]v1alpha1.ClusterServiceVersion, error) {
	var list v1alpha1.ClusterServiceVersionList
	// The failure that led to the change may not be in the cache yet.
	for _, reader := range []client.Reader{r.client, r.live} {
		if err := reader.List(ctx, &list, client.InNamespace(key.Name)); err != nil {
			return nil, fmt.Errorf("listing the ClusterServiceVersions of namespace %s: %w", key.Name, err)
		}
		if !slices.ContainsFunc(list.Items, func(csv v1alpha1.ClusterServiceVersion) bool {
			return !csvinfo.IsCopied(&csv) && csv.Status.Phase != v1alpha1.CSVPhaseSucceeded
		}) {
			return nil, nil
		}
	}

	return list.Items, nil
}

// selectInstallationsToRetry returns the ClusterServiceVersions whose installation failed because of missing rights.
func selectInstallationsToRetry(all []v1alpha1.ClusterServiceVersion) []*v1alpha1.ClusterServiceVersion {
	var failed []*v1alpha1.ClusterServiceVersion
	for i := range all {
		csv := &all[i]
		if csv.Status.Reason == v1alpha1.CSVReasonComponentFailedNoRetry && !csvinfo.IsCopied(csv) && csv.DeletionTimestamp.IsZero() {
			failed = append(failed, csv)
		}
	}
	return failed
}

func (r *failedInstallations) retryInstallations(ctx context.Context, _ []v1alpha1.ClusterServiceVersion, failed []*v1alpha1.ClusterServiceVersion) error {
	pending := transitionTo(v1alpha1.CSVPhasePending, v1alpha1.CSVReasonDetectedClusterChange, "Cluster resources changed state")
	for _, csv := range failed {
		before := csv.DeepCopy()
		RecordOutcome(&csv.Status, pending, r.clock.Now())
		if err := reconcile.PatchStatus(ctx, r.client, csv, before); err != nil {
			return err
		}
	}
	return nil
}
