// Package version looks after the ClusterVersion: it finds out which release is wanted, has
// it accepted, gives it to the worker that applies it, and reports how far the cluster is.
//
// It applies nothing itself. What is decided, from a ClusterVersion and from what is known,
// is decided by functions that read and write nothing.
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

// Pauses until the ClusterVersion is looked at again though nothing changed: when a look
// makes another one useful, while a release is applied or something fails, as messages tell
// of time, and otherwise.
const (
	lookAtOnce      = time.Millisecond
	lookWhileMoving = 15 * time.Second
	lookWhileSteady = 2 * time.Minute
)

// logAbsenceInterval is how often the log says that there is no ClusterVersion.
const logAbsenceInterval = 5 * time.Minute

// maxFailures is how often in a row the ClusterVersion cannot be looked after before it
// says so.
const maxFailures = 15

// Own is the release that the operator belongs to.
type Own struct {
	// Image is its pull spec. Empty means that it is not known.
	Image string
	// Files are those of its image, when the operator runs in it: it is trusted, and nothing
	// is pulled. Nil means that the operator is part of no release image: Image is then
	// the release to begin with on a cluster that has none.
	Files fs.FS
}

// Worker applies releases.
type Worker interface {
	Update(worker.Work)
	Status() worker.Status
}

// Updates asks the update service.
type Updates interface {
	Set(q updates.Query, known []configv1.ConditionalUpdate)
	Result() updates.Result
}

// Acceptor judges releases.
type Acceptor interface {
	Want(acceptance.Request) acceptance.State
	Again()
	Forget()
}

// Trust makes verifiers of what a release says of those who sign releases.
type Trust interface {
	// Verifier returns the verifier of a payload, as far as its manifests belong to the
	// cluster. Stores that are not nil replace those of the payload. A nil payload
	// trusts nothing.
	Verifier(payload *release.Payload, cluster release.Cluster, stores []configv1.SignatureStore, proxy updates.Proxy, authorities []byte) acceptance.Verifier
	// Keep writes down the signatures that were good, for clusters that lose their network.
	Keep(ctx context.Context) error
}

// Options are what the controller is made with.
type Options struct {
	// Own is the release that the operator belongs to.
	Own Own
	// Worker, Updates, Acceptor and Trust do what the ClusterVersion asks for.
	Worker   Worker
	Updates  Updates
	Acceptor Acceptor
	Trust    Trust
	// UpdateService beats the spec's upstream. Empty leaves it to the spec.
	UpdateService string
	// AlwaysEnable are capabilities that every cluster has.
	AlwaysEnable []string
	// Profile and ExcludeIdentifier decide which manifests belong to the cluster.
	Profile, ExcludeIdentifier string
	// Architecture is that of this process, as Go names it.
	Architecture string
	// AutoUpdate has the cluster ask for the highest available update by itself.
	AutoUpdate bool
	// Taken is told each release that is given to the worker. Nil means nobody.
	Taken func(image string, created metav1.Time)
	// Clock tells the time. Nil means the real one.
	Clock clock.WithTicker
}

// Controller looks after the ClusterVersion. Reconcile is called by one goroutine at a time.
type Controller struct {
	Options

	// client reads ClusterVersion and ClusterOperators from a cache, and writes; gates reads
	// the ConfigMaps of gates; reader reads from the API server.
	client   client.Client
	gates    client.Reader
	reader   client.Reader
	observer *observer

	own        configv1.Release
	applied    *applied
	isPursuing bool
	// given is what the worker was given last.
	given *worker.Work
	// needed are capabilities that the present release enabled implicitly.
	needed   []string
	failures int
	// absenceLogged is when the log said last that there is no ClusterVersion.
	absenceLogged time.Time
}

// New makes a controller. The client reads ClusterVersion and ClusterOperators, gates the
// ConfigMaps of gates, and both may read from caches; the reader reads from the API server.
func New(c client.Client, gates, reader client.Reader, o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}

	controller := &Controller{
		Options: o, client: c, gates: gates, reader: reader, observer: &observer{reader: reader, clock: o.Clock}, own: configv1.Release{Image: o.Own.Image},
	}
	if o.Own.Files == nil {
		return controller
	}

	// Whether the rest of it is good is told when it is accepted.
	if data, err := fs.ReadFile(o.Own.Files, release.FileMetadata); err == nil {
		if metadata, err := release.ParseMetadata(data); err == nil {
			controller.own = acceptance.ReleaseOf(&release.Payload{Metadata: metadata}, o.Own.Image, o.Architecture)
		}
	}

	return controller
}

// Reconcile looks after the ClusterVersion. A release that was accepted is recorded before
// the worker gets it, so that an operator that ends in between begins with it.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cv := &configv1.ClusterVersion{}
	err := c.client.Get(ctx, req.NamespacedName, cv)
	if apierrors.IsNotFound(err) {
		c.logAbsence(ctx, req.Name)
		return ctrl.Result{RequeueAfter: logAbsenceInterval}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}

	before := cv.DeepCopy()
	seen, err := c.look(ctx, cv)
	if err != nil {
		return ctrl.Result{}, c.fail(ctx, before, err)
	}
	if err := c.write(ctx, before, cv); err != nil {
		return ctrl.Result{}, c.fail(ctx, before, err)
	}

	c.failures = 0
	if seen.work != nil && !isSameWork(c.given, seen.work) {
		c.Worker.Update(*seen.work)
		c.given = seen.work
	}

	if seen.verified {
		if err := c.Trust.Keep(ctx); err != nil {
			log.FromContext(ctx).Info("The signatures of the release could not be kept", "error", err.Error())
		}
	}

	if err := c.askForNext(ctx, cv); err != nil {
		return ctrl.Result{}, err
	}
	if c.isPursuing && mayHelp(before, cv) {
		c.Acceptor.Again()
	}
	if !wasComplete(before.Status.History) && wasComplete(cv.Status.History) {
		// What was asked for during the installation is looked at now.
		return ctrl.Result{RequeueAfter: lookAtOnce}, nil
	}

	return ctrl.Result{RequeueAfter: pauseOf(cv)}, nil
}

// logAbsence says in the log that there is no ClusterVersion, and how to create one. Reconcile comes
// here whenever something changes that it watches, which is not logged each time.
func (c *Controller) logAbsence(ctx context.Context, name string) {
	now := c.Clock.Now()
	if !c.absenceLogged.IsZero() && now.Sub(c.absenceLogged) < logAbsenceInterval {
		return
	}
	c.absenceLogged = now
	log.FromContext(ctx).Info("There is no ClusterVersion, so no release is applied. Create one with 'mainstay cluster init'", "clusterVersion", name)
}

// isSameWork reports whether the worker was given the same already.
func isSameWork(given, next *worker.Work) bool {
	if given == nil || given.Payload != next.Payload {
		return false
	}
	a, b := *given, *next
	a.Payload, b.Payload = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// mayHelp reports whether what changed may let a release be accepted that was not.
func mayHelp(before, after *configv1.ClusterVersion) bool {
	was := conditions{all: before.Status.Conditions}
	is := conditions{all: after.Status.Conditions}
	a, _ := was.get(configv1.OperatorUpgradeable)
	b, _ := is.get(configv1.OperatorUpgradeable)
	return a.Status != b.Status || a.Message != b.Message || before.Generation != before.Status.ObservedGeneration
}

// pauseOf returns the pause until the next look.
func pauseOf(cv *configv1.ClusterVersion) time.Duration {
	c := conditions{all: cv.Status.Conditions}
	progressing, _ := c.get(configv1.OperatorProgressing)
	failing, _ := c.get(configv1.ClusterVersionFailing)
	if progressing.Status == metav1.ConditionFalse && failing.Status == metav1.ConditionFalse {
		return lookWhileSteady
	}
	return lookWhileMoving
}

// fail counts failures, and tells of them once they last.
func (c *Controller) fail(ctx context.Context, before *configv1.ClusterVersion, err error) error {
	if apierrors.IsConflict(err) {
		return err // The next look sees what changed.
	}
	if c.failures++; c.failures < maxFailures {
		return err
	}

	told := before.DeepCopy()
	conditions := c.conditions(told)
	conditions.setBroken(err)
	told.Status.Conditions = conditions.sorted()
	if writing := c.write(ctx, before, told); writing != nil {
		return fmt.Errorf("%w; and it cannot be told: %w", err, writing)
	}

	return err
}

func (c *Controller) conditions(cv *configv1.ClusterVersion) *conditions {
	return &conditions{all: cv.DeepCopy().Status.Conditions, now: metav1.NewTime(c.Clock.Now()).Rfc3339Copy()}
}

// write writes the status when it changed. Nobody else writes it, so that after a conflict
// it is written once more, onto the object as it is by then, unless that is another one.
func (c *Controller) write(ctx context.Context, before, after *configv1.ClusterVersion) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}

	err := c.client.Status().Update(ctx, after.DeepCopy())
	if apierrors.IsConflict(err) {
		err = c.writeAgain(ctx, after)
	}
	if err != nil {
		return fmt.Errorf("writing the status of ClusterVersion %q: %w", after.Name, err)
	}

	return nil
}

func (c *Controller) writeAgain(ctx context.Context, after *configv1.ClusterVersion) error {
	live := &configv1.ClusterVersion{}
	if err := c.reader.Get(ctx, client.ObjectKeyFromObject(after), live); err != nil {
		return err
	}
	if live.UID != after.UID {
		return errMadeAnew
	}

	live.Status = after.Status
	return c.client.Status().Update(ctx, live)
}

// errMadeAnew says that the ClusterVersion is another one than the one that was read.
var errMadeAnew = errors.New("it was deleted and made anew")
