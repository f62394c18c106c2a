package install

import (
	"context"
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/mainstay-dev/mainstay/internal/extension/former"
	"github.com/mainstay-dev/mainstay/internal/extension/preflight"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/pull"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// preconditionRetryInterval is how often a missing precondition is checked again, such as a
	// namespace, if no watch reports it.
	preconditionRetryInterval = 2 * time.Second
	// resolutionRetryInterval is how often a request that cannot be satisfied is resolved again
	// while no catalog and no extension changes.
	resolutionRetryInterval = time.Minute
)

// maxConcurrentReconciles is how many extensions are reconciled in parallel. None of them waits
// for a registry.
const maxConcurrentReconciles = 4

// CatalogReader reads packages and bundles from the content of catalogs.
type CatalogReader interface {
	// Content returns the blobs of the package from the catalog served at a base URL. If the
	// catalog does not have the package, the Content is empty.
	Content(ctx context.Context, baseURL, packageName string) (*fbc.Content, error)
	// Bundles yields every bundle of the catalog served at a base URL. It stops after the first
	// error.
	Bundles(ctx context.Context, baseURL string) iter.Seq2[*fbc.Bundle, error]
}

// BundleImage is the content of a bundle image.
type BundleImage struct {
	// Files are the files of the bundle.
	Files *bundle.Files
	// Labels are the labels of the image.
	Labels map[string]string
	// Canonical is the reference of the image with its digest.
	Canonical string
}

// BundleOpener opens bundle images.
type BundleOpener interface {
	// Open returns the content of a bundle image.
	Open(ctx context.Context, image string) (*BundleImage, error)
	// Keep deletes the cached files of every image that is not in use. It ignores references
	// without a digest.
	Keep(ctx context.Context, inUse []string) error
}

// Preflight checks a change before it is made.
type Preflight interface {
	// Check returns an error that reports every problem with a change. It returns nil if there is
	// none.
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
	// Preflight may be nil. Then nothing is checked.
	Preflight Preflight
	// KubernetesVersion returns the version of the API server, which bundles may require to be
	// recent. If it is nil, every version suffices.
	KubernetesVersion func() (*version.Info, error)
	// ServedResources returns the resources that the API server serves in a group and version. It
	// is used for the APIs that bundles require. If it is nil, the client's REST mapper is used
	// alone. The mapper does not forget APIs that are no longer served.
	ServedResources func(groupVersion string) (*metav1.APIResourceList, error)
	// SystemNamespace holds the Secrets of large revisions.
	SystemNamespace string
	// RequireServiceAccount refuses extensions without spec.serviceAccount.
	RequireServiceAccount bool
	// IgnoreServiceAccount installs extensions as if spec.serviceAccount were not set.
	IgnoreServiceAccount bool
	// Program is the version of this program. Another version renders each bundle again, and
	// creates a revision if the result differs.
	Program string

	// CertManager selects cert-manager as the issuer of webhook certificates if the cluster serves
	// it.
	CertManager bool

	rateLimiter workqueue.TypedRateLimiter[ctrl.Request]
	// retrievals pull bundles outside of the workers. It is nil without a manager.
	retrievals *pull.Retrievals[*BundleImage]
	// certManagerCache holds the APIService of cert-manager. It is nil unless CertManager is set.
	certManagerCache  client.Reader
	waitingExtensions waitingExtensions
	searchCache       searchCache
	statusDelays      reconcile.StatusDelays
	planRegistry      planRegistry
}

// SetupWithManager adds the controller to a manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.retrievals = &pull.Retrievals[*BundleImage]{}
	if err := mgr.Add(c.retrievals.Runnable()); err != nil {
		return fmt.Errorf("setting up the retrieval of bundles: %w", err)
	}

	c.rateLimiter = c.retrievals.KeepBackoff(workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetryInterval, maxRetryInterval))
	b := ctrl.NewControllerManagedBy(mgr)
	if c.CertManager {
		apis, err := newCertManagerCache(mgr)
		if err != nil {
			return err
		}
		c.certManagerCache = apis
		b = b.WatchesRawSource(source.Kind[client.Object](apis, newAPIServiceMetadata(), handler.EnqueueRequestsFromMapFunc(c.mapToAllExtensions), createdOrDeleted))
	}

	err := b.Named("clusterextension").
		For(&olmv1.ClusterExtension{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&olmv1.ClusterObjectSet{}).
		Watches(&olmv1.ClusterCatalog{}, handler.EnqueueRequestsFromMapFunc(c.mapToAllExtensions), builder.WithPredicates(catalogChanged)).
		Watches(&olmv1.ClusterExtension{}, handler.EnqueueRequestsFromMapFunc(c.mapToWaitingExtensions), builder.WithPredicates(installedChanged)).
		WatchesRawSource(c.retrievals.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles, RateLimiter: c.rateLimiter}).
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

// Reconcile runs one pass over an extension.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return c.newReconciler().Reconcile(ctx, req)
}

// newReconciler returns the reconciler of one pass.
func (c *Controller) newReconciler() *reconcile.ObjectReconciler[*olmv1.ClusterExtension, *facts, *decision] {
	revs, plans := c.newRevisionReader(), c.newPlanStore()
	gathers := &gatherer{revisions: revs, former: c.newFormerReader(), plans: plans, newRetriever: c.newBundleRetriever, newChangeReader: c.newChangeReader}
	executes := &executor{client: c.Client, reader: c.Reader, systemNamespace: c.SystemNamespace, plans: plans, waiting: &c.waitingExtensions, effective: c.effectiveExtension}
	removes := &remover{
		client: c.Client, bundles: c.Bundles, dependencies: c.newDependencyChecker(), revisions: revs, former: c.newFormerReader(),
		waiting: &c.waitingExtensions, newRetriever: c.newBundleRetriever,
	}
	return &reconcile.ObjectReconciler[*olmv1.ClusterExtension, *facts, *decision]{
		Client:         c.Client,
		New:            func() *olmv1.ClusterExtension { return &olmv1.ClusterExtension{} },
		Finalizers:     []string{olmv1.FinalizerCleanupUnpackCache, olmv1.FinalizerCleanupContentManagerCache},
		Gather:         gathers.gatherFacts,
		Decide:         decidePass,
		Execute:        executes.executeDecision,
		Report:         c.reportOutcome,
		Finalize:       removes.finalizeExtension,
		ReportDeletion: c.reportDeletion,
		Forget: func(_ context.Context, name types.NamespacedName) error {
			c.newBundleRetriever().cancelUnrequested(name.Name)
			return nil
		},
		IsTransient:  isRollingOut,
		StatusDelays: &c.statusDelays,
	}
}

func (c *Controller) newRevisionReader() *revisionReader {
	return &revisionReader{client: c.Client, reader: c.Reader, systemNamespace: c.SystemNamespace}
}

func (c *Controller) newFormerReader() *former.Reader {
	return &former.Reader{Reader: c.Reader, SystemNamespace: c.SystemNamespace}
}

func (c *Controller) newPlanStore() *planStore {
	return &planStore{client: c.Client, reader: c.Reader, systemNamespace: c.SystemNamespace, registry: &c.planRegistry}
}

func (c *Controller) newBundleRetriever() *bundleRetriever {
	return &bundleRetriever{bundles: c.Bundles, retrievals: c.retrievals, requested: map[string]bool{}}
}

func (c *Controller) newDependencyChecker() *dependencyChecker {
	return &dependencyChecker{
		client: c.Client, servedResources: c.ServedResources, waiting: &c.waitingExtensions,
		catalogs: &catalogBrowser{client: c.Client, catalogs: c.Catalogs, searches: &c.searchCache},
	}
}

// newChangeReader returns the reader of the facts of a change. The purpose is that of its
// retrievals. Only the change that is made is recorded as waiting for other extensions.
func (c *Controller) newChangeReader(ext *olmv1.ClusterExtension, purpose string, bundles *bundleRetriever) *changeReader {
	revs, dependencies := c.newRevisionReader(), c.newDependencyChecker()
	dependencies.registers = purpose == retrieveForRevision
	return &changeReader{
		ext: ext, effective: c.effectiveExtension(ext), purpose: purpose, bundles: bundles,
		catalogs: dependencies.catalogs, dependencies: dependencies, revisions: revs,
		platform:  &platformReader{kubernetesVersion: c.KubernetesVersion, certManagerCache: c.certManagerCache},
		preflight: &preflightRunner{checks: c.Preflight, revisions: revs},
		program:   c.Program, requireServiceAccount: c.RequireServiceAccount,
	}
}

// mapToAllExtensions is the map function of catalogs and of cert-manager's API. It returns a
// request for every extension, since each of them may select another bundle or issuer.
func (c *Controller) mapToAllExtensions(ctx context.Context, _ client.Object) []ctrlreconcile.Request {
	var list olmv1.ClusterExtensionList
	if err := c.Client.List(ctx, &list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the extensions to enqueue")
		return nil
	}

	requests := make([]ctrlreconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}

	return requests
}

// catalogChanged is a predicate for the changes of a catalog that affect resolution: its priority,
// its labels, its content, and whether it is served.
var catalogChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return true },
	DeleteFunc: func(event.DeleteEvent) bool { return true },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*olmv1.ClusterCatalog)
		after, ok2 := e.ObjectNew.(*olmv1.ClusterCatalog)
		return ok && ok2 && snapshotCatalog(before) != snapshotCatalog(after)
	},
}

// mapToWaitingExtensions is the map function of extensions. It returns requests for the extensions
// that wait for another one to be installed or removed.
func (c *Controller) mapToWaitingExtensions(_ context.Context, changed client.Object) []ctrlreconcile.Request {
	return c.waitingExtensions.listRequestsExcept(changed.GetName())
}

// installedChanged is a predicate for the changes of an extension that affect those that wait for
// it: its installed bundle, its number of active revisions, and its deletion.
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
