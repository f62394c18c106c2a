package csv

import (
	"context"
	"fmt"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	operatorsv2 "github.com/mainstay-dev/mainstay/api/operators/v2"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/group"
	"github.com/mainstay-dev/mainstay/internal/classic/selfgrant"
)

// eventSource is the name that events come from.
const eventSource = "operator-lifecycle-manager"

// workers is how many ClusterServiceVersions are looked at side by side. An installation is some
// ten requests, one after the other.
const workers = 4

// Options are what the controllers are set up with.
type Options struct {
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
	// Syncs counts passes; it may be nil.
	Syncs *clusteroperator.Syncs
}

// Setup adds the controllers of ClusterServiceVersions to a manager: that which installs them, and
// that which has an installation tried again that lacked rights.
//
// The manager's cache is asked for ClusterServiceVersions, OperatorGroups and Subscriptions, of which
// it need only have what Lighten leaves, and for the metadata of what they need and of what is made of
// them. Whether the cluster has Subscriptions is found out here.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	cluster, err := newCluster(mgr.GetConfig())
	if err != nil {
		return err
	}

	proxied, err := serves(mgr, proxyKind)
	if err != nil {
		return err
	}

	subscribed, err := serves(mgr, subscriptionKind)
	if err != nil {
		return err
	}

	grants, err := selfgrant.New(mgr.GetConfig(), mgr.GetHTTPClient(), "olm-operator")
	if err != nil {
		return err
	}

	own := newAccounts(mgr, grants)
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cluster: cluster, As: own.client,
		Events: mgr.GetEventRecorder(eventSource), Clock: o.Clock, Syncs: o.Syncs, Proxied: proxied, Subscribed: subscribed,
	}
	if err := r.watch(mgr); err != nil {
		return fmt.Errorf("setting up the controller of ClusterServiceVersions: %w", err)
	}
	if err := setupThaw(mgr, o.Clock); err != nil {
		return fmt.Errorf("setting up the controller of installations that lacked rights: %w", err)
	}

	return nil
}

// serves reports whether the cluster has a kind that not every cluster has.
func serves(mgr ctrl.Manager, kind schema.GroupVersionKind) (bool, error) {
	_, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil && !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("looking for the kind %s: %w", kind, err)
	}
	return err == nil, nil
}

// metadataOf is an object of which only the metadata is watched.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// made are the kinds that are made for ClusterServiceVersions: what becomes of such an object wakes
// the one that it was made for.
var made = []schema.GroupVersionKind{
	appsv1.SchemeGroupVersion.WithKind("Deployment"),
	corev1.SchemeGroupVersion.WithKind("Service"),
	corev1.SchemeGroupVersion.WithKind("Secret"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"),
	admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"),
}

// required are the kinds that ClusterServiceVersions ask for: what becomes of such an object wakes
// those that wait.
var required = []schema.GroupVersionKind{
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rbacv1.SchemeGroupVersion.WithKind("Role"),
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
}

// Managed are the kinds of which the cache of the program need only have those that OLM made, which
// have the label olm.managed.
func Managed() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &corev1.Secret{}}
}

func (r *Reconciler) watch(mgr ctrl.Manager) error {
	wake := handler.EnqueueRequestsFromMapFunc
	b := ctrl.NewControllerManagedBy(mgr).Named("clusterserviceversion").
		For(&v1alpha1.ClusterServiceVersion{}).
		Watches(&v1alpha1.ClusterServiceVersion{}, wake(r.relatives)).
		Watches(&operatorsv1.OperatorGroup{}, wake(group.Wakes(r.Client))).
		WatchesMetadata(metadataOf(operatorsv2.GroupVersion.WithKind(operatorsv2.OperatorConditionKind)), wake(r.ofCondition)).
		WatchesMetadata(metadataOf(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")), wake(r.ofDefinition)).
		WatchesMetadata(metadataOf(apiregistrationv1.SchemeGroupVersion.WithKind("APIService")), wake(r.ofDefinition)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})

	for _, kind := range made {
		b = b.WatchesMetadata(metadataOf(kind), wake(owner))
	}

	for _, kind := range required {
		b = b.WatchesMetadata(metadataOf(kind), wake(r.waiting), builder.WithPredicates(contentChanged))
	}

	if r.Proxied {
		b = b.WatchesMetadata(metadataOf(proxyKind), wake(r.all))
	}
	if r.Subscribed {
		b = b.Watches(&v1alpha1.Subscription{}, wake(r.configured), builder.WithPredicates(configChanged))
	}

	return b.Complete(r)
}

// cluster answers by discovery.
type cluster struct{ discovery discovery.DiscoveryInterface }

func newCluster(config *rest.Config) (*cluster, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for discovery: %w", err)
	}
	return &cluster{client}, nil
}

// Version is the version of the API server.
func (c *cluster) Version(context.Context) (string, error) {
	info, err := c.discovery.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// Kinds are the kinds that are served of a version of a group. An aggregated API that does not
// answer serves none.
func (c *cluster) Kinds(_ context.Context, version schema.GroupVersion) (sets.Set[string], error) {
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

// maxAccounts is how many clients are kept, one for each account. A client is small: connections
// are shared.
const maxAccounts = 128

// accounts returns clients that write as an account.
type accounts struct {
	mgr     ctrl.Manager
	grants  *selfgrant.Granter
	mutex   sync.Mutex
	clients *lru.Cache
}

func newAccounts(mgr ctrl.Manager, grants *selfgrant.Granter) *accounts {
	return &accounts{mgr: mgr, grants: grants, clients: lru.New(maxAccounts)}
}

// client returns the client of an account; nil is the program's own. An account is impersonated by
// its user name alone: the API server adds the groups that a ServiceAccount is in.
func (a *accounts) client(ctx context.Context, account *corev1.ObjectReference) (client.Client, error) {
	if account == nil || account.Name == "" {
		return a.mgr.GetClient(), nil
	}

	name := types.NamespacedName{Namespace: account.Namespace, Name: account.Name}
	if err := apply.CheckAccount(ctx, a.mgr.GetAPIReader(), name); err != nil {
		return nil, err
	}
	if err := a.grants.Impersonate(ctx, name); err != nil {
		return nil, err
	}

	a.mutex.Lock()
	defer a.mutex.Unlock()
	if cached, ok := a.clients.Get(name); ok {
		return cached.(client.Client), nil
	}

	config := rest.CopyConfig(a.mgr.GetConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", name.Namespace, name.Name)}
	made, err := client.New(config, client.Options{Scheme: a.mgr.GetScheme(), Mapper: a.mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client for ServiceAccount %q: %w", name, err)
	}

	a.clients.Add(name, made)
	return made, nil
}

// unsettled reports whether something that comes may help a ClusterServiceVersion on.
func unsettled(csv *v1alpha1.ClusterServiceVersion) bool {
	return slices.Contains([]v1alpha1.ClusterServiceVersionPhase{v1alpha1.CSVPhasePending, v1alpha1.CSVPhaseInstalling, v1alpha1.CSVPhaseFailed}, csv.Status.Phase)
}
