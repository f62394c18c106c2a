package csv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/crdinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
	"github.com/mainstay-dev/mainstay/internal/impersonation"
)

// eventSource is the name of the component that reports events.
const eventSource = "operator-lifecycle-manager"

// maxConcurrentReconciles limits how many ClusterServiceVersions are reconciled concurrently. An
// installation is some ten requests, one after the other.
const maxConcurrentReconciles = 8

// Options configure the controllers.
type Options struct {
	// Marked is the cache of labelled roles and bindings that group.NewCache returns. Required.
	Marked cache.Cache
	// CRDs is the cache that crdinfo.NewCache returns. Required.
	CRDs cache.Cache
	// Clock returns the current time. Nil means the system clock.
	Clock clock.PassiveClock
	// Syncs counts reconciles; it may be nil.
	Syncs *clusteroperator.Syncs
}

// Setup adds the controllers of ClusterServiceVersions to a manager: one installs them, one retries
// installations that failed because of missing rights, and one deletes what was created for those
// that are gone.
//
// They read ClusterServiceVersions, OperatorGroups, Subscriptions and Deployments from the manager's cache, and
// the metadata of other objects that a ClusterServiceVersion requires or owns. CRDs, and roles and bindings that were created
// for operators, are in separate caches. They need only the fields that Transform keeps. Setup detects whether the cluster
// has Subscriptions.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Marked == nil || o.CRDs == nil {
		return errors.New("setting up the controllers of ClusterServiceVersions: the caches of roles and of CRDs are required")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	registerMetrics()

	cluster, err := newDiscoveryCluster(mgr.GetConfig())
	if err != nil {
		return err
	}

	proxied, err := servesKind(mgr, proxyKind)
	if err != nil {
		return err
	}

	subscribed, err := servesKind(mgr, subscriptionKind)
	if err != nil {
		return err
	}

	grants, err := selfgrant.New(mgr.GetConfig(), mgr.GetHTTPClient(), "olm-operator")
	if err != nil {
		return err
	}

	accounts, err := impersonation.NewClients(mgr, impersonation.Options{GrantRight: grants.Impersonate})
	if err != nil {
		return err
	}

	shared := &sharedRights{}
	installation := &installationReader{
		client: mgr.GetClient(), cached: mgr.GetCache(), live: mgr.GetAPIReader(), clock: o.Clock, hasProxyKind: proxied, hasSubscriptionKind: subscribed,
	}
	r := &csvController{
		client: mgr.GetClient(), shared: shared, events: mgr.GetEventRecorder(eventSource), clock: o.Clock, syncs: o.Syncs,
		groupWrites: keymutex.NewHashed(maxConcurrentReconciles),
		facts: &factReader{
			client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: o.Clock, installation: installation,
			requirements: &requirementReader{
				cached: mgr.GetCache(), crds: o.CRDs, marked: o.Marked, live: mgr.GetAPIReader(), cluster: cluster, shared: shared, clock: o.Clock,
			},
		},
		installer: &installer{client: mgr.GetClient(), installation: installation, accounts: accounts},
	}
	if err := r.setupController(mgr, o); err != nil {
		return fmt.Errorf("setting up the controller of ClusterServiceVersions: %w", err)
	}
	if err := setupRightsController(mgr, o.Clock); err != nil {
		return fmt.Errorf("setting up the controller of installations that lacked rights: %w", err)
	}
	if err := setupOrphanController(mgr); err != nil {
		return fmt.Errorf("setting up the controller of objects without an owner: %w", err)
	}

	return nil
}

// servesKind reports whether the cluster serves an optional kind.
func servesKind(mgr ctrl.Manager, kind schema.GroupVersionKind) (bool, error) {
	_, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("looking for the kind %s: %w", kind, err)
	}
	return err == nil, nil
}

// newPartialMetadata returns an object of a kind whose metadata alone is watched.
func newPartialMetadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// createdKinds are the kinds that are created for ClusterServiceVersions, besides Deployments. A change of such an object
// enqueues its owner.
var createdKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
}

// requiredKinds are the kinds that ClusterServiceVersions require. A change of such an object
// enqueues those that wait for it.
var requiredKinds = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
}

// Managed returns the kinds of which the cache needs only the objects that OLM created. These have
// the label olm.managed.
func Managed() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &corev1.Secret{}}
}

func (r *csvController) setupController(mgr ctrl.Manager, o Options) error {
	e := &enqueuer{client: r.client, shared: r.shared}
	enqueue := handler.EnqueueRequestsFromMapFunc
	b := ctrl.NewControllerManagedBy(mgr).Named("clusterserviceversion").
		For(&v1alpha1.ClusterServiceVersion{}).
		Watches(&v1alpha1.ClusterServiceVersion{}, enqueue(e.enqueueRelatedCSVs)).
		Watches(&operatorsv1.OperatorGroup{}, enqueue(e.enqueueCSVsForGroup)).
		WatchesMetadata(newPartialMetadata(operatorsv2.GroupVersion.WithKind(operatorsv2.OperatorConditionKind)), enqueue(e.enqueueCSVsForOperatorCondition)).
		WatchesRawSource(source.Kind[client.Object](o.CRDs, &crdinfo.Definition{}, enqueue(e.enqueueCSVsForDefinition))).
		WatchesMetadata(newPartialMetadata(apiregistrationv1.SchemeGroupVersion.WithKind("APIService")), enqueue(e.enqueueCSVsForDefinition)).
		Watches(&appsv1.Deployment{}, e.collectForSucceeded(enqueueOwnerCSV)).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles})

	for _, kind := range createdKinds {
		b = b.WatchesMetadata(newPartialMetadata(kind), e.collectForSucceeded(enqueueOwnerCSV))
	}

	for _, kind := range requiredKinds {
		b = b.WatchesMetadata(newPartialMetadata(kind), e.collectForSucceeded(e.enqueueCSVsForRights), builder.WithPredicates(resourceVersionChanged))
	}

	// Rights are read from the cache of labelled objects. It may be behind the metadata that the watches above see.
	for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		b = b.WatchesRawSource(source.Kind(o.Marked, object, e.collectForSucceeded(enqueueOwnerCSV)))
	}

	if r.facts.installation.hasProxyKind {
		b = b.WatchesMetadata(newPartialMetadata(proxyKind), enqueue(e.enqueueInstalledCSVs))
	}
	if r.facts.installation.hasSubscriptionKind {
		b = b.Watches(&v1alpha1.Subscription{}, enqueue(e.enqueueCSVsForSubscription), builder.WithPredicates(subscriptionConfigChanged))
	}

	return b.Complete(r.newReconciler())
}

// discoveryCluster implements Cluster with the discovery API.
type discoveryCluster struct{ discovery discovery.DiscoveryInterface }

func newDiscoveryCluster(config *rest.Config) (*discoveryCluster, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for discovery: %w", err)
	}
	return &discoveryCluster{client}, nil
}

// Version returns the version of the API server.
func (c *discoveryCluster) Version(context.Context) (string, error) {
	info, err := c.discovery.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// Kinds returns the kinds that are served in a group version. An aggregated API that is unavailable
// serves none.
func (c *discoveryCluster) Kinds(_ context.Context, version schema.GroupVersion) (sets.Set[string], error) {
	kinds := sets.Set[string]{}
	list, err := c.discovery.ServerResourcesForGroupVersion(version.String())
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err):
		return kinds, nil
	case err != nil:
		return nil, fmt.Errorf("asking for the kinds of %s: %w", version, err)
	}

	for _, resource := range list.APIResources {
		kinds.Insert(resource.Kind)
	}

	return kinds, nil
}

// isWaitingForChange reports whether a change in the cluster may move a ClusterServiceVersion
// forward.
func isWaitingForChange(csv *v1alpha1.ClusterServiceVersion) bool {
	return slices.Contains([]v1alpha1.ClusterServiceVersionPhase{
		v1alpha1.CSVPhaseNone, v1alpha1.CSVPhasePending, v1alpha1.CSVPhaseInstalling, v1alpha1.CSVPhaseFailed,
	}, csv.Status.Phase)
}
