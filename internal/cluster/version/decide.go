package version

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/capability"
	"github.com/mainstay-dev/mainstay/internal/cluster/risk"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// maxConditionalUpdateRisks is the maximum length of status.conditionalUpdateRisks.
const maxConditionalUpdateRisks = 500

// facts are what a decision depends on.
type facts struct {
	// name is that of the ClusterVersion.
	name string
	now  metav1.Time
	// cv is the ClusterVersion as it was read; nil if there is none.
	cv *configv1.ClusterVersion
	// memory is what earlier passes have left.
	memory memory
	// err is why the facts that follow are not known.
	err      error
	platform platformConfig
	// updates is the latest result of the update service.
	updates updates.Result
	plan    plan
	// acceptance is the progress of the target's acceptance; nil if none was requested. The facts
	// that follow are only known if there is a target.
	acceptance *acceptance.State
	// next are the releases after this pass.
	next   releases
	worker worker.Status
	// risks are those of a minor update, if risksError is nil.
	risks      []risk.Risk
	risksError error
}

// isAwaitingAcceptance reports whether a release was requested that is not accepted yet.
func (f *facts) isAwaitingAcceptance() bool {
	return f.acceptance != nil && f.acceptance.Accepted == nil
}

// isNewlyAccepted reports whether this pass has accepted a release.
func (f *facts) isNewlyAccepted() bool { return f.next.applied != f.memory.releases.applied }

// plan is what the spec and the available updates ask for.
type plan struct {
	// cv is the ClusterVersion with the available updates in its status.
	cv *configv1.ClusterVersion
	// valid is cv without the invalid fields of its spec, and specErrs are their errors.
	valid    *configv1.ClusterVersion
	specErrs field.ErrorList
	// target is the wanted release. If hasTarget is false, there is none, and no release is applied.
	target    target
	hasTarget bool
	// needsAcceptance is true if the target must be accepted before it is applied.
	needsAcceptance bool
}

// planTarget determines the wanted release. The available updates decide whether a version
// without an image is valid.
func planTarget(f *facts) plan {
	p := plan{cv: f.cv.DeepCopy()}
	setAvailableUpdates(&p.cv.Status, f.updates)
	known := f.memory.releases
	p.valid, p.specErrs = validateSpec(p.cv)
	p.specErrs = append(p.specErrs, validateCapabilities(p.cv.Spec.Capabilities, f.platform.featureGates[known.currentRelease(p.cv.Status).Version])...)
	p.target = desiredTarget(p.cv, p.valid, known.operatorRelease(p.valid.Status), known.currentRelease(p.valid.Status))
	p.hasTarget = p.target.Image != "" || known.applied != nil
	switch {
	case known.applied == nil:
		p.needsAcceptance = p.hasTarget
		p.target = initialTarget(p.valid.Status, known.operatorRelease(p.valid.Status), p.target)
	case p.target.matchesRelease(known.applied.Release):
	default:
		// The installation must complete before any other release is applied.
		p.needsAcceptance = hasCompletedUpdate(p.valid.Status.History)
	}

	return p
}

// updateQuery returns the query for the update service. It returns false while no release is
// known. The query uses the risks and architecture of spec.desiredUpdate even if it is invalid:
// available updates may make it valid.
func updateQuery(f *facts, s Settings) (updates.Query, bool) {
	current := f.memory.releases.currentRelease(f.cv.Status)
	if current.Version == "" {
		return updates.Query{}, false
	}

	valid, _ := validateSpec(f.cv)
	query := updates.Query{
		Upstream: updates.Upstream(s.UpdateService, valid.Spec.Upstream), Channel: valid.Spec.Channel, ClusterID: valid.Spec.ClusterID,
		Version: current.Version, Image: current.Image, Architecture: s.Architecture, Trust: f.platform.caBundle, Proxy: f.platform.proxy,
	}
	if current.Architecture != "" {
		query.Architecture = string(current.Architecture)
	}

	if update := f.cv.Spec.DesiredUpdate; update != nil {
		query.WantMulti = update.Architecture == configv1.ClusterVersionArchitectureMulti
		for _, accepted := range update.AcceptRisks {
			query.AcceptedRisks = append(query.AcceptedRisks, accepted.Name)
		}
	}

	return query, true
}

// decision is what a pass does.
type decision struct {
	// after is the ClusterVersion with its next status.
	after *configv1.ClusterVersion
	// releases are the releases to remember.
	releases releases
	// accepted is the release that this pass has accepted; nil for none.
	accepted *appliedRelease
	// work is the work for the worker; nil if there is none yet.
	work *worker.Work
	// cancelAcceptance removes the request of a release that is accepted or no longer wanted.
	cancelAcceptance bool
	// retryAcceptance retries a rejected release, because the reason may no longer exist.
	retryAcceptance bool
	// nextUpdate is the update that is requested automatically; nil for none.
	nextUpdate *configv1.Update
	// logAbsence logs that there is no ClusterVersion.
	logAbsence   bool
	requeueAfter time.Duration
}

// decidePass decides what a pass does.
func decidePass(f *facts, s Settings) *decision {
	switch {
	case f.cv == nil:
		last := f.memory.absenceLoggedAt
		return &decision{logAbsence: last.IsZero() || f.now.Sub(last) >= logAbsenceInterval, requeueAfter: logAbsenceInterval}
	case f.err != nil:
		return &decision{}
	}

	d := &decision{after: f.plan.cv.DeepCopy(), releases: f.memory.releases}
	conditions := newConditionSet(f.cv, f.now.Time)
	conditions.setInvalidSpec(f.plan.specErrs)
	conditions.setRetrievedUpdates(f.updates)
	if f.plan.hasTarget {
		d.reportRelease(f, s, conditions)
	} else {
		conditions.setNoDesiredImage()
		d.after.Status.History = recordHistory(d.after.Status.History, releaseAttempt{}, conditions.now)
	}

	d.after.Status.Conditions = conditions.sorted()
	d.after.Status.ObservedGeneration = f.cv.Generation
	if s.AutoUpdate {
		d.nextUpdate = automaticUpdate(d.after)
	}

	d.retryAcceptance = f.isAwaitingAcceptance() && mayAffectAcceptance(f.cv, d.after)
	d.requeueAfter = resyncInterval(d.after)
	if !hasCompletedUpdate(f.cv.Status.History) && hasCompletedUpdate(d.after.Status.History) {
		d.requeueAfter = immediateRequeueInterval // Requests made during the installation are handled now.
	}

	return d
}

// reportRelease sets the status of a cluster that has a wanted or an applied release, and the work
// for the worker.
func (d *decision) reportRelease(f *facts, s Settings, conditions *conditionSet) {
	d.releases = f.next
	d.cancelAcceptance = !f.isAwaitingAcceptance()
	if f.isNewlyAccepted() {
		d.accepted = f.next.applied
	}

	conditions.setReleaseAccepted(f.acceptance, f.next.currentRelease(configv1.ClusterVersionStatus{}), s.Architecture)
	if f.next.applied == nil {
		conditions.setNoProgress()
	} else {
		d.reportAppliedRelease(f, s, conditions)
		conditions.setProgress(reportedWorker(f), len(f.plan.specErrs) > 0, f.now.Time)
	}

	if upgradeable, ok := risk.Condition(f.risks, f.risksError); ok {
		conditions.set(upgradeable.Type, upgradeable.Status, upgradeable.Reason, upgradeable.Message)
	} else {
		conditions.remove(configv1.OperatorUpgradeable)
	}
}

// reportAppliedRelease sets what is known of the applied release in the status, and the work for
// the worker.
func (d *decision) reportAppliedRelease(f *facts, s Settings, conditions *conditionSet) {
	applied, valid, actual := f.next.applied, f.plan.valid, actualRelease(f)
	reported, status := reportedWorker(f), &d.after.Status
	if f.isWorkerCurrent() {
		status.VersionHash = reported.VersionHash
	}

	resolved := s.resolveCapabilities(valid, f.platform.featureGates[actual.Version], applied.implicitCapabilities)
	conditions.setImplicitCapabilities(resolved.Implicit)
	status.Capabilities = capability.Status(resolved.Capabilities)
	status.Desired = actual
	status.History = recordHistory(status.History, releaseAttempt{
		Release: actual, complete: reported.Completed > 0, isRecorded: applied.isRecorded, verified: applied.Verified, risks: applied.Risks,
	}, conditions.now)

	d.work = &worker.Work{
		Generation: f.cv.Generation, Owner: newOwnerReference(f.cv),
		Desired: actual, Payload: applied.Payload, Cluster: s.selectCluster(f.platform, actual.Version),
		Capabilities: resolved.Capabilities, Overrides: valid.Spec.Overrides, State: applied.mode,
		Verified: applied.Verified, AcceptedRisks: applied.Risks,
	}
}

// actualRelease returns the applied release with the metadata of the update service.
func actualRelease(f *facts) configv1.Release {
	return mergeReleaseMetadata(f.next.applied.Release, f.updates.Current)
}

// isWorkerCurrent reports whether the worker has the applied release already. Otherwise it gets the
// release after the status is written.
func (f *facts) isWorkerCurrent() bool { return f.worker.Actual.Image == actualRelease(f).Image }

// reportedWorker returns the status of the worker, or the status that it begins the applied release
// with.
func reportedWorker(f *facts) worker.Status {
	if f.isWorkerCurrent() {
		return f.worker
	}
	mode := f.next.applied.mode
	return worker.Status{Actual: actualRelease(f), Initial: mode == release.Initializing, Reconciling: mode == release.Reconciling}
}

// updateRisks returns what the risks of a minor update depend on, besides ClusterOperators and
// gates.
func updateRisks(f *facts) risk.Input {
	in := risk.Input{Version: f.cv.Status.Desired.Version, Overrides: f.cv.Spec.Overrides}
	if f.next.applied == nil {
		return in
	}

	status := reportedWorker(f)
	in.Version = actualRelease(f).Version
	in.Updating = !status.Reconciling
	in.Deletions = status.Deleting
	return in
}

// resolveCapabilities returns the capabilities of the cluster for the given enabled feature
// gates.
func (s Settings) resolveCapabilities(cv *configv1.ClusterVersion, gates sets.Set[string], implicit []string) capability.Resolved {
	wanted := capability.Wanted(cv.Spec.Capabilities, gates, s.AlwaysEnable...)
	return capability.Resolve(capability.Known(gates), wanted, capability.EnabledInStatus(cv.Status.Capabilities), sets.List(sets.New(implicit...)))
}

// selectCluster returns the properties of the cluster that select the manifests of a release.
func (s Settings) selectCluster(p platformConfig, version string) release.Cluster {
	return p.releaseCluster(version, s.Profile, s.ExcludeIdentifier)
}

func newOwnerReference(cv *configv1.ClusterVersion) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: configv1.GroupVersion.String(), Kind: configv1.ClusterVersionKind, Name: cv.Name, UID: cv.UID, Controller: ptr.To(true),
	}
}

// setAvailableUpdates writes the result of the update service to the status. Until the service
// was queried, the status does not change.
func setAvailableUpdates(status *configv1.ClusterVersionStatus, result updates.Result) {
	if result.Status == "" {
		return
	}
	status.AvailableUpdates = result.Available
	status.ConditionalUpdates = result.Conditional
	status.ConditionalUpdateRisks = collectUniqueRisks(result.Conditional)
}

// collectUniqueRisks returns the risks of conditional updates, each once and sorted by name.
func collectUniqueRisks(conditional []configv1.ConditionalUpdate) []configv1.ConditionalUpdateRisk {
	var all []configv1.ConditionalUpdateRisk
	for _, update := range conditional {
		all = append(all, update.Risks...)
	}
	slices.SortStableFunc(all, func(a, b configv1.ConditionalUpdateRisk) int { return strings.Compare(a.Name, b.Name) })
	all = slices.CompactFunc(all, func(a, b configv1.ConditionalUpdateRisk) bool { return a.Name == b.Name })
	return all[:min(len(all), maxConditionalUpdateRisks)]
}

// mayAffectAcceptance reports whether the spec or the Upgradeable condition changed, so that a
// rejected release may be accepted now.
func mayAffectAcceptance(before, after *configv1.ClusterVersion) bool {
	was := conditionSet{all: before.Status.Conditions}
	is := conditionSet{all: after.Status.Conditions}
	a, _ := was.get(configv1.OperatorUpgradeable)
	b, _ := is.get(configv1.OperatorUpgradeable)
	return a.Status != b.Status || a.Message != b.Message || before.Generation != before.Status.ObservedGeneration
}

// resyncInterval returns the interval until the next reconciliation.
func resyncInterval(cv *configv1.ClusterVersion) time.Duration {
	c := conditionSet{all: cv.Status.Conditions}
	progressing, _ := c.get(configv1.OperatorProgressing)
	failing, _ := c.get(configv1.ClusterVersionFailing)
	if progressing.Status == metav1.ConditionFalse && failing.Status == metav1.ConditionFalse {
		return steadyResyncInterval
	}
	return progressingResyncInterval
}
