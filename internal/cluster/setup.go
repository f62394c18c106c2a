// Package cluster is the component cluster-version-operator: it keeps a cluster at the
// release that its ClusterVersion asks for.
//
// Here its parts are put together: version looks after the ClusterVersion, updates asks the
// update service, acceptance judges a wanted release with the help of trust, retrieval and
// precondition, risk finds what stands against updates, capability knows the optional parts
// of a platform, and worker applies the release.
package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/mainstay-dev/mainstay/internal/releaseimage/signature"
)

// Name is what the operator calls itself.
const Name = "cluster-version-operator"

// Options are what the component is set up with.
type Options struct {
	// ReleaseImage is the pull spec of the release that the operator belongs to.
	ReleaseImage string
	// Payload holds the files of that release, when the operator runs in its image. Nil
	// means that it does not: the release is then pulled, and is the first one of a cluster
	// that has none.
	Payload fs.FS
	// Images returns the client that pulls.
	Images func(ctx context.Context) (*image.Client, error)
	// CacheDir is the folder of releases that were pulled.
	CacheDir string
	// Jobs retrieves releases by Jobs, in place of this process. Its client is set here. Nil:
	// releases are pulled.
	Jobs *retrieval.Workload
	// Namespace is where events are written.
	Namespace string
	// UpdateService beats the upstream of the ClusterVersion.
	UpdateService string
	// AlwaysEnable are capabilities that every cluster has.
	AlwaysEnable []string
	// AutoUpdate has the cluster ask for the highest available update by itself.
	AutoUpdate bool
	// Profile and ExcludeIdentifier decide which manifests belong to the cluster.
	Profile, ExcludeIdentifier string
	// Prometheus evaluates the risks of updates. Nil: those that need it are not known.
	Prometheus *updates.Prometheus
	// Program is the version of this program.
	Program string
	// Metrics registers the collector of metrics. Nil registers none.
	Metrics metrics.Registerer
}

// What the operator does by itself. Applying a release needs every right, for it may hold
// anything: who binds these alone has an operator that looks and reports.
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

// Setup adds the component to a manager. Its scheme has the kinds of Kubernetes' core and
// of api/config/v1.
func Setup(mgr ctrl.Manager, o Options) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("setting up %s: %w", Name, err)
	}

	log := mgr.GetLogger().WithName(Name)
	applier := worker.New(worker.Options{Client: direct, Informers: mgr.GetCache()})
	var querier updates.Querier
	if o.Prometheus != nil {
		querier = updates.NewCache(o.Prometheus, nil)
	}

	watcher := updates.NewWatcher(updates.Options{Program: o.Program, PromQL: querier, Log: log.WithName("updates")})
	var others acceptance.Retriever = &retrieval.Registry{Dir: o.CacheDir, Images: o.Images}
	if o.Jobs != nil {
		o.Jobs.Client = direct
		others = o.Jobs
	}

	acceptor := acceptance.NewAcceptor(&acceptance.Judge{
		Retriever:      retriever{own: o.ReleaseImage, files: o.Payload, next: others},
		ClusterVersion: version.Reader(direct),
		Etcd:           etcdReader(direct),
		Tell:           teller(mgr, o.Namespace),
		Detail:         signature.Detail,
	}, nil)

	for _, part := range []manager.Runnable{leading{applier.Run}, watcher, acceptor} {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("setting up %s: %w", Name, err)
		}
	}

	made := &birth{}
	if o.Metrics != nil {
		if err := metrics.Setup(mgr, o.Metrics, metrics.Options{Worker: applier.Status, Created: made.at, Retrieved: watcher.Retrieved}); err != nil {
			return err
		}
	}

	return version.Setup(mgr, version.Options{
		Own:    version.Own{Image: o.ReleaseImage, Files: o.Payload},
		Worker: applier, Updates: watcher, Acceptor: acceptor, Trust: trust.New(direct, mgr.GetAPIReader()),
		UpdateService: o.UpdateService, AlwaysEnable: o.AlwaysEnable, AutoUpdate: o.AutoUpdate, Profile: o.Profile, ExcludeIdentifier: o.ExcludeIdentifier,
		Architecture: runtime.GOARCH, Taken: made.set,
	}, version.News{Worker: applier.Changed(), Updates: watcher.Changed(), Acceptor: acceptor.Changed()})
}

// etcdReader returns the ClusterOperator of etcd as it is; nil where there is none.
func etcdReader(reader client.Reader) func(ctx context.Context) (*configv1.ClusterOperator, error) {
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

// leading is a Runnable that runs on the leader only.
type leading struct {
	run func(ctx context.Context) error
}

// Start runs until the context ends.
func (l leading) Start(ctx context.Context) error { return l.run(ctx) }

// NeedLeaderElection is true.
func (leading) NeedLeaderElection() bool { return true }

// birth remembers when the present release was made.
type birth struct {
	mu    sync.Mutex
	image string
	time  metav1.Time
}

func (b *birth) set(image string, created metav1.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.image, b.time = image, created
}

func (b *birth) at(image string) metav1.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if image != b.image {
		return metav1.Time{}
	}
	return b.time
}

// retriever reads the operator's own release from where it runs.
type retriever struct {
	own   string
	files fs.FS
	next  acceptance.Retriever
}

// Retrieve returns the files of a release.
func (r retriever) Retrieve(ctx context.Context, target configv1.Release) (fs.FS, error) {
	if r.files != nil && target.Image == r.own {
		return r.files, nil
	}
	return r.next.Retrieve(ctx, target)
}

// maxNote is how many bytes an event may say.
const maxNote = 1000

// teller writes events about the ClusterVersion. Those about different releases are different
// ones, however soon they follow each other.
func teller(mgr ctrl.Manager, namespace string) func(target configv1.Release, reason string, warning bool, message string) {
	recorder := mgr.GetEventRecorder(Name)
	log := mgr.GetLogger().WithName(Name)
	return func(target configv1.Release, reason string, warning bool, message string) {
		kind := corev1.EventTypeNormal
		if warning {
			kind = corev1.EventTypeWarning
		}

		log.Info("A release is judged", "step", reason, "message", message)
		if len(message) > maxNote {
			message = strings.ToValidUTF8(message[:maxNote], "") + "…"
		}

		regarding := &corev1.ObjectReference{
			APIVersion: configv1.GroupVersion.String(), Kind: configv1.ClusterVersionKind, Name: configv1.ClusterVersionName, Namespace: namespace,
			FieldPath: "spec.desiredUpdate{" + target.Image + "}",
		}
		recorder.Eventf(regarding, nil, kind, reason, "Accept", "%s", message)
	}
}
