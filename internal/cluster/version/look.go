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

// maxRisks is how many risks of conditional updates are listed beside them.
const maxRisks = 500

// seen is what follows from a look at the ClusterVersion, to be done after the status is
// written.
type seen struct {
	// work is for the worker; nil when there is none yet.
	work *worker.Work
	// verified says that a release was taken whose signature was verified.
	verified bool
}

// look finds out what is wanted and how far the cluster is, and writes it into the status of
// the object that it is given.
func (c *Controller) look(ctx context.Context, cv *configv1.ClusterVersion) (seen, error) {
	p, err := c.observer.platform(ctx)
	if err != nil {
		return seen{}, err
	}

	result := c.retrieved(cv, p)
	c.offer(&cv.Status, result)
	// What is offered decides whether a version without an image is valid.
	valid, wrong := validate(cv)
	wrong = append(wrong, validateCapabilities(cv.Spec.Capabilities, p.gates[c.current(cv.Status).Version])...)

	conditions := c.conditions(cv)
	conditions.setSpec(wrong)
	conditions.setRetrieved(result)
	before := c.applied
	t := wanted(cv, valid, c.ownRelease(valid.Status), c.current(valid.Status))
	if t.Image == "" && c.applied == nil {
		conditions.setNoImage()
		cv.Status.History = record(cv.Status.History, attempt{}, conditions.now)
		cv.Status.Conditions, cv.Status.ObservedGeneration = conditions.sorted(), cv.Generation
		return seen{}, nil
	}

	state := c.pursue(valid, t, p)
	conditions.setAccepted(state, c.current(configv1.ClusterVersionStatus{}), c.Architecture)
	s := seen{verified: c.applied != before && c.applied.Verified}
	var status worker.Status
	if c.applied != nil {
		s.work, status = c.report(cv, valid, conditions, p, result)
	}

	c.progress(conditions, status, wrong)
	risks, err := c.risks(ctx, cv, c.applied != nil && !status.Reconciling, status.Deleting)
	if upgradeable, ok := risk.Condition(risks, err); ok {
		conditions.set(upgradeable.Type, upgradeable.Status, upgradeable.Reason, upgradeable.Message)
	} else {
		conditions.remove(configv1.OperatorUpgradeable)
	}

	cv.Status.Conditions, cv.Status.ObservedGeneration = conditions.sorted(), cv.Generation
	return s, nil
}

// progress tells how far the worker is. Before it was given anything there is nothing to
// tell but what was told before.
func (c *Controller) progress(conditions *conditions, status worker.Status, wrong field.ErrorList) {
	if c.applied == nil {
		for _, kind := range []string{configv1.OperatorAvailable, configv1.ClusterVersionFailing, configv1.OperatorProgressing} {
			if _, ok := conditions.get(kind); !ok {
				conditions.set(kind, metav1.ConditionFalse, "", "")
			}
		}
		return
	}

	conditions.setProgress(status, len(wrong) > 0, c.Clock.Now())
}

// report writes what is known of the applied release, and gives the worker's work and how
// far it is.
func (c *Controller) report(cv, valid *configv1.ClusterVersion, conditions *conditions, p platform, result updates.Result) (*worker.Work, worker.Status) {
	told := merged(c.applied.Release, result.Current)
	status := c.Worker.Status()
	if status.Actual.Image != told.Image {
		// The worker gets it once this is written.
		status = worker.Status{Actual: told, Initial: c.applied.state == release.Initializing, Reconciling: c.applied.state == release.Reconciling}
	} else {
		cv.Status.VersionHash = status.VersionHash
	}

	resolved := c.capabilities(valid, p.gates[told.Version])
	conditions.setCapabilities(resolved.Implicit)
	cv.Status.Capabilities = capability.Status(resolved.Capabilities)
	cv.Status.Desired = told
	cv.Status.History = record(cv.Status.History, attempt{
		Release: told, complete: status.Completed > 0, isKnown: c.applied.isKnown, verified: c.applied.Verified, risks: c.applied.Risks,
	}, conditions.now)

	return &worker.Work{
		Generation: cv.Generation, Owner: ownerOf(cv),
		Desired: told, Payload: c.applied.Payload, Cluster: p.cluster(told.Version, c.Profile, c.ExcludeIdentifier),
		Capabilities: resolved.Capabilities, Overrides: valid.Spec.Overrides, State: c.applied.state,
		Verified: c.applied.Verified, AcceptedRisks: c.applied.Risks,
	}, status
}

func ownerOf(cv *configv1.ClusterVersion) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: configv1.GroupVersion.String(), Kind: configv1.ClusterVersionKind, Name: cv.Name, UID: cv.UID, Controller: ptr.To(true),
	}
}

// retrieved tells the update service's client what to ask, and gives what it knows. What
// the spec says of the wanted update counts though it is not valid: it may become so by what
// the update service offers then.
func (c *Controller) retrieved(cv *configv1.ClusterVersion, p platform) updates.Result {
	current := c.current(cv.Status)
	if current.Version == "" {
		return updates.Result{}
	}

	valid, _ := validate(cv)
	query := updates.Query{
		Upstream: updates.Upstream(c.UpdateService, valid.Spec.Upstream), Channel: valid.Spec.Channel, ClusterID: valid.Spec.ClusterID,
		Version: current.Version, Image: current.Image, Architecture: c.Architecture, Trust: p.trust, Proxy: p.proxy,
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

// offer writes the updates that the update service offers. Those of a status stay until it
// was asked.
func (c *Controller) offer(status *configv1.ClusterVersionStatus, result updates.Result) {
	if result.Status == "" {
		return
	}
	status.AvailableUpdates, status.ConditionalUpdates = result.Available, result.Conditional
	status.ConditionalUpdateRisks = risksOf(result.Conditional)
}

// risksOf returns the risks of updates, each once, by name.
func risksOf(conditional []configv1.ConditionalUpdate) []configv1.ConditionalUpdateRisk {
	var all []configv1.ConditionalUpdateRisk
	for _, update := range conditional {
		all = append(all, update.Risks...)
	}
	slices.SortStableFunc(all, func(a, b configv1.ConditionalUpdateRisk) int { return strings.Compare(a.Name, b.Name) })
	all = slices.CompactFunc(all, func(a, b configv1.ConditionalUpdateRisk) bool { return a.Name == b.Name })
	return all[:min(len(all), maxRisks)]
}
