package updates

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// minQueryInterval is the minimum interval between the starts of two queries.
	minQueryInterval = time.Second
	// minEqualQueryInterval is the minimum interval between two runs of the same query. A failed
	// query is retried sooner: after an interval that grows from one second to
	// maxQueryRetryInterval.
	minEqualQueryInterval = time.Hour
	maxQueryRetryInterval = time.Minute
	// maxEntryAge is how long a result is kept without being renewed, and a query without a
	// result without being requested.
	maxEntryAge = 24 * time.Hour
	// matchTimeout is how long Match waits for a query that it started. The query itself
	// continues, and its result is used by later calls.
	matchTimeout = 5 * time.Second
	// maxRunningQueries is the maximum number of parallel queries. It is more than one, so that
	// queries that never end do not block others.
	maxRunningQueries = 4
	// maxCachedQueries is the maximum number of cached queries. It exceeds the number of risks in
	// a status.
	maxCachedQueries = 10_000
)

// Cache limits the queries of a Prometheus: one query per second, and each query once per hour.
// When a query may start, the due query that has waited longest since its last run is started.
// Queries that never ran come first, so none starves.
type Cache struct {
	next  Querier
	clock clock.WithTicker

	mu          sync.Mutex
	entries     map[string]*cacheEntry
	lastStarted time.Time // when the last query was started
	running     int
}

// cacheEntry is the state of a query.
type cacheEntry struct {
	requestedAt time.Time // when the query was last requested
	evaluatedAt time.Time // end of the last evaluation; zero if there was none
	startedAt   time.Time // start of the last evaluation
	matches     bool
	err         error
	hasResult   bool          // an evaluation succeeded; matches is its result
	failures    int           // consecutive failures
	running     chan struct{} // closed when the running evaluation ends; nil if none runs
}

// NewCache returns a cache for another Querier. A nil clock is the real one.
func NewCache(next Querier, c clock.WithTicker) *Cache {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Cache{next: next, clock: c, entries: map[string]*cacheEntry{}}
}

// Match returns the cached result of a query, or evaluates it. It returns an error if the
// evaluation failed or may not start yet.
func (c *Cache) Match(ctx context.Context, query string) (bool, error) {
	if running := c.requestEvaluation(ctx, query); running != nil {
		timer := c.clock.NewTimer(matchTimeout)
		defer timer.Stop()
		select {
		case <-running:
		case <-timer.C():
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}

	return c.cachedResult(query)
}

// requestEvaluation records the request for a query and, if a query may start, starts the due
// one that has waited longest. It returns a channel that is closed when that query ends; nil if
// none was started.
func (c *Cache) requestEvaluation(ctx context.Context, query string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	e := c.entries[query]
	if e == nil {
		c.evictUnused(now)
		if len(c.entries) >= maxCachedQueries {
			return nil
		}
		e = &cacheEntry{}
		c.entries[query] = e
	}

	e.requestedAt = now
	if !e.isEvaluationDue(now) || c.running >= maxRunningQueries || isWithin(now, c.lastStarted, minQueryInterval) {
		return nil
	}

	stalest, chosen := query, e
	for other, candidate := range c.entries {
		if candidate.isEvaluationDue(now) && candidate.hasWaitedLonger(chosen) {
			stalest, chosen = other, candidate
		}
	}

	done := make(chan struct{})
	chosen.startedAt = now
	chosen.running = done
	c.lastStarted = now
	c.running++
	// The query continues after the caller's context ends, because its result is shared.
	go c.runEvaluation(context.WithoutCancel(ctx), stalest, chosen, done)

	return done
}

func (c *Cache) runEvaluation(ctx context.Context, query string, e *cacheEntry, done chan struct{}) {
	matches, err := c.next.Match(ctx, query)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.evaluatedAt = c.clock.Now()
	e.err = err
	e.running = nil
	if err == nil {
		e.matches = matches
		e.hasResult = true
		e.failures = 0
	} else {
		e.failures++
	}

	c.running--
	close(done)
}

// cachedResult returns the latest result or error of a query.
func (c *Cache) cachedResult(query string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[query]
	switch {
	case e == nil:
		return false, fmt.Errorf("more than %d queries are to be evaluated", maxCachedQueries)
	case !e.evaluatedAt.IsZero() && e.err != nil:
		return false, e.err
	case e.hasResult:
		return e.matches, nil
	case e.running != nil:
		return false, fmt.Errorf("the evaluation started at %s is still running", formatClockTime(e.startedAt))
	}

	return false, fmt.Errorf("evaluation is throttled until %s", formatClockTime(c.lastStarted.Add(minQueryInterval)))
}

func formatClockTime(t time.Time) string { return t.Format("15:04:05Z07") }

// isEvaluationDue reports whether a query may be evaluated again.
func (e *cacheEntry) isEvaluationDue(now time.Time) bool {
	if e.running != nil {
		return false
	}
	if e.evaluatedAt.IsZero() {
		return true
	}

	pause := minEqualQueryInterval
	if e.failures > 0 {
		pause = min(time.Second<<min(e.failures-1, 10), maxQueryRetryInterval)
	}

	return !isWithin(now, e.startedAt, pause)
}

// isWithin reports whether less than a duration has passed since a time. If the clock was set back, it was long ago.
func isWithin(now, since time.Time, d time.Duration) bool {
	return now.Before(since.Add(d)) && !now.Before(since)
}

// hasWaitedLonger reports whether a query has waited longer than another since its last
// evaluation. If neither was ever evaluated, the one that was requested earlier has.
func (e *cacheEntry) hasWaitedLonger(other *cacheEntry) bool {
	if e.startedAt.Equal(other.startedAt) {
		return e.requestedAt.Before(other.requestedAt)
	}
	return e.startedAt.Before(other.startedAt)
}

// evictUnused removes old entries that are not running.
func (c *Cache) evictUnused(now time.Time) {
	for query, e := range c.entries {
		last := e.evaluatedAt
		if last.IsZero() {
			last = e.requestedAt
		}
		if e.running == nil && now.Sub(last) > maxEntryAge {
			delete(c.entries, query)
		}
	}
}
