package csv

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/classic/clusteroperator"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/status,verbs=patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=clusterserviceversions/finalizers,verbs=update
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorgroups,verbs=list;watch;patch
// +kubebuilder:rbac:groups=operators.coreos.com,resources=operatorconditions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// csvController moves ClusterServiceVersions from phase to phase.
type csvController struct {
	client    client.Client
	facts     *factReader
	installer *installer
	// shared has the ClusterServiceVersions that use rights not created for them.
	shared *sharedRights
	events events.EventRecorder
	clock  clock.PassiveClock
	// syncs counts reconciles; it may be nil.
	syncs *clusteroperator.Syncs
	// written are the last writes of ClusterServiceVersions, writtenGroups those of OperatorGroups.
	written, writtenGroups reconcile.WrittenVersions
	// groupWrites are held while an OperatorGroup is written, by its namespace and name.
	groupWrites keymutex.KeyMutex
}

func (r *csvController) newReconciler() *reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, *facts, *decision] {
	return &reconcile.ObjectReconciler[*v1alpha1.ClusterServiceVersion, *facts, *decision]{
		Client: r.client, New: func() *v1alpha1.ClusterServiceVersion { return &v1alpha1.ClusterServiceVersion{} },
		Finalizers:      []string{csvinfo.Finalizer},
		NeedsFinalizers: func(csv *v1alpha1.ClusterServiceVersion) bool { return !csvinfo.IsCopied(csv) },
		Gather:          r.gatherFacts, Decide: decide, Execute: r.execute, Report: r.report,
		Written: func(csv, before *v1alpha1.ClusterServiceVersion) {
			r.written.Add(csv)
			countUpgrade(csv, before)
		},
		Finalize: r.installer.removeOutsideObjects,
		Forget: func(_ context.Context, name types.NamespacedName) error {
			r.shared.set(name, false)
			r.written.Remove(name)
			return nil
		},
		ResyncAfter: func(_ *v1alpha1.ClusterServiceVersion, _ *facts, d *decision) time.Duration { return d.RequeueAfter },
		IsTransient: hasUnmetRequirements, StatusDelays: &reconcile.StatusDelays{Clock: r.clock},
		Events: r.events, Observe: r.syncs.Record,
	}
}

// gatherFacts reads the facts about a ClusterServiceVersion, unless the cache does not have its last write, or that of its
// OperatorGroup, yet.
func (r *csvController) gatherFacts(ctx context.Context, csv *v1alpha1.ClusterServiceVersion) (*facts, error) {
	if err := r.written.CheckOutdated(csv); err != nil {
		return nil, err
	}

	f, err := r.facts.gatherFacts(ctx, csv)
	if err == nil && f.members.Group != nil {
		if err := r.writtenGroups.CheckOutdated(f.members.Group); err != nil {
			return nil, err
		}
	}
	return f, err
}

// hasUnmetRequirements reports whether a ClusterServiceVersion that is not installed waits for its requirements. Its
// InstallPlan creates the ClusterServiceVersion first, and what it requires within a moment.
func hasUnmetRequirements(csv *v1alpha1.ClusterServiceVersion, _ error) bool {
	return csv.Status.Phase == v1alpha1.CSVPhasePending && csv.Status.Reason == v1alpha1.CSVReasonRequirementsNotMet
}

// execute carries a decision out. The result of an installation replaces the outcome.
func (r *csvController) execute(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, f *facts, d *decision) error {
	switch {
	case d.labels != nil || d.annotations != nil:
		return r.patchMetadata(ctx, csv, d)
	case d.providedAPIs != nil:
		return r.setProvidedAPIs(ctx, csv, f.members.Group, *d.providedAPIs)
	case d.deleteDeployments:
		return r.installer.deleteOwnedDeployments(ctx, csv)
	}

	switch d.Action {
	case DoInstall:
		d.Outcome, d.certificates = r.installer.attemptInstall(ctx, csv, f.members.Group)
	case DoDelete:
		same := client.Preconditions{UID: &csv.UID, ResourceVersion: &csv.ResourceVersion}
		if err := r.client.Delete(ctx, csv.DeepCopy(), same, client.PropagationPolicy("Background")); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
		}
	case DoNothing:
	}

	return d.Err
}

// patchMetadata sets the labels and annotations of a decision. The event of the change triggers the next pass.
func (r *csvController) patchMetadata(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, d *decision) error {
	changed := csv.DeepCopy()
	if d.labels != nil {
		changed.Labels = d.labels
	}
	if d.annotations != nil {
		changed.Annotations = d.annotations
	}
	if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(csv, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("updating the metadata of ClusterServiceVersion %s: %w", client.ObjectKeyFromObject(csv), err)
	}
	r.written.Add(changed)
	return nil
}

// setProvidedAPIs lists the APIs of a ClusterServiceVersion in the annotation of its group. Operators of one namespace that
// are installed at once do not write at the same time: all writes but one would be conflicts.
func (r *csvController) setProvidedAPIs(ctx context.Context, csv *v1alpha1.ClusterServiceVersion, g *operatorsv1.OperatorGroup, apis string) error {
	key := client.ObjectKeyFromObject(g).String()
	r.groupWrites.LockKey(key)
	defer func() { _ = r.groupWrites.UnlockKey(key) }() // The keys of all groups are known.
	if err := r.writtenGroups.CheckOutdated(g); err != nil {
		return err
	}

	changed := g.DeepCopy()
	changed.Annotations = csvinfo.MergeLabels(changed.Annotations, map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotation: apis})
	if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(g, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("listing the APIs of ClusterServiceVersion %s in OperatorGroup %s: %w", csv.Name, client.ObjectKeyFromObject(g), err)
	}
	r.writtenGroups.Add(changed)
	return nil
}

// report records the outcomes of a pass in the status, without the last one if that failed. It returns an event for each
// that changed the phase or the reason.
func (r *csvController) report(csv *v1alpha1.ClusterServiceVersion, _ *facts, d *decision, err error) []reconcile.Event {
	if d == nil {
		return nil
	}
	outcomes := d.passed
	if err == nil {
		outcomes = append(slices.Clone(outcomes), d.Outcome)
	}
	if err == nil && d.certificates != nil {
		updated, rotateAt := metav1.NewTime(d.certificates.updated), metav1.NewTime(d.certificates.rotateAt)
		csv.Status.CertsLastUpdated, csv.Status.CertsRotateAt = &updated, &rotateAt
	}

	var recorded []reconcile.Event
	for _, o := range outcomes {
		phase, reason := csv.Status.Phase, csv.Status.Reason
		if RecordOutcome(&csv.Status, o, r.clock.Now()) && (phase != o.Phase || reason != o.Reason) {
			recorded = append(recorded, reconcile.Event{Warning: o.Phase == v1alpha1.CSVPhaseFailed, Reason: o.Reason, Action: "Reconcile", Note: o.Message})
		}
	}
	return recorded
}

// countUpgrade counts a ClusterServiceVersion that has begun to be replaced.
func countUpgrade(csv, before *v1alpha1.ClusterServiceVersion) {
	if csv.Status.Phase == v1alpha1.CSVPhaseReplacing && before.Status.Phase != csv.Status.Phase {
		upgradeCounter.Inc()
	}
}
