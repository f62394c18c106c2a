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
	// minPeriod is how often an update service is asked at most. Clusters that start at the
	// same time ask at different ones: each has a period of its own, up to twice as long.
	minPeriod = 2 * time.Minute
	// keepFor is how long what was known stays when an update service fails.
	keepFor = 24 * time.Hour
	// retryUnknown is the pause before risks that could not be evaluated are again.
	retryUnknown = time.Second
	// maxConditional is how many conditional updates a status tells of.
	maxConditional = 500
)

// updater decides when to ask, and what to tell. It is used by one goroutine.
type updater struct {
	source interface {
		retrieve(ctx context.Context, q Query) (*retrieved, *RetrieveError)
	}
	promql Querier
	clock  clock.PassiveClock
	period time.Duration
	log    logr.Logger

	key         string     // what was asked last
	found       *retrieved // what is known; nil: nothing
	wrong       *RetrieveError
	lastAttempt time.Time
	lastChange  time.Time // the last success, or the last time that something else was asked
	lastSuccess time.Time
	previous    []configv1.ConditionalUpdate
}

func newUpdater(o Options) *updater {
	u := &updater{source: &client{program: o.Program}, promql: o.PromQL, clock: o.Clock, period: o.Period, log: o.Log}
	if u.period <= 0 {
		u.period = minPeriod + rand.N(minPeriod) //nolint:gosec // spreads load, keeps no secret
	}
	return u
}

// key is what decides whether earlier answers are about the same.
func (q Query) key() string {
	return strings.Join([]string{q.Upstream, q.Channel, q.requestArchitecture(), q.Version}, "\x00")
}

func (q Query) equal(other Query) bool { return equality.Semantic.DeepEqual(q, other) }

func (r Result) equal(other Result) bool { return equality.Semantic.DeepEqual(r, other) }

// sync asks the update service when it is time to, evaluates the risks, and says when to
// come again.
func (u *updater) sync(ctx context.Context, q Query, known []configv1.ConditionalUpdate) (Result, time.Duration) {
	if u.isDue(q) {
		u.ask(ctx, q)
	}
	if u.previous == nil {
		u.previous = known
	}

	result := Result{Query: q, Status: metav1.ConditionTrue}
	if u.wrong != nil {
		result.Status, result.Reason, result.Message = metav1.ConditionFalse, u.wrong.Reason, u.wrong.message()
	}

	wait := u.nextAttempt().Sub(u.clock.Now())
	if u.found == nil {
		return result, max(wait, 0)
	}

	for _, node := range u.found.available {
		result.Available = append(result.Available, releaseOf(node))
	}

	if node := u.found.current; node != nil && sameDigest(node.Payload, q.Image) {
		current := releaseOf(*node)
		result.Current = &current
	}

	e := evaluation{promql: u.promql, accepted: q.AcceptedRisks, previous: u.previous, now: metav1.NewTime(u.clock.Now())}
	result.Conditional = e.evaluate(ctx, u.found.conditional)
	result.Available = withRecommended(result.Available, result.Conditional)
	if ctx.Err() == nil {
		u.previous = result.Conditional
	}

	// However long the update service asks to be left alone, the cluster may change.
	wait = min(wait, u.period)
	if e.unknown {
		wait = min(wait, retryUnknown)
	}

	return result, max(wait, 0)
}

// isDue reports whether the update service is to be asked now.
func (u *updater) isDue(q Query) bool {
	return u.lastAttempt.IsZero() || u.key != q.key() || !u.clock.Now().Before(u.nextAttempt())
}

func (u *updater) nextAttempt() time.Time {
	wait := u.period
	if u.wrong != nil {
		wait = max(wait, u.wrong.Pause)
	}
	return u.lastAttempt.Add(wait)
}

// ask asks the update service. When it fails, what was known before stays for a while.
func (u *updater) ask(ctx context.Context, q Query) {
	found, wrong := u.source.retrieve(ctx, q)
	if ctx.Err() != nil {
		return // The answer is about something that nobody asks for any more.
	}

	now := u.clock.Now()
	changed := u.key != q.key()
	u.key, u.lastAttempt = q.key(), now
	if wrong == nil || changed {
		u.lastChange = now
	}

	if wrong != nil {
		u.log.Info("The available updates could not be retrieved", "reason", wrong.Reason, "error", wrong.Error())
		if !wrong.isPassing() || changed || now.Sub(u.lastChange) >= keepFor {
			u.found = nil
		}
		u.wrong = wrong
		return
	}

	if len(found.conditional) > maxConditional {
		u.log.Info("Conditional updates of the lowest versions are left out", "most", maxConditional, "has", len(found.conditional))
		found.conditional = found.conditional[:maxConditional]
	}

	for _, note := range found.notes {
		u.log.Info("The update graph has an update that is not taken as it is", "note", note)
	}

	u.found, u.wrong, u.lastSuccess = found, nil, now
}

// releaseOf tells of a node what a ClusterVersion does.
func releaseOf(node cincinnati.Node) configv1.Release {
	told := configv1.Release{Version: node.Version, Image: node.Payload, URL: node.URL(), Channels: node.Channels()}
	if node.IsMulti() {
		told.Architecture = release.ArchitectureMulti
	}
	return told
}

// sameDigest reports whether two pull specs name the same content, wherever it is.
func sameDigest(a, b string) bool {
	_, digestA, okA := strings.Cut(a, "@")
	_, digestB, okB := strings.Cut(b, "@")
	return okA && okB && digestA == digestB
}

// withRecommended adds the conditional updates that are recommended, by descending version.
func withRecommended(available []configv1.Release, conditional []configv1.ConditionalUpdate) []configv1.Release {
	for _, update := range conditional {
		if len(update.Conditions) > 0 && update.Conditions[0].Status == metav1.ConditionTrue {
			available = append(available, update.Release)
		}
	}
	slices.SortStableFunc(available, newerFirst)
	return available
}
