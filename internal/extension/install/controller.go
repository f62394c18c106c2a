package install

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	ctrlreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// workers is how many extensions are reconciled side by side. Most of the time of
	// one is spent waiting for a catalog or a registry.
	workers = 4
	// firstPause and longestPause bound the pauses between attempts that failed: a
	// cause that has gone is noticed within half a minute.
	firstPause, longestPause = 250 * time.Millisecond, 30 * time.Second
)

// CatalogReader reads what a catalog says of a package.
type CatalogReader interface {
	// Content gives the blobs of the package from the catalog served at a base URL. A
	// catalog without the package gives an empty Content.
	Content(ctx context.Context, baseURL, packageName string) (*fbc.Content, error)
}

// BundleOpener gives the files of bundle images.
type BundleOpener interface {
	// Open gives the files of a bundle image and its reference with digest. The files
	// stay until Forget, or until the cache is cleared.
	Open(ctx context.Context, image string) (files fs.FS, canonical string, err error)
	// Keep drops the files of every image that is not in use.
	Keep(ctx context.Context, inUse []string) error
}

// Preflight checks what would be done before it is done.
type Preflight interface {
	// Check says what an account lacks to manage the objects of an extension. The error
	// is the report.
	Check(ctx context.Context, account types.NamespacedName, extension string, objects []unstructured.Unstructured) error
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
	// SystemNamespace holds the Secrets of large revisions.
	SystemNamespace string
	// RequireServiceAccount refuses extensions without spec.serviceAccount.
	RequireServiceAccount bool
	// Program is the version of this program. Another version renders each bundle
	// anew, and makes a revision where the result differs.
	Program string
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusterextension").
		For(&olmv1.ClusterExtension{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&olmv1.ClusterObjectSet{}).
		Watches(&olmv1.ClusterCatalog{}, handler.EnqueueRequestsFromMapFunc(c.everyExtension), builder.WithPredicates(catalogChanged)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstPause, longestPause),
		}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the ClusterExtension controller: %w", err)
	}
	return nil
}

// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterextensions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterextensions/status,verbs=patch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterextensions/finalizers,verbs=update
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clustercatalogs,verbs=get;list;watch
// +kubebuilder:rbac:groups=olm.operatorframework.io,resources=clusterobjectsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces;serviceaccounts,verbs=get
// +kubebuilder:rbac:groups="",namespace=olmv1-system,resources=secrets,verbs=get;list;create;patch;delete

// Reconcile brings one extension to what its spec asks.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	a := &attempt{Controller: c}
	lifecycle := reconcile.Lifecycle[*olmv1.ClusterExtension]{
		Client:     c.Client,
		New:        func() *olmv1.ClusterExtension { return &olmv1.ClusterExtension{} },
		Finalizers: []string{olmv1.FinalizerCleanupUnpackCache, olmv1.FinalizerCleanupContentManagerCache},
		Steps:      []reconcile.Step[*olmv1.ClusterExtension]{a.observe, a.settle, a.checkPlace, a.choose, a.revise},
		Finalize:   []reconcile.Step[*olmv1.ClusterExtension]{a.observe, a.removeRevisions, a.removeSecrets, a.dropBundles},
		Summarize: func(ext *olmv1.ClusterExtension, err error) {
			report(ext, a.revs, a.observed, err)
		},
	}
	return lifecycle.Reconcile(ctx, req)
}

// everyExtension is woken when a catalog changes: any of them may find a bundle in it.
func (c *Controller) everyExtension(ctx context.Context, _ client.Object) []ctrlreconcile.Request {
	var list olmv1.ClusterExtensionList
	if err := c.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing extensions after a change of a catalog")
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
