package upgradeable

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/bundle/platform"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// operatorName is the name of the ClusterOperator, as platforms know it.
	operatorName = "olm"
	// clusterVersionResyncInterval is how often the version of the cluster is read, and whether it
	// serves ClusterOperators. No watch reports either.
	clusterVersionResyncInterval = 5 * time.Minute
)

// Options are what the controller is set up with.
type Options struct {
	// SystemNamespace is where the component runs.
	SystemNamespace string
	// Program is the version of this program.
	Program string
	// KubernetesVersion returns the version of the API server.
	KubernetesVersion func() (*version.Info, error)
	// Clock is used for transition times. Nil means the real clock.
	Clock clock.PassiveClock
}

// reporter reconciles the one ClusterOperator.
type reporter struct {
	Options

	// client reads revisions from a cache, and writes.
	client client.Client
	// reader reads from the API server.
	reader client.Reader
	mapper meta.RESTMapper
}

// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,verbs=create
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators,resourceNames=olm,verbs=get
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusteroperators/status,resourceNames=olm,verbs=patch
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusterversions,resourceNames=version,verbs=get

// Setup adds the controller to a manager.
func Setup(mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	request := ctrl.Request{NamespacedName: client.ObjectKey{Name: operatorName}}
	enqueue := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request { return []ctrl.Request{request} })
	initial := make(chan event.GenericEvent, 1)
	initial <- event.GenericEvent{Object: &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: operatorName}}}
	r := &reporter{Options: o, client: mgr.GetClient(), reader: mgr.GetAPIReader(), mapper: mgr.GetRESTMapper()}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("clusteroperator").
		Watches(&olmv1.ClusterObjectSet{}, enqueue, builder.WithPredicates(limitsChanged)).
		WatchesRawSource(source.Channel(initial, enqueue)).
		Complete(r.newReconciler())
	if err != nil {
		return fmt.Errorf("setting up the reporter of ClusterOperator %q: %w", operatorName, err)
	}

	return nil
}

// limitsChanged is a predicate for revisions whose bundles state limits, when they are created,
// deleted or archived.
var limitsChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return isLimitingRevision(e.Object) },
	DeleteFunc: func(e event.DeleteEvent) bool { return isLimitingRevision(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		if !isLimitingRevision(e.ObjectOld) && !isLimitingRevision(e.ObjectNew) {
			return false
		}
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			!equality.Semantic.DeepEqual(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	},
	GenericFunc: func(event.GenericEvent) bool { return true },
}

func isLimitingRevision(object client.Object) bool {
	set, ok := object.(*olmv1.ClusterObjectSet)
	return ok && mayStateLimit(set)
}

// facts are what the report depends on.
type facts struct {
	// served reports whether the cluster serves ClusterOperators.
	served bool
	// versions are the current minor versions of the cluster.
	versions map[versionScheme]platform.Minor
	// revisions belong to the cache and must not be changed.
	revisions []olmv1.ClusterObjectSet
}

// decision is the report to write.
type decision struct {
	// write is false if the cluster does not serve ClusterOperators.
	write bool
	// limits are the installed bundles that do not support the next minor version.
	limits []limit
}

// newReconciler returns the reconciler of the report.
func (r *reporter) newReconciler() *reconcile.KeyReconciler[facts, decision] {
	return &reconcile.KeyReconciler[facts, decision]{
		Gather:      r.gatherFacts,
		Decide:      decideReport,
		Execute:     r.writeReport,
		ResyncAfter: func(facts, decision) time.Duration { return clusterVersionResyncInterval },
	}
}

// gatherFacts reads the versions of the cluster and the revisions.
func (r *reporter) gatherFacts(ctx context.Context, _ types.NamespacedName) (facts, error) {
	served, err := operatorstatus.IsKindServed(r.mapper)
	if err != nil || !served {
		return facts{}, err
	}

	versions, err := r.readClusterVersions(ctx)
	if err != nil {
		return facts{}, err
	}

	var sets olmv1.ClusterObjectSetList
	if err := r.client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return facts{}, fmt.Errorf("listing revisions: %w", err)
	}
	return facts{served: true, versions: versions, revisions: sets.Items}, nil
}

// decideReport decides what is reported.
func decideReport(f facts) decision {
	return decision{write: f.served, limits: findVersionLimits(f.revisions, f.versions)}
}

// writeReport writes the report.
func (r *reporter) writeReport(ctx context.Context, _ facts, d decision) error {
	if !d.write {
		return nil
	}
	operator := operatorstatus.Operator{Name: operatorName, Reader: r.reader, Client: r.client}
	return operator.PatchStatus(ctx, func(status *configv1.ClusterOperatorStatus) {
		reportStatus(status, d.limits, r.Program, r.SystemNamespace, metav1.NewTime(r.Clock.Now()))
	})
}

// readClusterVersions returns the current minor version of the cluster for each version scheme
// that it has.
func (r *reporter) readClusterVersions(ctx context.Context) (map[versionScheme]platform.Minor, error) {
	info, err := r.KubernetesVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the version of the API server: %w", err)
	}

	result := map[versionScheme]platform.Minor{}
	if result[kubernetes], err = platform.ParseMinor(info.GitVersion); err != nil {
		return nil, fmt.Errorf("the version of the API server, %q: %w", info.GitVersion, err)
	}

	served, err := r.isServed(clusterVersionKind.GroupKind())
	if err != nil || !served {
		return result, err
	}

	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(clusterVersionKind)
	err = r.reader.Get(ctx, client.ObjectKey{Name: "version"}, cluster)
	if apierrors.IsNotFound(err) {
		return result, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ClusterVersion \"version\": %w", err)
	}

	desired, _, _ := unstructured.NestedString(cluster.Object, "status", "desired", "version")
	if desired == "" {
		return result, nil // The version is not known yet.
	}
	if result[openShift], err = platform.ParseMinor(desired); err != nil {
		return nil, fmt.Errorf("status.desired.version of ClusterVersion \"version\", %q: %w", desired, err)
	}

	return result, nil
}

var clusterVersionKind = configv1.GroupVersion.WithKind("ClusterVersion")

func (r *reporter) isServed(kind schema.GroupKind) (bool, error) {
	_, err := r.mapper.RESTMapping(kind, configv1.GroupVersion.Version)
	switch {
	case meta.IsNoMatchError(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking up kind %s: %w", kind, err)
	}

	return true, nil
}
