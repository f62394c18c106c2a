package install

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// workers is how many extensions are reconciled side by side. None of them waits for a
// registry.
const workers = 4

// CatalogReader reads what a catalog says of a package.
type CatalogReader interface {
	// Content returns the blobs of the package from the catalog served at a base URL. A
	// catalog without the package gives an empty Content.
	Content(ctx context.Context, baseURL, packageName string) (*fbc.Content, error)
	// Bundles yields every bundle of the catalog served at a base URL. The first error
	// ends it.
	Bundles(ctx context.Context, baseURL string) iter.Seq2[*fbc.Bundle, error]
}

// BundleImage is the content of a bundle image.
type BundleImage struct {
	// Files are those of the bundle.
	Files *bundle.Files
	// Labels of the image.
	Labels map[string]string
	// Canonical is the reference of the image with its digest.
	Canonical string
}

// BundleOpener opens bundle images.
type BundleOpener interface {
	// Open returns the content of a bundle image.
	Open(ctx context.Context, image string) (*BundleImage, error)
	// Keep drops the files of every image that is not in use. References that name no
	// image by digest are passed over.
	Keep(ctx context.Context, inUse []string) error
}

// Preflight checks what would be done before it is done.
type Preflight interface {
	// Check says what stands against a change. The error is the report.
	Check(ctx context.Context, ext *olmv1.ClusterExtension, change preflight.Change) error
}

// Controller reconciles ClusterExtensions.
type Controller struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Reader reads from the API server, for kinds that are not worth a cache.
	Reader   client.Reader
	Catalogs CatalogReader
	Bundles  BundleOpener
	// Preflight may be nil: then nothing is checked.
	Preflight Preflight
	// KubernetesVersion asks for the version of the API server, which a bundle may need to
	// be recent. It may be nil: then every version suffices.
	KubernetesVersion func() (*version.Info, error)
	// ServedResources asks the API server what it serves of a group and version, for the APIs
	// that bundles need. It may be nil: then what the client's mapper knows counts, which
	// does not forget APIs that are gone.
	ServedResources func(groupVersion string) (*metav1.APIResourceList, error)
	// SystemNamespace holds the Secrets of large revisions.
	SystemNamespace string
	// RequireServiceAccount refuses extensions without spec.serviceAccount.
	RequireServiceAccount bool
	// IgnoreServiceAccount installs extensions as if spec.serviceAccount were not set.
	IgnoreServiceAccount bool
	// Program is the version of this program. Another version renders each bundle
	// anew, and makes a revision where the result differs.
	Program string

	// CertManager takes the certificates of webhooks from cert-manager where the cluster
	// serves it.
	CertManager bool

	limiter workqueue.TypedRateLimiter[ctrl.Request]
	// retrievals pull bundles outside of the workers; nil without a manager.
	retrievals *pull.Retrievals[*BundleImage]
	// apis tells of cert-manager; nil when that is not asked for.
	apis client.Reader
	// waiting has the extensions that wait for others, a waitingFor by each name, to be
	// woken when one of those changes. A restart finds them again, as it reconciles every
	// extension.
	waiting sync.Map
	answers answers
	later   reconcile.Later
	plans   plans
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.retrievals = &pull.Retrievals[*BundleImage]{}
	if err := mgr.Add(c.retrievals.Runnable()); err != nil {
		return fmt.Errorf("setting up the retrieval of bundles: %w", err)
	}

	c.limiter = c.retrievals.KeepBackoff(workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstPause, longestPause))
	b := ctrl.NewControllerManagedBy(mgr)
	if c.CertManager {
		apis, err := watchCertManager(mgr)
		if err != nil {
			return err
		}
		c.apis = apis
		b = b.WatchesRawSource(source.Kind[client.Object](apis, apiService(), handler.EnqueueRequestsFromMapFunc(c.everyExtension), cameOrWent))
	}

	err := b.Named("clusterextension").
		For(&olmv1.ClusterExtension{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&olmv1.ClusterObjectSet{}).
		Watches(&olmv1.ClusterCatalog{}, handler.EnqueueRequestsFromMapFunc(c.everyExtension), builder.WithPredicates(catalogChanged)).
		Watches(&olmv1.ClusterExtension{}, handler.EnqueueRequestsFromMapFunc(c.whoWaits), builder.WithPredicates(installedChanged)).
		WatchesRawSource(c.retrievals.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, RateLimiter: c.limiter}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the ClusterExtension controller: %w", err)
	}

	return nil
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterextensions,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterextensions/status,verbs=patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterextensions/finalizers,verbs=update
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=list;watch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces;serviceaccounts,verbs=get
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,verbs=get;list;create;patch;delete

// Reconcile brings one extension to what its spec asks.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &attempt{Controller: c, retrieved: map[string]bool{}}
	lifecycle := reconcile.Lifecycle[*olmv1.ClusterExtension]{
		Client:     c.Client,
		New:        func() *olmv1.ClusterExtension { return &olmv1.ClusterExtension{} },
		Finalizers: []string{olmv1.FinalizerCleanupUnpackCache, olmv1.FinalizerCleanupContentManagerCache},
		Steps:      []reconcile.Step[*olmv1.ClusterExtension]{a.observe, a.settle, a.plan, a.rollBack, a.begin, a.choose, a.revise},
		Finalize:   []reconcile.Step[*olmv1.ClusterExtension]{a.observe, a.holdRemoval, a.removeRevisions, a.removeSecrets, a.dropBundles},
		Summarize: func(ext *olmv1.ClusterExtension, err error) {
			a.reportAttempt(ext, c.announced(req, err))
		},
		Passing: isRollingOut,
		Later:   &c.later,
	}

	result, err := lifecycle.Reconcile(ctx, req)
	if err == nil {
		// After an error it is not known what is needed: what is being pulled may be.
		a.cancelRetrievals(req.Name)
	}

	return result, err
}

// everyExtension is woken when a catalog changes, for any of them may find a bundle in
// it, and when cert-manager comes or goes.
func (c *Controller) everyExtension(ctx context.Context, _ client.Object) []ctrlreconcile.Request {
	var list olmv1.ClusterExtensionList
	if err := c.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the extensions to wake")
		return nil
	}

	requests := make([]ctrlreconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}

	return requests
}

// catalogChanged lets through what resolution can see of a catalog: its priority,
// its labels, its content, and whether that is served.
var catalogChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return true },
	DeleteFunc: func(event.DeleteEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*olmv1.ClusterCatalog)
		after, ok2 := e.ObjectNew.(*olmv1.ClusterCatalog)
		return ok && ok2 && offer(before) != offer(after)
	},
}

// whoWaits are the extensions that wait for another one, or for one to go.
func (c *Controller) whoWaits(_ context.Context, changed client.Object) []ctrlreconcile.Request {
	var requests []ctrlreconcile.Request
	c.waiting.Range(func(name, _ any) bool {
		if name != changed.GetName() {
			requests = append(requests, ctrlreconcile.Request{NamespacedName: client.ObjectKey{Name: name.(string)}})
		}
		return true
	})

	return requests
}

// installedChanged lets through what those who wait for an extension can see of it: what
// it has installed, that it installs something, and whether it is about to go.
var installedChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*olmv1.ClusterExtension)
		after, ok2 := e.ObjectNew.(*olmv1.ClusterExtension)
		return ok && ok2 && (before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			len(before.Status.ActiveRevisions) != len(after.Status.ActiveRevisions) ||
			!equality.Semantic.DeepEqual(before.Status.Install, after.Status.Install))
	},
}
