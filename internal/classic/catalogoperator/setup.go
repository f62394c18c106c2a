// Package catalogoperator implements the component catalog-operator. It serves the catalogs of
// OLM Classic and keeps connections to them (internal/classic/source, internal/classic/dial),
// resolves Subscriptions (internal/classic/subscription), and reports its health in a
// ClusterOperator (internal/classic/clusteroperator).
//
// This package sets up the controllers.
package catalogoperator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/installplan"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
	"github.com/mainstay-dev/mainstay/internal/classic/source"
	"github.com/mainstay-dev/mainstay/internal/classic/source/inline"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/classic/subscription"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Options configure the component.
type Options struct {
	// Images are the images that run in addition to those of the catalogs.
	Images objects.Images
	// SetUserID sets a user ID in restricted pods, for clusters that do not assign one.
	SetUserID bool
	// ResyncInterval is how often a catalog is reconciled although nothing has changed, plus up to a
	// fifth. Zero means source.DefaultResyncInterval.
	ResyncInterval time.Duration
	// Proxy is the proxy for connections to catalogs.
	Proxy dial.Proxy
	// GlobalNamespace is the namespace of the catalogs that every namespace may use. It may be
	// empty.
	GlobalNamespace string
	// UnpackMode is how bundles of catalogs in trusted namespaces are unpacked. Empty means by
	// Jobs.
	UnpackMode unpack.Mode
	// UnpackTimeout limits the unpacking of a bundle if the OperatorGroup sets no timeout; 0
	// means no limit.
	UnpackTimeout time.Duration

	// OnePlanPerNamespace resolves, approves and installs all Subscriptions of a namespace together, or not at all.
	OnePlanPerNamespace bool

	// Inline configures how catalogs are served from within the process. If it is nil, pods serve them.
	Inline *InlineOptions
	// Pool has the connections to catalogs, if other components of the process read catalogs, too. Nil means a pool of its
	// own. It is closed when the manager stops.
	Pool *dial.Pool

	// Registries and PlatformRegistries are those of unpack.InlineOptions. They are also used to poll the images of catalogs
	// that pods serve. If Registries is nil, each poll needs a pod.
	Registries, PlatformRegistries unpack.Registries

	// InstallPlanRetryTimeout is how long failing steps of an InstallPlan are retried. Zero
	// disables retries.
	InstallPlanRetryTimeout time.Duration

	// ClusterOperator is the name of the ClusterOperator to report with. If it is empty,
	// nothing is reported.
	ClusterOperator string
	// Namespace is the namespace of the program.
	Namespace string
	// Release is the version of the platform to which the program belongs. It may be empty.
	Release string
	// Program is the version of the program.
	Program string

	// Clock is the clock. If it is nil, the real time is used.
	Clock clock.PassiveClock
}

// InlineOptions configure how catalogs are served from within the process.
type InlineOptions struct {
	// Store has the content of the catalogs.
	Store *catalogstore.Partition
	// IndexDir is the directory of the indexes of the catalogs.
	IndexDir string
	// BindAddress is the address at which other processes read the catalogs. If it is empty, only this process
	// reads them.
	BindAddress string
	// OnListening is called with the address when the server listens. It may be nil.
	OnListening func(net.Addr)
	// Host is the DNS name of the Service that leads to BindAddress. If it is empty, catalogs have no Service.
	Host string
	// Registries returns a registry client that uses only the credentials of the given Secrets, with the limits
	// inline.ImageLimits.
	Registries unpack.Registries
}

// Mirrors of images, if the cluster declares any.

// +kubebuilder:rbac:groups=config.openshift.io,resources=imagedigestmirrorsets;imagetagmirrorsets,verbs=list;watch
// +kubebuilder:rbac:groups=operator.openshift.io,resources=imagecontentsourcepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=operator-lifecycle-manager-catalog,verbs=list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=operator-lifecycle-manager-catalog,verbs=patch

// Tune restricts the cache of a manager to the objects that the component reads.
func Tune(o *ctrl.Options) {
	if o.Cache.ByObject == nil {
		o.Cache.ByObject = map[client.Object]cache.ByObject{}
	}
	maps.Copy(o.Cache.ByObject, source.Cached())
	maps.Copy(o.Cache.ByObject, subscription.Cached())
}

// Setup adds all controllers of the component to a manager. Tune must have been applied to the
// manager's options, and its scheme must contain api/operators/v1alpha1, api/operators/v1,
// api/config/v1 and the kinds of Kubernetes.
func Setup(mgr ctrl.Manager, o Options) error {
	versions, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("setting up catalog-operator: %w", err)
	}

	pool := o.Pool
	if pool == nil {
		pool = dial.New(dial.Options{Proxy: o.Proxy, Clock: o.Clock})
	}
	if err := mgr.Add(newPoolCloser(pool)); err != nil {
		return err
	}

	server, host, err := setupInlineServer(mgr, o)
	if err != nil {
		return err
	}

	syncs := &clusteroperator.Syncs{}
	err = source.Setup(mgr, source.Options{
		Inline: server, InlineHost: host, Registries: newPollRegistries(o),
		Pool: pool, Images: o.Images, SetUserID: o.SetUserID, ResyncInterval: o.ResyncInterval, Syncs: syncs, Clock: o.Clock,
		ServerVersion: func(context.Context) (string, error) {
			info, err := versions.ServerVersion()
			if err != nil {
				return "", fmt.Errorf("reading the version of the API server: %w", err)
			}
			return info.GitVersion, nil
		},
	})
	if err != nil {
		return err
	}

	unpacker, err := setupUnpacker(mgr, o)
	if err != nil {
		return err
	}

	err = subscription.Setup(mgr, subscription.Options{
		Pool: pool, Snapshots: snapshot.New(pool, o.Clock), GlobalNamespace: o.GlobalNamespace, UnpackTimeout: o.UnpackTimeout, Syncs: syncs, Clock: o.Clock,
		Unpacker: unpacker, OnePlanPerNamespace: o.OnePlanPerNamespace,
	})
	if err != nil {
		return err
	}

	err = installplan.Setup(mgr, installplan.Options{
		Namespace: o.Namespace, Trust: unpacker.Trust, RetryTimeout: o.InstallPlanRetryTimeout, Clock: o.Clock, Syncs: syncs,
	})
	if err != nil {
		return err
	}

	return clusteroperator.SetupCatalog(mgr, clusteroperator.Options{
		Name: o.ClusterOperator, Namespace: o.Namespace, Release: o.Release, Program: o.Program, Syncs: syncs, Clock: o.Clock,
	})
}

// setupInlineServer adds the server of catalogs without pods to a manager. It returns nil if pods serve them.
func setupInlineServer(mgr ctrl.Manager, o Options) (server *inline.Server, host string, err error) {
	if o.Inline == nil {
		return nil, "", nil
	}

	server = inline.New(inline.Options{
		Store: o.Inline.Store, IndexDir: o.Inline.IndexDir, Registries: o.Inline.Registries, BindAddress: o.Inline.BindAddress, OnListening: o.Inline.OnListening, Clock: o.Clock,
		ListUIDs: func(ctx context.Context) ([]types.UID, error) {
			var list metav1.PartialObjectMetadataList
			list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.CatalogSourceKind + "List"))
			if err := mgr.GetAPIReader().List(ctx, &list); err != nil {
				return nil, fmt.Errorf("listing the CatalogSources: %w", err)
			}
			uids := make([]types.UID, 0, len(list.Items))
			for i := range list.Items {
				uids = append(uids, list.Items[i].UID)
			}
			return uids, nil
		},
	})

	return server, o.Inline.Host, mgr.Add(server)
}

// newPollRegistries returns the registry clients for polls. As for bundles, only catalogs in trusted namespaces use the
// credentials of the program.
func newPollRegistries(o Options) source.Registries {
	if o.Registries == nil {
		return nil
	}

	trust := newTrust(o)
	return func(ctx context.Context, namespace string, secrets ...client.ObjectKey) (*image.Client, error) {
		if trust.Has(namespace) && o.PlatformRegistries != nil {
			return o.PlatformRegistries(ctx, secrets...)
		}
		return o.Registries(ctx, secrets...)
	}
}

func newTrust(o Options) unpack.Trust {
	return unpack.Trust{Operator: o.Namespace, Global: o.GlobalNamespace}
}

// setupUnpacker adds the unpacker of bundles to a manager.
func setupUnpacker(mgr ctrl.Manager, o Options) (*unpack.Unpacker, error) {
	inline := unpack.NewInline(unpack.InlineOptions{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: o.Namespace, Registries: o.Registries, PlatformRegistries: o.PlatformRegistries,
	})
	collector := &unpack.Collector{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: o.Namespace}
	if err := errors.Join(mgr.Add(inline), mgr.Add(collector)); err != nil {
		return nil, fmt.Errorf("setting up the unpacker of bundles: %w", err)
	}

	unpacker := &unpack.Unpacker{
		Catalogs: mgr.GetClient(), Trust: newTrust(o), Inline: inline,
	}
	if o.UnpackMode != unpack.ModeInline {
		unpacker.Jobs = &unpack.Jobs{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), SetUserID: o.SetUserID,
			Images: unpack.Images{OPM: o.Images.OPM.Image, Util: o.Images.Copy.Image},
		}
	}

	return unpacker, nil
}

// newPoolCloser returns a Runnable that closes the connections when the manager stops.
func newPoolCloser(pool *dial.Pool) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		pool.Close()
		return nil
	})
}
