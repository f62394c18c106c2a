package csv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/membership"
)

// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/status,verbs=update;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/finalizers,verbs=update
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorconditions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// conflictRetryInterval is how long to wait after a conflict for the newer object to reach the
// cache. The watch usually triggers a reconcile sooner.
const conflictRetryInterval = time.Second

// Reconciler moves ClusterServiceVersions from phase to phase.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// APIReader reads from the API server without the cache, so that decisions see the latest writes.
	APIReader client.Reader
	// Cluster reads the API server's version and the kinds that it serves.
	Cluster Cluster
	// ClientForAccount returns a client that impersonates a service account.
	ClientForAccount func(ctx context.Context, account *corev1.ObjectReference) (client.Client, error)
	// Events records events for users.
	Events events.EventRecorder
	// Clock returns the current time.
	Clock clock.PassiveClock
	// Syncs counts reconciles; it may be nil.
	Syncs *clusteroperator.Syncs
	// HasProxyKind is true when the cluster serves the kind Proxy.
	HasProxyKind bool
	// HasSubscriptionKind is true when the cluster serves the kind Subscription.
	HasSubscriptionKind bool

	// sharedRights has the ClusterServiceVersions that use rights not created for them.
	sharedRights sharedRights
}

// Reconcile moves one ClusterServiceVersion forward.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.reconcileCSV(ctx, req)
	if apierrors.IsConflict(err) {
		// It changed since it was read, so the decision may be outdated.
		result, err = ctrl.Result{RequeueAfter: conflictRetryInterval}, nil
	}
	r.Syncs.Record(err)
	return result, err
}

func (r *Reconciler) reconcileCSV(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := r.Client.Get(ctx, req.NamespacedName, csv); apierrors.IsNotFound(err) {
		r.sharedRights.set(req.NamespacedName, false)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err
	}

	if csvinfo.IsCopied(csv) {
		return ctrl.Result{}, nil
	}
	if !csv.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalizeDeletion(ctx, csv)
	}
	if csv.Status.Reason == v1alpha1.CSVReasonComponentFailedNoRetry {
		return ctrl.Result{}, r.ensureMetadata(ctx, csv, csv.Annotations)
	}
	if err := r.ensureMetadata(ctx, csv, csv.Annotations); err != nil {
		return ctrl.Result{}, err
	}
	if _, err := csvinfo.APILabels(csv); err != nil {
		log.FromContext(ctx).Info("Skipping a ClusterServiceVersion whose APIs cannot be parsed", "reason", err.Error())
		return ctrl.Result{}, nil
	}

	members, err := r.readMembership(ctx, csv.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}

	before := csv.DeepCopy()
	admission := Admit(csv, members)
	outcome := admission.Outcome
	if admission.Stop {
		err = r.applyAdmission(ctx, csv, members.Group, admission)
	} else {
		outcome, err = r.transitionPhase(ctx, csv, members.Group)
	}

	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.patchStatus(ctx, csv, before, outcome); err != nil {
		return ctrl.Result{}, err
	}

	return ctrl.Result{RequeueAfter: outcome.RequeueAfter}, outcome.Err
}

// readMembership reads the OperatorGroup of the namespace and all OperatorGroups of the cluster.
func (r *Reconciler) readMembership(ctx context.Context, namespace string) (Membership, error) {
	m := Membership{}
	m.Group, m.Err = membership.OnlyGroupOf(ctx, r.Client, namespace)
	if m.Err != nil && !errors.Is(m.Err, membership.ErrNone) && !errors.Is(m.Err, membership.ErrSeveral) {
		return m, m.Err
	}

	var all operatorsv1.OperatorGroupList
	if err := r.Client.List(ctx, &all); err != nil {
		return m, fmt.Errorf("listing OperatorGroups: %w", err)
	}

	m.All = all.Items
	return m, nil
}

// ensureMetadata patches a ClusterServiceVersion so that it has the finalizer, the labels of its
// APIs, and exactly the given annotations.
func (r *Reconciler) ensureMetadata(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, annotations map[string]string) error {
	before := csv.DeepCopy()
	controllerutil.AddFinalizer(csv, csvinfo.Finalizer)
	csv.Annotations = annotations
	if wanted, err := csvinfo.APILabels(csv); err == nil {
		labels := maps.Clone(csv.Labels)
		maps.DeleteFunc(labels, func(key, _ string) bool { return csvinfo.IsAPILabel(key) })
		if len(wanted)+len(labels) > 0 {
			csv.Labels = csvinfo.MergeLabels(labels, wanted)
		}
	}

	if equality.Semantic.DeepEqual(before.ObjectMeta, csv.ObjectMeta) {
		return nil
	}
	if err := r.Client.Patch(ctx, csv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("updating the metadata of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
	}

	return nil
}

// applyAdmission makes the changes that an Admission asks for before a phase can be decided.
func (r *Reconciler) applyAdmission(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup, a Admission) error {
	if a.Annotations != nil {
		return r.ensureMetadata(ctx, csv, a.Annotations)
	}

	if a.ProvidedAPIs != nil {
		changed := g.DeepCopy()
		changed.Annotations = csvinfo.MergeLabels(changed.Annotations, map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: *a.ProvidedAPIs})
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(g, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("listing the APIs of ClusterServiceVersion %s in OperatorGroup %s: %w", csv.Name, client.ObjectKeyFromObject(g), err)
		}
		return nil
	}

	if a.DeleteDeployments {
		return r.deleteOwnedDeployments(ctx, csv)
	}
	return nil
}

// transitionPhase decides the next phase of an admitted ClusterServiceVersion, and installs or
// deletes if the decision says so.
func (r *Reconciler) transitionPhase(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (Outcome, error) {
	facts, err := r.gatherFacts(ctx, csv, g)
	if err != nil {
		return Outcome{}, err
	}

	o := Decide(csv, facts)
	switch o.Action {
	case DoInstall:
		return r.attemptInstall(ctx, csv, g), nil
	case DoDelete:
		same := client.Preconditions{UID: &csv.UID, ResourceVersion: &csv.ResourceVersion}
		err := r.Client.Delete(ctx, csv, same, client.PropagationPolicy("Background"))
		return Outcome{}, client.IgnoreNotFound(err)
	default:
		return o, nil
	}
}

// patchStatus records an outcome in the status and patches it if it changed. It emits an event when
// the phase or the reason changed.
func (r *Reconciler) patchStatus(ctx context.Context, csv, before *v1alpha1.ClusterServiceVersion, o Outcome) error {
	changed := RecordOutcome(&csv.Status, o, r.Clock.Now())
	if equality.Semantic.DeepEqual(csv.Status, before.Status) {
		return nil
	}

	base := before.DeepCopy()
	base.ObjectMeta = *csv.ObjectMeta.DeepCopy()
	if err := r.Client.Status().Patch(ctx, csv, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the status of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
	}
	if !changed {
		return nil
	}
	if o.Phase == v1alpha1.CSVPhaseReplacing && before.Status.Phase != o.Phase {
		upgradeCounter.Inc()
	}

	if before.Status.Phase != o.Phase || before.Status.Reason != o.Reason {
		kind := corev1.EventTypeNormal
		if o.Phase == v1alpha1.CSVPhaseFailed {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(csv, nil, kind, o.Reason, "Reconcile", "%s", truncateEventMessage(o.Message))
	}

	return nil
}

// truncateEventMessage truncates a message to the maximum length of an event's note.
func truncateEventMessage(message string) string {
	const maxBytes = 1024
	if len(message) <= maxBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxBytes-len("…")], "") + "…"
}
