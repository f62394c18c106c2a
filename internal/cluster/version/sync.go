package version

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/capability"
	"github.com/mainstay-dev/mainstay/internal/cluster/risk"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// maxConditionalUpdateRisks is the maximum length of status.conditionalUpdateRisks.
const maxConditionalUpdateRisks = 500

// syncResult is what remains to be done after the status was written.
type syncResult struct {
	// work is the work for the worker; nil if there is none yet.
	work *worker.Work
	// verified is true if a release with a verified signature was accepted.
	verified bool
}

// syncStatus determines the wanted release and the progress of the cluster, and sets the status
// of cv in memory. It requests the acceptance of a new release and updates the query of the
// update service.
func (c *Controller) syncStatus(ctx context.Context, cv *configv1.ClusterVersion) (syncResult, error) {
	p, err := c.observer.readPlatform(ctx)
	if err != nil {
		return syncResult{}, err
	}

	result := c.retrieveUpdates(cv, p)
	c.setAvailableUpdates(&cv.Status, result)
	// The available updates decide whether a version without an image is valid.
	valid, specErrs := validateSpec(cv)
	specErrs = append(specErrs, validateCapabilities(cv.Spec.Capabilities, p.featureGates[c.currentRelease(cv.Status).Version])...)

	conditions := c.newConditionSet(cv)
	conditions.setInvalidSpec(specErrs)
	conditions.setRetrievedUpdates(result)
	before := c.applied
	t := desiredTarget(cv, valid, c.operatorRelease(valid.Status), c.currentRelease(valid.Status))
	if t.Image == "" && c.applied == nil {
		conditions.setNoDesiredImage()
		cv.Status.History = recordHistory(cv.Status.History, releaseAttempt{}, conditions.now)
		cv.Status.Conditions = conditions.sorted()
		cv.Status.ObservedGeneration = cv.Generation
		return syncResult{}, nil
	}

	state := c.requestAcceptance(valid, t, p)
	conditions.setReleaseAccepted(state, c.currentRelease(configv1.ClusterVersionStatus{}), c.Architecture)
	s := syncResult{verified: c.applied != before && c.applied.Verified}
	var status worker.Status
	if c.applied != nil {
		s.work, status = c.reportAppliedRelease(cv, valid, conditions, p, result)
	}

	c.setProgressConditions(conditions, status, specErrs)
	risks, err := c.findUpdateRisks(ctx, cv, c.applied != nil && !status.Reconciling, status.Deleting)
	if upgradeable, ok := risk.Condition(risks, err); ok {
		conditions.set(upgradeable.Type, upgradeable.Status, upgradeable.Reason, upgradeable.Message)
	} else {
		conditions.remove(configv1.OperatorUpgradeable)
	}

	cv.Status.Conditions = conditions.sorted()
	cv.Status.ObservedGeneration = cv.Generation
	return s, nil
}

// setProgressConditions sets the conditions about the progress of the worker. Before the worker
// has any work, existing conditions are kept.
func (c *Controller) setProgressConditions(conditions *conditionSet, status worker.Status, specErrs field.ErrorList) {
	if c.applied == nil {
		for _, kind := range []string{configv1.OperatorAvailable, configv1.ClusterVersionFailing, configv1.OperatorProgressing} {
			if _, ok := conditions.get(kind); !ok {
				conditions.set(kind, metav1.ConditionFalse, "", "")
			}
		}
		return
	}

	conditions.setProgress(status, len(specErrs) > 0, c.Clock.Now())
}

// reportAppliedRelease writes what is known of the applied release to the status. It returns the
// work for the worker and the worker's status.
func (c *Controller) reportAppliedRelease(cv, valid *configv1.ClusterVersion, conditions *conditionSet, p platformConfig, result updates.Result) (*worker.Work, worker.Status) {
	actual := mergeReleaseMetadata(c.applied.Release, result.Current)
	status := c.Worker.Status()
	if status.Actual.Image != actual.Image {
		// The worker gets the release after the status is written.
		status = worker.Status{Actual: actual, Initial: c.applied.mode == release.Initializing, Reconciling: c.applied.mode == release.Reconciling}
	} else {
		cv.Status.VersionHash = status.VersionHash
	}

	resolved := c.resolveCapabilities(valid, p.featureGates[actual.Version])
	conditions.setImplicitCapabilities(resolved.Implicit)
	cv.Status.Capabilities = capability.Status(resolved.Capabilities)
	cv.Status.Desired = actual
	cv.Status.History = recordHistory(cv.Status.History, releaseAttempt{
		Release: actual, complete: status.Completed > 0, isRecorded: c.applied.isRecorded, verified: c.applied.Verified, risks: c.applied.Risks,
	}, conditions.now)

	return &worker.Work{
		Generation: cv.Generation, Owner: newOwnerReference(cv),
		Desired: actual, Payload: c.applied.Payload, Cluster: p.releaseCluster(actual.Version, c.Profile, c.ExcludeIdentifier),
		Capabilities: resolved.Capabilities, Overrides: valid.Spec.Overrides, State: c.applied.mode,
		Verified: c.applied.Verified, AcceptedRisks: c.applied.Risks,
	}, status
}

func newOwnerReference(cv *configv1.ClusterVersion) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: configv1.GroupVersion.String(), Kind: configv1.ClusterVersionKind, Name: cv.Name, UID: cv.UID, Controller: ptr.To(true),
	}
}

// retrieveUpdates sets the query of the update service's client and returns its latest result.
// The query uses the risks and architecture of spec.desiredUpdate even if it is invalid:
// available updates may make it valid.
func (c *Controller) retrieveUpdates(cv *configv1.ClusterVersion, p platformConfig) updates.Result {
	current := c.currentRelease(cv.Status)
	if current.Version == "" {
		return updates.Result{}
	}

	valid, _ := validateSpec(cv)
	query := updates.Query{
		Upstream: updates.Upstream(c.UpdateService, valid.Spec.Upstream), Channel: valid.Spec.Channel, ClusterID: valid.Spec.ClusterID,
		Version: current.Version, Image: current.Image, Architecture: c.Architecture, Trust: p.caBundle, Proxy: p.proxy,
	}
	if current.Architecture != "" {
		query.Architecture = string(current.Architecture)
	}

	if update := cv.Spec.DesiredUpdate; update != nil {
		query.WantMulti = update.Architecture == configv1.ClusterVersionArchitectureMulti
		for _, accepted := range update.AcceptRisks {
			query.AcceptedRisks = append(query.AcceptedRisks, accepted.Name)
		}
	}

	c.Updates.Set(query, valid.Status.ConditionalUpdates)
	return c.Updates.Result()
}

// setAvailableUpdates writes the result of the update service to the status. Until the service
// was queried, the status does not change.
func (c *Controller) setAvailableUpdates(status *configv1.ClusterVersionStatus, result updates.Result) {
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
