// Package cluster is the cluster-version-operator component: it keeps a cluster at the release
// that its ClusterVersion requests.
//
// This package connects the parts. version reconciles the ClusterVersion, and updates queries
// the update service. acceptance decides whether a wanted release may be applied, with the help
// of trust, retrieval and precondition. risk finds the risks of updates, capability resolves the
// optional parts of a platform, and worker applies the release.
package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/metrics"
	"github.com/mainstay-dev/mainstay/internal/cluster/precondition"
	"github.com/mainstay-dev/mainstay/internal/cluster/retrieval"
	"github.com/mainstay-dev/mainstay/internal/cluster/trust"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/version"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/image"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Name is the name of the operator.
const Name = "cluster-version-operator"

// Options are the settings of the component.
type Options struct {
	// ReleaseImage is the pull spec of the release that the operator belongs to.
	ReleaseImage string
	// Payload holds the files of that release, when the operator runs in its image. If nil, the
	// release is pulled and is the first one of a cluster that has none.
	Payload fs.FS
	// Images returns the client that pulls images.
	Images func(ctx context.Context) (*image.Client, error)
	// CacheDir is the directory for pulled releases.
	CacheDir string
	// Jobs retrieves releases by Jobs instead of in this process. Setup sets its client. If nil,
	// this process pulls releases.
	Jobs *retrieval.Workload
	// Namespace is the namespace of events.
	Namespace string
	// UpdateService takes precedence over spec.upstream of the ClusterVersion.
	UpdateService string
	// AlwaysEnable are capabilities that are enabled in every cluster.
	AlwaysEnable []string
	// AutoUpdate makes the cluster request the highest available update automatically.
	AutoUpdate bool
	// Profile and ExcludeIdentifier select the manifests that belong to the cluster.
	Profile, ExcludeIdentifier string
	// Prometheus evaluates the risks of updates. If nil, risks with PromQL rules cannot be
	// evaluated.
	Prometheus *updates.Prometheus
	// Program is the version of this program.
	Program string
	// Clock is the source of time. Nil means the real clock.
	Clock clock.WithTicker
	// Metrics registers the metrics collector. If nil, there are no metrics.
	Metrics metrics.Registerer
}

// Permissions of the operator itself. Applying a release needs all permissions, because it may
// contain any object. With only these permissions the operator checks releases and reports, but
// applies nothing.
//
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusterversions,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusterversions/status,verbs=update
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.openshift.io,resources=featuregates;proxies,resourceNames=cluster,verbs=get
// +kubebuilder:rbac:groups=config.openshift.io,resources=imagedigestmirrorsets;imagetagmirrorsets,verbs=list;watch
// +kubebuilder:rbac:groups=operator.openshift.io,resources=imagecontentsourcepolicies,verbs=list;watch
// +kubebuilder:rbac:groups="",namespace=openshift-config-managed,resources=configmaps,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",namespace=openshift-config-managed,resources=configmaps,resourceNames=signatures-managed,verbs=update
// +kubebuilder:rbac:groups="",namespace=openshift-config,resources=configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-version,resources=serviceaccounts;secrets,verbs=get
// +kubebuilder:rbac:groups=batch,namespace=openshift-cluster-version,resources=jobs,verbs=get;list;create;delete
// +kubebuilder:rbac:groups="",namespace=openshift-cluster-version,resources=pods,verbs=list
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=openshift-cluster-version,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=create
// +kubebuilder:rbac:groups="",resources=services,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;create
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Setup adds the component to a manager. The manager's scheme must have the core kinds of
// Kubernetes and those of api/config/v1.
func Setup(mgr ctrl.Manager, o Options) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("setting up %s: %w", Name, err)
	}

	log := mgr.GetLogger().WithName(Name)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	applier := worker.New(worker.Options{Client: direct, Informers: mgr.GetCache(), Clock: o.Clock})
	var querier updates.Querier
	if o.Prometheus != nil {
		querier = updates.NewCache(o.Prometheus, o.Clock)
	}

	watcher := updates.NewWatcher(updates.Options{ProgramVersion: o.Program, PromQL: querier, Clock: o.Clock, Log: log.WithName("updates")})
	var remote acceptance.Retriever = &retrieval.Registry{Dir: o.CacheDir, Images: o.Images}
	if o.Jobs != nil {
		o.Jobs.Client = direct
		remote = o.Jobs
	}

	acceptor := acceptance.NewAcceptor(&acceptance.Judge{
		Retriever:      payloadRetriever{own: o.ReleaseImage, files: o.Payload, next: remote},
		ClusterVersion: version.Reader(direct),
		Etcd:           newEtcdReader(direct),
		RecordStep:     newEventFunc(mgr, o.Namespace),
		DescribeError:  signature.Detail,
	}, o.Clock)

	for _, part := range []manager.Runnable{leaderRunnable{applier.Run}, watcher, acceptor} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("setting up %s: %w", Name, err)
		}
	}

	created := &creationTime{}
	if o.Metrics != nil {
		if err := metrics.Setup(mgr, o.Metrics, metrics.Options{Worker: applier.Status, Created: created.lookup, Retrieved: watcher.Retrieved}); err != nil {
			return err
		}
	}

	return version.Setup(mgr, version.Options{
		Own:    version.Own{Image: o.ReleaseImage, Files: o.Payload},
		Worker: applier, Updates: watcher, Acceptor: acceptor, Trust: trust.New(direct, mgr.GetAPIReader()),
		Settings: version.Settings{
			UpdateService: o.UpdateService, AlwaysEnable: o.AlwaysEnable, AutoUpdate: o.AutoUpdate, Profile: o.Profile, ExcludeIdentifier: o.ExcludeIdentifier,
			Architecture: runtime.GOARCH,
		},
		Clock:      o.Clock,
		OnAccepted: created.record,
	}, version.Notifications{Worker: applier.Changed(), Updates: watcher.Changed(), Acceptor: acceptor.Changed()})
}

// newEtcdReader returns a function that reads the ClusterOperator of etcd. It returns nil if
// there is none.
func newEtcdReader(reader client.Reader) func(ctx context.Context) (*configv1.ClusterOperator, error) {
	return func(ctx context.Context) (*configv1.ClusterOperator, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		operator := &configv1.ClusterOperator{}
		if err := reader.Get(ctx, client.ObjectKey{Name: precondition.Etcd}, operator); err != nil {
			return nil, client.IgnoreNotFound(err)
		}

		return operator, nil
	}
}

// leaderRunnable is a Runnable that runs only on the leader.
type leaderRunnable struct {
	run func(ctx context.Context) error
}

// Start runs until the context ends.
func (l leaderRunnable) Start(ctx context.Context) error { return l.run(ctx) }

// NeedLeaderElection returns true.
func (leaderRunnable) NeedLeaderElection() bool { return true }

// creationTime stores when the current release was created.
type creationTime struct {
	mu    sync.Mutex
	image string
	time  metav1.Time
}

func (b *creationTime) record(image string, created metav1.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.image = image
	b.time = created
}

// lookup returns the creation time of a release; the zero time if it is not the current one.
func (b *creationTime) lookup(image string) metav1.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if image != b.image {
		return metav1.Time{}
	}
	return b.time
}

// payloadRetriever returns the files of the operator's own release without pulling it.
type payloadRetriever struct {
	own   string
	files fs.FS
	next  acceptance.Retriever
}

// Retrieve returns the files of a release.
func (r payloadRetriever) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	if r.files != nil && target.Image == r.own {
		return r.files, nil
	}
	return r.next.Retrieve(ctx, target)
}

// newEventFunc returns a function that writes events about the ClusterVersion. Events about
// different releases have different field paths, so that they are not aggregated.
func newEventFunc(mgr ctrl.Manager, namespace string) func(target configv1.Release, reason string, warning bool, message string) {
	recorder := mgr.GetEventRecorder(Name)
	log := mgr.GetLogger().WithName(Name)
	return func(target configv1.Release, reason string, warning bool, message string) {
		log.Info("Release acceptance", "step", reason, "message", message)
		regarding := &corev1.ObjectReference{
			APIVersion: configv1.GroupVersion.String(), Kind: configv1.ClusterVersionKind, Name: configv1.ClusterVersionName, Namespace: namespace,
			FieldPath: "spec.desiredUpdate{" + target.Image + "}",
		}
		reconcile.Record(recorder, regarding, reconcile.Event{Warning: warning, Reason: reason, Action: "Accept", Note: message})
	}
}
