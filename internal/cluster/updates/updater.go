package updates

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/release"
)

const (
	// minServiceInterval is the minimum interval between queries of the update service. Each
	// cluster uses a random interval up to twice as long. Clusters that start at the same time
	// therefore query at different times.
	minServiceInterval = 2 * time.Minute
	// maxResultAge is how long the last result is kept while the update service fails.
	maxResultAge = 24 * time.Hour
	// unknownRiskRetryInterval is the interval after which risks that could not be evaluated are
	// evaluated again.
	unknownRiskRetryInterval = time.Second
	// maxConditionalUpdates is the maximum number of conditional updates in a status.
	maxConditionalUpdates = 500
)

// updater decides when to query the update service, and computes the result. It must not be used
// concurrently.
type updater struct {
	source interface {
		retrieveUpdates(ctx context.Context, q Query) (*retrievedUpdates, *RetrieveError)
	}
	promql Querier
	clock  clock.PassiveClock
	period time.Duration
	log    logr.Logger

	lastKey     string            // identity of the last query
	latest      *retrievedUpdates // the last result; nil if there is none
	lastErr     *RetrieveError
	lastAttempt time.Time
	lastChange  time.Time // the last success, or the last change of the query's identity
	lastSuccess time.Time
	previous    []configv1.ConditionalUpdate
}

func newUpdater(o Options) *updater {
	u := &updater{source: &graphClient{program: o.ProgramVersion}, promql: o.PromQL, clock: o.Clock, period: o.Period, log: o.Log}
	if u.period <= 0 {
		u.period = minServiceInterval + rand.N(minServiceInterval) //nolint:gosec // spreads load, keeps no secret
	}
	return u
}

// identityKey returns the fields of a query that decide whether earlier results are about the
// same updates.
func (q Query) identityKey() string {
	return strings.Join([]string{q.Upstream, q.Channel, q.requestArchitecture(), q.Version}, "\x00")
}

func (q Query) equal(other Query) bool { return equality.Semantic.DeepEqual(q, other) }

func (r Result) equal(other Result) bool { return equality.Semantic.DeepEqual(r, other) }

// refreshResult queries the update service if it is due and evaluates the risks. It returns the
// result and the delay until the next call.
func (u *updater) refreshResult(ctx context.Context, q Query, known []configv1.ConditionalUpdate) (Result, time.Duration) {
	if u.isQueryDue(q) {
		u.queryService(ctx, q)
	}
	if u.previous == nil {
		u.previous = known
	}

	result := Result{Query: q, Status: metav1.ConditionTrue}
	if u.lastErr != nil {
		result.Status = metav1.ConditionFalse
		result.Reason = u.lastErr.Reason
		result.Message = u.lastErr.conditionMessage()
	}

	wait := u.nextQueryTime().Sub(u.clock.Now())
	if u.latest == nil {
		return result, max(wait, 0)
	}

	for _, node := range u.latest.available {
		result.Available = append(result.Available, releaseFromNode(node))
	}

	if node := u.latest.current; node != nil && hasSameDigest(node.Payload, q.Image) {
		current := releaseFromNode(*node)
		result.Current = &current
	}

	e := riskEvaluation{promql: u.promql, acceptedRisks: q.AcceptedRisks, previous: u.previous, now: metav1.NewTime(u.clock.Now())}
	result.Conditional = e.evaluateUpdates(ctx, u.latest.conditional)
	result.Available = appendRecommended(result.Available, result.Conditional)
	if ctx.Err() == nil {
		u.previous = result.Conditional
	}

	// The risks depend on the cluster, so they are evaluated even while the update service must
	// not be queried.
	wait = min(wait, u.period)
	if e.hasUnknown {
		wait = min(wait, unknownRiskRetryInterval)
	}

	return result, max(wait, 0)
}

// isQueryDue reports whether the update service should be queried now. If the clock was set back, the last query was long
// ago.
func (u *updater) isQueryDue(q Query) bool {
	now := u.clock.Now()
	return u.lastAttempt.IsZero() || u.lastKey != q.identityKey() || !now.Before(u.nextQueryTime()) || now.Before(u.lastAttempt)
}

func (u *updater) nextQueryTime() time.Time {
	wait := u.period
	if u.lastErr != nil {
		wait = max(wait, u.lastErr.RetryAfter)
	}
	return u.lastAttempt.Add(wait)
}

// queryService queries the update service and stores the result or the error. After an error the
// last result is kept for a while.
func (u *updater) queryService(ctx context.Context, q Query) {
	found, retrieveErr := u.source.retrieveUpdates(ctx, q)
	if ctx.Err() != nil {
		return // The query was canceled because it changed.
	}

	now := u.clock.Now()
	changed := u.lastKey != q.identityKey()
	u.lastKey = q.identityKey()
	u.lastAttempt = now
	if retrieveErr == nil || changed {
		u.lastChange = now
	}

	if retrieveErr != nil {
		u.log.Info("Failed to retrieve the available updates", "reason", retrieveErr.Reason, "error", retrieveErr.Error())
		if !retrieveErr.isTransient() || changed || now.Sub(u.lastChange) >= maxResultAge {
			u.latest = nil
		}
		u.lastErr = retrieveErr
		return
	}

	if len(found.conditional) > maxConditionalUpdates {
		u.log.Info("Left out the conditional updates of the lowest versions", "max", maxConditionalUpdates, "has", len(found.conditional))
		found.conditional = found.conditional[:maxConditionalUpdates]
	}

	for _, note := range found.notes {
		u.log.Info("The update graph has an inconsistent update", "note", note)
	}

	u.latest = found
	u.lastErr = nil
	u.lastSuccess = now
}

// releaseFromNode returns the release of a node as it appears in a ClusterVersion.
func releaseFromNode(node cincinnati.Node) configv1.Release {
	result := configv1.Release{Version: node.Version, Image: node.Payload, URL: node.URL(), Channels: node.Channels()}
	if node.IsMulti() {
		result.Architecture = release.ArchitectureMulti
	}
	return result
}

// hasSameDigest reports whether two pull specs have the same digest, in any repository.
func hasSameDigest(a, b string) bool {
	_, digestA, okA := strings.Cut(a, "@")
	_, digestB, okB := strings.Cut(b, "@")
	return okA && okB && digestA == digestB
}

// appendRecommended appends the recommended conditional updates and sorts by descending version.
func appendRecommended(available []configv1.Release, conditional []configv1.ConditionalUpdate) []configv1.Release {
	for _, update := range conditional {
		if len(update.Conditions) > 0 && update.Conditions[0].Status == metav1.ConditionTrue {
			available = append(available, update.Release)
		}
	}
	slices.SortStableFunc(available, compareNewestFirst)
	return available
}
