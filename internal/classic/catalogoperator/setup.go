// Package catalogoperator is the component catalog-operator: it has the catalogs of OLM Classic be
// served and keeps the connections to them (internal/classic/source, internal/classic/dial), has
// operators be chosen for Subscriptions (internal/classic/subscription), and reports by a
// ClusterOperator whether it works (internal/classic/clusteroperator).
//
// This package puts them together.
package catalogoperator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/dial"
	"github.com/mainstay-dev/mainstay/internal/classic/installplan"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
	"github.com/mainstay-dev/mainstay/internal/classic/source"
	"github.com/mainstay-dev/mainstay/internal/classic/source/objects"
	"github.com/mainstay-dev/mainstay/internal/classic/subscription"
	"github.com/mainstay-dev/mainstay/internal/classic/unpack"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// Options configure the component.
type Options struct {
	// Images are those that are run beside the ones that catalogs name.
	Images objects.Images
	// SetUserID has confined pods run as a user of their own, where nobody else sets one.
	SetUserID bool
	// Resync is how often a catalog is looked at although nothing has happened, give or take a
	// fifth. Zero means source.DefaultResync.
	Resync time.Duration
	// Proxy is what connections to catalogs go through.
	Proxy dial.Proxy
	// GlobalNamespace is that of the catalogs that every namespace may use. Empty means none.
	GlobalNamespace string
	// UnpackTimeout is how long it may take to get a bundle out of its image, where an OperatorGroup
	// does not say; 0 is without end.
	UnpackTimeout time.Duration

	// Registries returns a client of registries with the logins of the given Secrets and no others, and
	// with the limits unpack.ImageLimits.
	Registries func(ctx context.Context, secrets ...client.ObjectKey) (*image.Client, error)

	// InstallPlanRetryTimeout is how long an InstallPlan whose steps fail is tried again. Zero is not
	// at all.
	InstallPlanRetryTimeout time.Duration

	// ClusterOperator is the name of the one that is reported by. Empty means none.
	ClusterOperator string
	// Namespace is where the program runs.
	Namespace string
	// Release is the version of the platform that the program belongs to. Empty means none.
	Release string
	// Program is the version of this program.
	Program string

	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock
}

// The mirrors of images, where a cluster declares some.

// +kubebuilder:rbac:groups=config.openshift.io,resources=imagedigestmirrorsets;imagetagmirrorsets,verbs=list;watch
// +kubebuilder:rbac:groups=operator.openshift.io,resources=imagecontentsourcepolicies,verbs=list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=operator-lifecycle-manager-catalog,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=operator-lifecycle-manager-catalog,verbs=patch

// Tune has the cache of a manager hold what the component needs, and no more.
func Tune(o *ctrl.Options) {
	if o.Cache.ByObject == nil {
		o.Cache.ByObject = map[client.Object]cache.ByObject{}
	}
	maps.Copy(o.Cache.ByObject, source.Cached())
	maps.Copy(o.Cache.ByObject, subscription.Cached())
}

// Setup adds the controllers of the component to a manager, whose options Tune has seen, and whose
// scheme knows the kinds of api/operators/v1alpha1, api/operators/v1, api/config/v1 and of Kubernetes.
// It is the one list of them.
func Setup(mgr ctrl.Manager, o Options) error {
	versions, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("setting up catalog-operator: %w", err)
	}

	pool := dial.New(dial.Options{Proxy: o.Proxy, Clock: o.Clock})
	if err := mgr.Add(closing(pool)); err != nil {
		return err
	}

	syncs := &clusteroperator.Syncs{}
	err = source.Setup(mgr, source.Options{
		Pool: pool, Images: o.Images, SetUserID: o.SetUserID, Resync: o.Resync, Syncs: syncs, Clock: o.Clock,
		ServerVersion: func(context.Context) (string, error) {
			info, err := versions.ServerVersion()
			if err != nil {
				return "", fmt.Errorf("asking the API server for its version: %w", err)
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
		Unpacker: unpacker,
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

// setupUnpacker adds to a manager what gets bundles out of their images.
func setupUnpacker(mgr ctrl.Manager, o Options) (*unpack.Unpacker, error) {
	inline := unpack.NewInline(unpack.InlineOptions{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: o.Namespace, Registries: o.Registries,
	})
	collector := &unpack.Collector{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: o.Namespace}
	if err := errors.Join(mgr.Add(inline), mgr.Add(collector)); err != nil {
		return nil, fmt.Errorf("setting up the unpacking of bundles: %w", err)
	}
	return &unpack.Unpacker{
		Catalogs: mgr.GetClient(), Trust: unpack.Trust{Operator: o.Namespace, Global: o.GlobalNamespace}, Inline: inline,
		Jobs: &unpack.Jobs{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), SetUserID: o.SetUserID,
			Images: unpack.Images{OPM: o.Images.OPM.Image, Util: o.Images.Copy.Image},
		},
	}, nil
}

// closing closes the connections when the program ends.
func closing(pool *dial.Pool) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		pool.Close()
		return nil
	})
}
