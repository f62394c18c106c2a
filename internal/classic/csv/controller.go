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
	"github.com/mainstay-dev/mainstay/internal/classic/group"
)

// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/status,verbs=update;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/finalizers,verbs=update
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorconditions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// conflictPause is how long to wait for a change that was not seen yet. The watch mostly brings it
// sooner.
const conflictPause = time.Second

// Reconciler brings ClusterServiceVersions from phase to phase.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server itself: a decision about what was just written must see it.
	Live client.Reader
	// Cluster answers what no object tells.
	Cluster Cluster
	// As returns a client that writes as a ServiceAccount.
	As func(ctx context.Context, account *corev1.ObjectReference) (client.Client, error)
	// Events tells people.
	Events events.EventRecorder
	// Clock tells the time.
	Clock clock.PassiveClock
	// Syncs counts passes; it may be nil.
	Syncs *clusteroperator.Syncs
	// Proxied: the cluster has the kind that tells of its proxy.
	Proxied bool
	// Subscribed: the cluster has Subscriptions.
	Subscribed bool

	// borrowers have rights of the whole cluster that were not made for them.
	borrowers borrowers
}

// Reconcile makes one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result, err := r.pass(ctx, req)
	if apierrors.IsConflict(err) {
		// It changed since it was read: what was found is out of date.
		result, err = ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	r.Syncs.Seen(err)
	return result, err
}

func (r *Reconciler) pass(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := r.Client.Get(ctx, req.NamespacedName, csv); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.forget(ctx, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}

	if csvinfo.IsCopied(csv) {
		return ctrl.Result{}, nil
	}
	if !csv.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, csv)
	}
	if csv.Status.Reason == v1alpha1.CSVReasonComponentFailedNoRetry {
		return ctrl.Result{}, r.mark(ctx, csv, csv.Annotations)
	}
	if err := r.mark(ctx, csv, csv.Annotations); err != nil {
		return ctrl.Result{}, err
	}
	if _, err := csvinfo.APILabels(csv); err != nil {
		log.FromContext(ctx).Info("a ClusterServiceVersion is passed over, since its APIs cannot be read", "reason", err.Error())
		return ctrl.Result{}, nil
	}

	members, err := r.membership(ctx, csv.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}

	before := csv.DeepCopy()
	admission := Admit(csv, members)
	outcome := admission.Outcome
	if admission.Stop {
		err = r.admit(ctx, csv, members.Group, admission)
	} else {
		outcome, err = r.transition(ctx, csv, members.Group)
	}

	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.write(ctx, csv, before, outcome); err != nil {
		return ctrl.Result{}, err
	}

	return ctrl.Result{RequeueAfter: outcome.After}, outcome.Err
}

// forget removes the APIServices of a ClusterServiceVersion that the cache has not, once it is sure
// that there is none.
func (r *Reconciler) forget(ctx context.Context, name client.ObjectKey) error {
	probe := metadataOf(v1alpha1.GroupVersion.WithKind(v1alpha1.ClusterServiceVersionKind))
	if err := r.Live.Get(ctx, name, probe); !apierrors.IsNotFound(err) {
		return err
	}
	r.borrowers.set(name, false)
	return r.server(r.Client).RemoveAPIServices(ctx, name.Namespace, name.Name)
}

// membership reads the groups.
func (r *Reconciler) membership(ctx context.Context, namespace string) (Membership, error) {
	m := Membership{}
	m.Group, m.Err = group.Of(ctx, r.Client, namespace)
	if m.Err != nil && !errors.Is(m.Err, group.ErrNone) && !errors.Is(m.Err, group.ErrSeveral) {
		return m, m.Err
	}

	var all operatorsv1.OperatorGroupList
	if err := r.Client.List(ctx, &all); err != nil {
		return m, fmt.Errorf("listing OperatorGroups: %w", err)
	}

	m.All = all.Items
	return m, nil
}

// mark returns a ClusterServiceVersion the finalizer, the labels of its APIs, and annotations.
func (r *Reconciler) mark(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, annotations map[string]string) error {
	before := csv.DeepCopy()
	controllerutil.AddFinalizer(csv, csvinfo.Finalizer)
	csv.Annotations = annotations
	if wanted, err := csvinfo.APILabels(csv); err == nil {
		labels := maps.Clone(csv.Labels)
		maps.DeleteFunc(labels, func(key, _ string) bool { return csvinfo.IsAPILabel(key) })
		if len(wanted)+len(labels) > 0 {
			csv.Labels = csvinfo.With(labels, wanted)
		}
	}

	if equality.Semantic.DeepEqual(before.ObjectMeta, csv.ObjectMeta) {
		return nil
	}
	if err := r.Client.Patch(ctx, csv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("marking ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
	}

	return nil
}

// admit carries out what a group that does not admit a ClusterServiceVersion yet makes of it.
func (r *Reconciler) admit(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup, a Admission) error {
	if a.Annotations != nil {
		return r.mark(ctx, csv, a.Annotations)
	}

	if a.ProvidedAPIs != nil {
		changed := g.DeepCopy()
		changed.Annotations = csvinfo.With(changed.Annotations, map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: *a.ProvidedAPIs})
		if err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(g, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("listing the APIs of ClusterServiceVersion %s in OperatorGroup %s: %w", csv.Name, client.ObjectKeyFromObject(g), err)
		}
		return nil
	}

	if a.Unwanted {
		return r.deleteDeployments(ctx, csv)
	}
	return nil
}

// transition brings an admitted one to its next phase.
func (r *Reconciler) transition(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup) (Outcome, error) {
	facts, err := r.gather(ctx, csv, g)
	if err != nil {
		return Outcome{}, err
	}

	o := Decide(csv, facts)
	switch o.Do {
	case DoInstall:
		return r.attempt(ctx, csv, g), nil
	case DoDelete:
		same := client.Preconditions{UID: &csv.UID, ResourceVersion: &csv.ResourceVersion}
		err := r.Client.Delete(ctx, csv, same, client.PropagationPolicy("Background"))
		return Outcome{}, client.IgnoreNotFound(err)
	default:
		return o, nil
	}
}

// write writes the status if an outcome changes it, and tells people of a new phase.
func (r *Reconciler) write(ctx context.Context, csv, before *v1alpha1.ClusterServiceVersion, o Outcome) error {
	changed := Record(&csv.Status, o, r.Clock.Now())
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
		upgrades.Inc()
	}

	if before.Status.Phase != o.Phase || before.Status.Reason != o.Reason {
		kind := corev1.EventTypeNormal
		if o.Phase == v1alpha1.CSVPhaseFailed {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(csv, nil, kind, o.Reason, "Reconcile", "%s", cut(o.Message))
	}

	return nil
}

// cut shortens a message to what an event may have.
func cut(message string) string {
	const most = 1024
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most-len("…")], "") + "…"
}
