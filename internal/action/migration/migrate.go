package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

const (
	// defaultTimeout limits each wait for a controller.
	defaultTimeout      = 5 * time.Minute
	defaultPollInterval = 500 * time.Millisecond
)

// Operation is what all operations on the migration of one Subscription have in common.
type Operation struct {
	// Client needs the kinds of Scheme, and must not read from a cache.
	Client   client.Client
	Progress report.Progress
	// Namespace and Name are those of the Subscription.
	Namespace, Name string
	// Timeout limits each wait for a controller. Zero means 5 minutes.
	Timeout time.Duration
	// PollInterval is the interval between two reads of an awaited state. Zero means half a second.
	PollInterval time.Duration
}

func (o *Operation) subscriptionKey() client.ObjectKey {
	return client.ObjectKey{Namespace: o.Namespace, Name: o.Name}
}

// Migrate moves an operator from OLM Classic to a ClusterExtension, or continues an interrupted
// migration.
type Migrate struct {
	Operation

	Catalogs Catalogs
	Bundles  Bundles
	Options  plan.Options
}

// Check returns the plan of the migration. It writes nothing.
func (m *Migrate) Check(ctx context.Context) (*plan.Plan, error) {
	_, p, err := m.draftPlan(ctx)
	return p, err
}

func (m *Migrate) draftPlan(ctx context.Context) (*plan.Facts, *plan.Plan, error) {
	g := gatherer{client: m.Client, catalogs: m.Catalogs, bundles: m.Bundles}
	facts, err := g.gather(ctx, m.subscriptionKey(), m.Options)
	if err != nil {
		return nil, nil, err
	}
	return facts, plan.New(facts, m.Options), nil
}

// Run carries out the migration. It returns when the extension manages all objects and OLM Classic
// none. The error is a *RefusedError if findings prevent the migration: then nothing was written.
func (m *Migrate) Run(ctx context.Context) error {
	s, err := loadSnapshot(ctx, m.Client, m.subscriptionKey())
	if err != nil {
		return err
	}
	if s != nil && s.isRollingBack() {
		return &report.Error{
			Object: "subscription " + m.subscriptionKey().String(), Err: errors.New("the operator is returning to OLM Classic"),
			Advice: "finish that with --rollback, then migrate again",
		}
	}

	if s == nil {
		if s, err = m.beginMigration(ctx); err != nil {
			return err
		}
	}

	for _, step := range m.orderSteps(s) {
		if err := step(ctx, s); err != nil {
			return m.explainFailure(err)
		}
	}

	return nil
}

// orderSteps returns the steps of the migration in their order.
//
// The CSV is deleted after the extension is installed: until then every object has an owner, and a
// rollback has nothing to restore. If the webhooks of the operator get new certificates, the CSV is
// deleted first: OLM Classic and OLM v1 would both correct the CRDs and Deployments.
func (m *Migrate) orderSteps(s *snapshot) []func(context.Context, *snapshot) error {
	removes, adopts := &removal{m.Operation}, &adoption{m.Operation}
	steps := []func(context.Context, *snapshot) error{removes.deleteSubscription, removes.checkRacingCSV}
	if s.changesCertificates() {
		steps = append(steps, removes.deleteCSV, m.dropHold, m.prepareExtension, adopts.awaitInstalled, adopts.awaitAuthorities)
	} else {
		steps = append(steps, m.prepareExtension, adopts.awaitInstalled, adopts.awaitAuthorities, removes.deleteCSV, m.dropHold)
	}
	return append(steps, removes.removeReplacedObjects, removes.removeMarks)
}

// prepareExtension prepares the objects and creates the extension. If the extension cannot be
// created, nothing has been adopted, and the Subscription is restored.
func (m *Migrate) prepareExtension(ctx context.Context, s *snapshot) error {
	adopts := &adoption{m.Operation}
	var err error
	for _, step := range []func(context.Context, *snapshot) error{adopts.offerCertificates, adopts.offerWebhooks, adopts.offerObjects, adopts.createExtension} {
		if err = step(ctx, s); err != nil {
			break
		}
	}
	if err == nil || ctx.Err() != nil {
		return err
	}

	ext := &olmv1.ClusterExtension{}
	ok, readErr := getOptional(ctx, m.Client, client.ObjectKeyFromObject(s.Extension), ext)
	if readErr != nil || ok && isMigratedExtension(ext, s) {
		return err
	}
	if restoreErr := (&restoration{m.Operation}).restoreClassic(ctx, s); restoreErr != nil {
		return errors.Join(err, restoreErr)
	}
	return &report.Error{
		Object: "subscription " + m.subscriptionKey().String(), Err: err,
		Advice: "the Subscription was restored: resolve the problem, then migrate again",
	}
}

// beginMigration checks the operator, and writes the snapshot.
func (m *Migrate) beginMigration(ctx context.Context) (*snapshot, error) {
	facts, p, err := m.draftPlan(ctx)
	if err != nil {
		return nil, err
	}
	if !p.Allowed() {
		return nil, &RefusedError{Plan: p}
	}

	s, err := takeSnapshot(ctx, m.Client, facts, p)
	if err != nil {
		return nil, err
	}
	if err := s.createSecret(ctx, m.Client); err != nil {
		return nil, err
	}

	m.reportDone("snapshot written to secret %s/%s", s.secret.Namespace, s.secret.Name)
	return s, nil
}

func (o *Operation) reportDone(format string, args ...any) {
	report.OrQuiet(o.Progress).Done(fmt.Sprintf(format, args...))
}

// explainFailure adds the commands that continue after a failed step.
func (m *Migrate) explainFailure(err error) error {
	var known *report.Error
	if errors.As(err, &known) && known.Advice != "" {
		return err
	}
	return &report.Error{
		Object: "subscription " + m.subscriptionKey().String(), Err: err,
		Advice: "run the same command again to continue, or with --rollback to return to OLM Classic",
	}
}

// errTimeout is the error of pollUntil for a condition that is not met in time.
var errTimeout = errors.New("is not done")

// pollUntil waits until a condition is met. The condition returns what it waits for.
func (o *Operation) pollUntil(ctx context.Context, what string, isMet func(context.Context) (bool, string, error)) error {
	timeout := cmp.Or(o.Timeout, defaultTimeout)
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(cmp.Or(o.PollInterval, defaultPollInterval))
	defer tick.Stop()
	for {
		met, waiting, err := isMet(ctx)
		if err != nil || met {
			return err
		}
		report.OrQuiet(o.Progress).Parts([]report.Part{{Name: what, State: report.StateCurrent, Detail: waiting}})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("%s %w after %s: %s", what, errTimeout, timeout, waiting)
		case <-tick.C:
		}
	}
}
