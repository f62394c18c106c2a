package installplan

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
)

// DefaultRetryTimeout is how long a plan whose steps fail is tried again when nothing else is said.
const DefaultRetryTimeout = time.Minute

const (
	// workers is how many plans are executed side by side.
	workers = 2
	// firstPause and lastPause are how long a plan that rights lack for waits.
	firstPause, lastPause = 5 * time.Second, 5 * time.Minute
)

// Options are what the controllers are set up with.
type Options struct {
	// Namespace is where Secrets with logins of registries are copied from.
	Namespace string
	// Trust says where the content of bundles may be read from that steps refer to.
	Trust unpack.Trust
	// RetryTimeout is how long a plan whose steps fail is tried again. Zero is not at all.
	RetryTimeout time.Duration
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
	// Syncs counts passes; it may be nil.
	Syncs *clusteroperator.Syncs
}

// What plans install is what operators need, of whatever kind of those in the table kinds, in any
// namespace. Roles of operators may hold any right: catalog-operator writes what it does not have itself,
// hence bind and escalate. Secrets are written for bundles, and copied from its own namespace. Changes of
// accounts, Roles and RoleBindings are watched by their metadata, in every namespace that may have a plan
// which lacks rights. Which ServiceAccounts it acts as, and of which definitions it lists the objects before
// their schema changes, is no part of its role: see internal/classic/selfgrant.

// +kubebuilder:rbac:groups=operators.coreos.com,resources=installplans,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=installplans/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions;subscriptions,verbs=get;list;create
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups="",resources=secrets;services;configmaps,verbs=get;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings,verbs=get;create;update
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles,verbs=escalate;bind
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=prometheusrules;servicemonitors,verbs=get;create;update
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;create;update
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get;create;update
// +kubebuilder:rbac:groups=autoscaling.k8s.io,resources=verticalpodautoscalers,verbs=get;create;update
// +kubebuilder:rbac:groups=console.openshift.io,resources=consoleyamlsamples;consolequickstarts;consoleclidownloads;consolelinks;consoleplugins,verbs=get;create;update
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Setup adds the controllers of InstallPlans to a manager: that which executes them, and that which has
// those tried again that lacked rights. The manager's cache is asked for InstallPlans and
// OperatorGroups, and for the metadata of ServiceAccounts, Roles and RoleBindings.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	grants, err := selfgrant.New(mgr.GetConfig(), mgr.GetHTTPClient(), "catalog-operator")
	if err != nil {
		return err
	}

	r := &reconciler{
		client: mgr.GetClient(), timeout: o.RetryTimeout, clock: o.Clock, syncs: o.Syncs,
		run: executor{clients: newClients(mgr, grants), events: mgr.GetEventRecorder("operator-lifecycle-manager"), namespace: o.Namespace, trust: o.Trust},
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("installplan").
		For(&v1alpha1.InstallPlan{}).
		Watches(&operatorsv1.OperatorGroup{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace)).
		WatchesMetadata(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(isNews())).
		WatchesMetadata(&rbacv1.Role{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(isNews())).
		WatchesMetadata(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(isNews())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstPause, lastPause),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of InstallPlans: %w", err)
	}

	// At the start every namespace is looked at: rights may have been granted meanwhile.
	err = ctrl.NewControllerManagedBy(mgr).
		Named("installplan-rights").
		WatchesMetadata(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(namespaceOf)).
		WatchesMetadata(&rbacv1.Role{}, handler.EnqueueRequestsFromMapFunc(namespaceOf)).
		WatchesMetadata(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(namespaceOf)).
		Complete(&thawer{client: mgr.GetClient()})
	if err != nil {
		return fmt.Errorf("setting up the controller of InstallPlans that lacked rights: %w", err)
	}

	return nil
}

// isNews passes over what was there when the program started.
func isNews() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// inNamespace returns the plans of a namespace that are under way.
func (r *reconciler) inNamespace(ctx context.Context, object client.Object) []ctrl.Request {
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

func namespaceOf(_ context.Context, object client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}}
}

// thawer has failed plans of a namespace be tried again, when the rights of the account may have
// changed with which they are executed.
type thawer struct{ client client.Client }

// Reconcile does so for a namespace.
func (t *thawer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var plans v1alpha1.InstallPlanList
	if err := t.client.List(ctx, &plans, client.InNamespace(req.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the InstallPlans of namespace %s: %w", req.Name, err)
	}

	for i := range plans.Items {
		plan := &plans.Items[i]
		if plan.Status.Phase != v1alpha1.InstallPlanPhaseFailed || plan.Status.AttenuatedServiceAccountRef == nil {
			continue
		}

		before := plan.DeepCopy()
		plan.Status.Phase = v1alpha1.InstallPlanPhaseInstalling
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := t.client.Status().Patch(ctx, plan, patch); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("having InstallPlan %s/%s be tried again: %w", plan.Namespace, plan.Name, err)
		}
	}

	return ctrl.Result{}, nil
}
