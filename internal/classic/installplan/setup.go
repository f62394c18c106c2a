package installplan

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
)

// DefaultRetryTimeout is the default for how long a plan with failing steps is retried.
const DefaultRetryTimeout = time.Minute

const (
	// maxConcurrentReconciles limits the plans that are executed concurrently.
	maxConcurrentReconciles = 8
	// minRetryInterval and maxRetryInterval limit the exponential backoff of a plan that lacks rights.
	minRetryInterval = 5 * time.Second
	maxRetryInterval = 5 * time.Minute
)

// Options configure the controller.
type Options struct {
	// Namespace is the namespace from which pull secrets are copied.
	Namespace string
	// Trust states where the bundle content that steps refer to may be read from.
	Trust unpack.Trust
	// RetryTimeout is how long a plan with failing steps is retried. Zero means no retries.
	RetryTimeout time.Duration
	// Clock returns the current time. Nil means the system clock.
	Clock clock.PassiveClock
	// Syncs counts reconciles; it may be nil.
	Syncs *clusteroperator.Syncs
}

// Plans install objects of the kinds in the table kinds, in any namespace. Roles of operators may contain any
// right: catalog-operator grants rights that it does not have itself, hence bind and escalate. It writes
// Secrets of bundles, and copies pull secrets from its own namespace. It watches the metadata of service
// accounts, Roles and RoleBindings in every namespace, because any may have a plan that lacks rights. Its role has
// no right to impersonate, or to list custom resources before their schema changes: see
// internal/classic/selfgrant.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=installplans,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=installplans/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions;subscriptions,verbs=get;list;create
// +kubebuilder:rbac:groups=operators.coreos.com,resources=subscriptions,verbs=watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=secrets;services;configmaps,verbs=get;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles,verbs=escalate;bind
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors;prometheusrules;servicemonitors,verbs=get;create;update
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;update
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get;create;update
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=verticalpodautoscalers,verbs=get;create;update
// +kubebuilder:rbac:groups=console.openshift.io,resources=consoleyamlsamples;consolequickstarts;consoleclidownloads;consolelinks;consoleplugins,verbs=get;create;update
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controller of InstallPlans to a manager. It reads InstallPlans, OperatorGroups and Subscriptions from
// the manager's cache, and the metadata of service accounts, Roles, RoleBindings and CRDs.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	registerMetrics()

	grants, err := selfgrant.New(mgr.GetConfig(), mgr.GetHTTPClient(), "catalog-operator")
	if err != nil {
		return err
	}

	accounts, err := impersonation.NewClients(mgr, impersonation.Options{Warnings: warningCollector{}, GrantRight: grants.Impersonate})
	if err != nil {
		return err
	}

	crds, err := crdinfo.NewCache(mgr)
	if err != nil {
		return err
	}

	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), retryTimeout: o.RetryTimeout, clock: o.Clock, syncs: o.Syncs,
		executor: executor{
			accounts: accounts, grants: grants, cached: mgr.GetClient(), crds: crds, events: mgr.GetEventRecorder("operator-lifecycle-manager"), namespace: o.Namespace, trust: o.Trust,
		},
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("installplan").
		For(&v1alpha1.InstallPlan{}).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.enqueueActivePlans)).
		WatchesMetadata(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(r.enqueueActivePlans), builder.WithPredicates(notInInitialList())).
		WatchesMetadata(&rbacv1.Role{}, handler.EnqueueRequestsFromMapFunc(r.enqueueActivePlans), builder.WithPredicates(notInInitialList())).
		WatchesMetadata(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.enqueueActivePlans), builder.WithPredicates(notInInitialList())).
		WatchesRawSource(source.Kind[client.Object](crds, &crdinfo.Definition{}, handler.EnqueueRequestsFromMapFunc(r.enqueueFailedPlans), notInInitialList(), predicate.ResourceVersionChangedPredicate{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: maxConcurrentReconciles,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](minRetryInterval, maxRetryInterval),
		}).
		Complete(r.newReconciler())
	if err != nil {
		return fmt.Errorf("setting up the controller of InstallPlans: %w", err)
	}

	return nil
}

// notInInitialList is a predicate that drops the objects that existed when the program started.
func notInInitialList() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// enqueueActivePlans is a map function that returns the plans in the namespace of an object that need work.
func (r *reconciler) enqueueActivePlans(ctx context.Context, object client.Object) []ctrl.Request {
	var plans v1alpha1.InstallPlanList
	if err := r.client.List(ctx, &plans, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the InstallPlans of a namespace", "namespace", object.GetNamespace())
		return nil
	}

	var requests []ctrl.Request
	for i := range plans.Items {
		if !isIgnored(&plans.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&plans.Items[i])})
		}
	}

	return requests
}

// enqueueFailedPlans is a map function that returns the failed plans of all namespaces, because CRDs have changed: a kind
// that they need may be served now.
func (r *reconciler) enqueueFailedPlans(ctx context.Context, _ client.Object) []ctrl.Request {
	r.crdsChanged.set(r.clock.Now())
	var plans v1alpha1.InstallPlanList
	if err := r.client.List(ctx, &plans, client.UnsafeDisableDeepCopy); err != nil { // They are only read.
		ctrl.LoggerFrom(ctx).Error(err, "Listing all InstallPlans")
		return nil
	}

	var requests []ctrl.Request
	for i := range plans.Items {
		if plans.Items[i].Status.Phase == v1alpha1.InstallPlanPhaseFailed {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&plans.Items[i])})
		}
	}

	return requests
}
