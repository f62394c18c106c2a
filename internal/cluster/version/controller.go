// Package version reconciles the ClusterVersion. It determines the wanted release, has it
// accepted, passes it to the worker that applies it, and reports the progress of the cluster.
//
// It applies no manifests itself. Decisions are made by functions that have no side effects.
package version

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cluster/acceptance"
	"github.com/mainstay-dev/mainstay/internal/cluster/updates"
	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
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

// maxUnreportedFailures is the number of consecutive failed reconciliations after which the
// ClusterVersion reports the error.
const maxUnreportedFailures = 15

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

// Options are the dependencies and settings of a Controller.
type Options struct {
	// Own is the release that the operator belongs to.
	Own Own
	// Worker, Updates, Acceptor and Trust are the components that the controller coordinates.
	Worker   Worker
	Updates  Updates
	Acceptor Acceptor
	Trust    Trust
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
	// OnAccepted is called with each release that is passed to the worker. It may be nil.
	OnAccepted func(image string, created metav1.Time)
	// Clock is the source of time. Nil means the real clock.
	Clock clock.WithTicker
}

// Controller reconciles the ClusterVersion. Reconcile must not be called concurrently.
type Controller struct {
	Options

	// client reads ClusterVersion and ClusterOperators from a cache, and writes. gates reads the
	// ConfigMaps of gates. reader reads from the API server.
	client   client.Client
	gates    client.Reader
	reader   client.Reader
	observer *platformObserver

	own                  configv1.Release
	applied              *appliedRelease
	isAwaitingAcceptance bool
	// lastWork is the work that was last passed to the worker.
	lastWork *worker.Work
	// implicitCapabilities are the capabilities that the applied release enabled implicitly.
	implicitCapabilities []string
	failures             int
	// absenceLoggedAt is when the log last reported a missing ClusterVersion.
	absenceLoggedAt time.Time
}

// New returns a controller. c reads ClusterVersion and ClusterOperators, and gates reads the
// ConfigMaps of gates; both may read from caches. reader reads from the API server.
func New(c client.Client, gates, reader client.Reader, o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	controller := &Controller{
		Options: o, client: c, gates: gates, reader: reader, observer: &platformObserver{reader: reader, clock: o.Clock}, own: configv1.Release{Image: o.Own.Image},
	}
	if o.Own.Files == nil {
		return controller
	}

	// Acceptance validates the rest of the files later.
	if data, err := fs.ReadFile(o.Own.Files, release.FileMetadata); err == nil {
		if metadata, err := release.ParseMetadata(data); err == nil {
			controller.own = acceptance.ReleaseOf(&release.Payload{Metadata: metadata}, o.Own.Image, o.Architecture)
		}
	}

	return controller
}

// Reconcile syncs the ClusterVersion. It records an accepted release in the status before it
// passes the release to the worker. An operator that restarts in between then starts with this
// release.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cv := &configv1.ClusterVersion{}
	err := c.client.Get(ctx, req.NamespacedName, cv)
	if apierrors.IsNotFound(err) {
		c.logMissingVersion(ctx, req.Name)
		return ctrl.Result{RequeueAfter: logAbsenceInterval}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}

	before := cv.DeepCopy()
	synced, err := c.syncStatus(ctx, cv)
	if err != nil {
		return ctrl.Result{}, c.recordFailure(ctx, before, err)
	}
	if err := c.writeStatus(ctx, before, cv); err != nil {
		return ctrl.Result{}, c.recordFailure(ctx, before, err)
	}

	c.failures = 0
	if synced.work != nil && !isSameWork(c.lastWork, synced.work) {
		c.Worker.Update(*synced.work)
		c.lastWork = synced.work
	}

	if synced.verified {
		if err := c.Trust.StoreSignatures(ctx); err != nil {
			log.FromContext(ctx).Info("Failed to store the signatures of the release", "error", err.Error())
		}
	}

	if err := c.requestNextUpdate(ctx, cv); err != nil {
		return ctrl.Result{}, err
	}
	if c.isAwaitingAcceptance && mayAffectAcceptance(before, cv) {
		c.Acceptor.RetryNow()
	}
	if !hasCompletedUpdate(before.Status.History) && hasCompletedUpdate(cv.Status.History) {
		// Requests made during the installation are handled now.
		return ctrl.Result{RequeueAfter: immediateRequeueInterval}, nil
	}

	return ctrl.Result{RequeueAfter: resyncInterval(cv)}, nil
}

// logMissingVersion logs that there is no ClusterVersion, and how to create one. It limits the rate,
// because every watched change leads to a Reconcile.
func (c *Controller) logMissingVersion(ctx context.Context, name string) {
	now := c.Clock.Now()
	if !c.absenceLoggedAt.IsZero() && now.Sub(c.absenceLoggedAt) < logAbsenceInterval {
		return
	}
	c.absenceLoggedAt = now
	log.FromContext(ctx).Info("There is no ClusterVersion, so no release is applied. Create one with 'mainstay cluster init'", "clusterVersion", name)
}

// isSameWork reports whether next equals the work that was last passed to the worker.
func isSameWork(given, next *worker.Work) bool {
	if given == nil || given.Payload != next.Payload {
		return false
	}
	a, b := *given, *next
	a.Payload, b.Payload = nil, nil
	return equality.Semantic.DeepEqual(a, b)
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

// recordFailure counts a failed reconciliation and returns its error. After several consecutive
// failures it also reports the error in the status.
func (c *Controller) recordFailure(ctx context.Context, before *configv1.ClusterVersion, err error) error {
	if apierrors.IsConflict(err) {
		return err // The next reconciliation reads the changed object.
	}
	if c.failures++; c.failures < maxUnreportedFailures {
		return err
	}

	after := before.DeepCopy()
	conditions := c.newConditionSet(after)
	conditions.setSyncFailed(err)
	after.Status.Conditions = conditions.sorted()
	if writing := c.writeStatus(ctx, before, after); writing != nil {
		return fmt.Errorf("%w; reporting this in the status: %w", err, writing)
	}

	return err
}

func (c *Controller) newConditionSet(cv *configv1.ClusterVersion) *conditionSet {
	return &conditionSet{all: cv.DeepCopy().Status.Conditions, now: metav1.NewTime(c.Clock.Now()).Rfc3339Copy()}
}

// writeStatus writes the status if it changed. No other client writes it, so after a conflict it
// is written again to the latest object, unless that object was recreated.
func (c *Controller) writeStatus(ctx context.Context, before, after *configv1.ClusterVersion) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}

	err := c.client.Status().Update(ctx, after.DeepCopy())
	if apierrors.IsConflict(err) {
		err = c.retryStatusWrite(ctx, after)
	}
	if err != nil {
		return fmt.Errorf("writing the status of ClusterVersion %q: %w", after.Name, err)
	}

	return nil
}

func (c *Controller) retryStatusWrite(ctx context.Context, after *configv1.ClusterVersion) error {
	live := &configv1.ClusterVersion{}
	if err := c.reader.Get(ctx, client.ObjectKeyFromObject(after), live); err != nil {
		return err
	}
	if live.UID != after.UID {
		return errRecreated
	}

	live.Status = after.Status
	return c.client.Status().Update(ctx, live)
}

// errRecreated is returned when the ClusterVersion was deleted and created again since it was
// read.
var errRecreated = errors.New("it was deleted and created again")
