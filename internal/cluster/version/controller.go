// Package version reconciles the ClusterVersion. It determines the wanted release, has it
// accepted, passes it to the worker that applies it, and reports the progress of the cluster.
//
// A pass of the controller gathers facts, decides in a pure function, and executes the decision. It
// applies no manifests itself.
package version

import (
	"context"
	"io/fs"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Resync intervals of the ClusterVersion: right after the first release was completed; while a
// release is applied or something fails, because messages contain durations; and otherwise.
const (
	immediateRequeueInterval  = time.Millisecond
	progressingResyncInterval = 15 * time.Second
	steadyResyncInterval      = 2 * time.Minute
)

// logAbsenceInterval is the minimum interval between log messages about a missing
// ClusterVersion.
const logAbsenceInterval = 5 * time.Minute

// Own is the release that the operator belongs to.
type Own struct {
	// Image is the pull spec of the release. Empty means that it is not known.
	Image string
	// Files is the content of the release image, when the operator runs in it. It is trusted, and
	// nothing is pulled. Nil means that the operator is not part of a release image: Image is
	// then the first release of a cluster that has none.
	Files fs.FS
}

// Worker applies releases.
type Worker interface {
	// Update passes work to the worker, which ignores work that is equal to that of the last call.
	Update(worker.Work)
	Status() worker.Status
}

// Updates is a client of the update service.
type Updates interface {
	Set(q updates.Query, known []configv1.ConditionalUpdate)
	Result() updates.Result
}

// Acceptor verifies and loads releases, and checks their preconditions.
type Acceptor interface {
	SetRequest(acceptance.Request) acceptance.State
	RetryNow()
	// Cancel removes the request, if there is one.
	Cancel()
}

// Trust returns verifiers for the signatures of releases.
type Trust interface {
	// Verifier returns the verifier that the payload configures, using the manifests that belong
	// to the cluster. Stores that are not nil replace those of the payload. The verifier of a nil
	// payload trusts nothing.
	Verifier(payload *release.Payload, cluster release.Cluster, stores []configv1.SignatureStore, proxy updates.Proxy, authorities []byte) acceptance.Verifier
	// StoreSignatures stores the valid signatures in the cluster, for clusters that lose their network.
	StoreSignatures(ctx context.Context) error
}

// Settings determine decisions.
type Settings struct {
	// UpdateService takes precedence over spec.upstream. Empty means that spec.upstream is used.
	UpdateService string
	// AlwaysEnable are capabilities that are enabled in every cluster.
	AlwaysEnable []string
	// Profile and ExcludeIdentifier select the manifests that belong to the cluster.
	Profile, ExcludeIdentifier string
	// Architecture is the architecture of this process, as a GOARCH value.
	Architecture string
	// AutoUpdate makes the cluster request the highest available update automatically.
	AutoUpdate bool
}

// Options are the dependencies and settings of a Controller.
type Options struct {
	Settings

	// Own is the release that the operator belongs to.
	Own Own
	// Worker, Updates, Acceptor and Trust are the components that the controller coordinates.
	Worker   Worker
	Updates  Updates
	Acceptor Acceptor
	Trust    Trust
	// OnAccepted is called with each release that is passed to the worker. It may be nil.
	OnAccepted func(image string, created metav1.Time)
	// Clock is the source of time. Nil means the real clock.
	Clock clock.WithTicker
}

// Controller reconciles the ClusterVersion. Reconcile must not be called concurrently.
type Controller struct {
	Options

	client   client.Client
	observer *platformObserver
	risks    riskReader
	statuses statusWriter
	memory   memory
}

// memory is what a pass can derive neither from the ClusterVersion nor from the components.
type memory struct {
	// releases are the release of the operator and the accepted one. The content of a release is
	// not in the cluster, and reading it again costs a pull.
	releases releases
	// failures is the number of consecutive failed passes. They are counted here because a pass
	// can fail to write the status.
	failures int
	// absenceLoggedAt is when the log last reported a missing ClusterVersion: there is no object
	// whose status could record it.
	absenceLoggedAt time.Time
}

// New returns a controller. c reads ClusterVersion and ClusterOperators, and gates reads the
// ConfigMaps of gates; both may read from caches. reader reads from the API server.
func New(c client.Client, gates, reader client.Reader, o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	return &Controller{
		Options: o, client: c, observer: &platformObserver{reader: reader, clock: o.Clock},
		risks:    riskReader{operators: c, gates: gates, server: reader},
		statuses: statusWriter{client: c, reader: reader},
		memory:   memory{releases: releases{own: ownRelease(o.Own, o.Architecture), isInImage: o.Own.Files != nil}},
	}
}

// ownRelease returns the release of the operator, as far as its files describe it.
func ownRelease(own Own, architecture string) configv1.Release {
	if own.Files == nil {
		return configv1.Release{Image: own.Image}
	}

	// Acceptance validates the rest of the files later.
	data, err := fs.ReadFile(own.Files, release.FileMetadata)
	if err != nil {
		return configv1.Release{Image: own.Image}
	}

	metadata, err := release.ParseMetadata(data)
	if err != nil {
		return configv1.Release{Image: own.Image}
	}

	return acceptance.ReleaseOf(&release.Payload{Metadata: metadata}, own.Image, architecture)
}

// Reconcile runs one pass over the ClusterVersion.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	controller := reconcile.KeyReconciler[*facts, *decision]{
		Gather:      c.gatherFacts,
		Decide:      func(f *facts) *decision { return decidePass(f, c.Settings) },
		Execute:     c.executeDecision,
		ResyncAfter: func(_ *facts, d *decision) time.Duration { return d.requeueAfter },
	}

	return controller.Reconcile(ctx, req)
}

// gatherFacts reads the ClusterVersion and what its status depends on. It asks the update service
// for the updates of the cluster, and the acceptor for the wanted release. An error after the
// ClusterVersion was read is a fact, because the status may have to report it.
func (c *Controller) gatherFacts(ctx context.Context, key types.NamespacedName) (*facts, error) {
	f := &facts{name: key.Name, now: metav1.NewTime(c.Clock.Now()), memory: c.memory}
	cv := &configv1.ClusterVersion{}
	err := c.client.Get(ctx, key, cv)
	switch {
	case apierrors.IsNotFound(err):
		return f, nil
	case err != nil:
		return f, err
	}

	f.cv = cv
	if f.platform, f.err = c.observer.readPlatform(ctx); f.err != nil {
		return f, nil //nolint:nilerr // the error is a fact
	}

	if query, ok := updateQuery(f, c.Settings); ok {
		valid, _ := validateSpec(cv)
		c.Updates.Set(query, valid.Status.ConditionalUpdates)
		f.updates = c.Updates.Result()
	}

	f.plan = planTarget(f)
	if !f.plan.hasTarget {
		return f, nil
	}

	if f.plan.needsAcceptance {
		state := c.Acceptor.SetRequest(c.newAcceptanceRequest(f))
		f.acceptance = &state
	}

	f.next = acceptRelease(f, c.Settings)
	f.worker = c.Worker.Status()
	f.risks, f.risksError = c.risks.findUpdateRisks(ctx, updateRisks(f), f.isAwaitingAcceptance())
	return f, nil
}

// newAcceptanceRequest returns the request for the planned target. Signatures are verified with
// what the applied release trusts.
func (c *Controller) newAcceptanceRequest(f *facts) acceptance.Request {
	request := acceptanceRequest(f, c.Settings)
	known, valid := f.memory.releases, f.plan.valid
	trusted := c.selectCluster(f.platform, known.currentRelease(valid.Status).Version)
	request.Verifier = c.Trust.Verifier(known.appliedPayload(), trusted, valid.Spec.SignatureStores, f.platform.proxy, f.platform.caBundle)
	return request
}

// executeDecision records an accepted release in the status before it passes the release to the
// worker. An operator that restarts in between then starts with this release. A pass that cannot
// write the status leaves no trace, and the next one decides the same again.
func (c *Controller) executeDecision(ctx context.Context, f *facts, d *decision) error {
	switch {
	case f.cv == nil:
		c.logMissingVersion(ctx, f, d)
		return nil
	case f.err != nil:
		return c.recordFailure(ctx, f.cv, f.err)
	}

	if err := c.statuses.writeStatus(ctx, f.cv, d.after); err != nil {
		return c.recordFailure(ctx, f.cv, err)
	}

	c.memory.failures = 0
	c.memory.releases = d.releases
	if d.accepted != nil && c.OnAccepted != nil {
		c.OnAccepted(d.accepted.Release.Image, d.accepted.Payload.Images.Created)
	}
	if d.cancelAcceptance {
		c.Acceptor.Cancel()
	}
	if d.work != nil {
		c.Worker.Update(*d.work)
	}

	if d.accepted != nil && d.accepted.Verified {
		if err := c.Trust.StoreSignatures(ctx); err != nil {
			log.FromContext(ctx).Info("Failed to store the signatures of the release", "error", err.Error())
		}
	}

	if err := c.requestNextUpdate(ctx, d); err != nil {
		return err
	}
	if d.retryAcceptance {
		c.Acceptor.RetryNow()
	}

	return nil
}

// logMissingVersion logs that there is no ClusterVersion, and how to create one. The rate is limited,
// because every watched change leads to a pass.
func (c *Controller) logMissingVersion(ctx context.Context, f *facts, d *decision) {
	if !d.logAbsence {
		return
	}
	c.memory.absenceLoggedAt = f.now.Time
	log.FromContext(ctx).Info("There is no ClusterVersion, so no release is applied. Create one with 'mainstay cluster init'", "clusterVersion", f.name)
}
