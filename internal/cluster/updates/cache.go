package updates

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// betweenQueries is the least time from one query to the next.
	betweenQueries = time.Second
	// betweenEqual is the least time between two runs of the same query. A query that failed
	// is tried again sooner: after a pause that grows from one second to maxFailurePause.
	betweenEqual    = time.Hour
	maxFailurePause = time.Minute
	// forgetAfter is how long a result is kept that nobody renews, and a query without a
	// result that nobody asks for.
	forgetAfter = 24 * time.Hour
	// patience is how long Match waits for a query that it has started. One that takes
	// longer goes on, and its result is there for those who ask later.
	patience = 5 * time.Second
	// maxRunning is how many queries run at a time: more than one, so that queries that
	// never end do not keep the others from being asked.
	maxRunning = 4
	// maxQueries is how many queries are remembered: more than risks are told of.
	maxQueries = 10_000
)

// Cache keeps a Prometheus from being asked too often: a query at most every second, and
// the same one at most every hour. When there is room for one, the query is asked that has
// waited longest since it was, and those that never were come first; so none starves.
type Cache struct {
	next  Querier
	clock clock.WithTicker

	mu      sync.Mutex
	entries map[string]*entry
	last    time.Time // when the last query was started
	running int
}

// entry is what is known of a query.
type entry struct {
	asked    time.Time // when somebody last wanted to know
	done     time.Time // when it was last evaluated; zero: never
	started  time.Time // when the last evaluation began
	matches  bool
	err      error
	known    bool          // some evaluation gave a result, which matches is
	failures int           // since then
	running  chan struct{} // closed when the evaluation ends; nil: none runs
}

// NewCache makes a cache of what another Querier gives. A nil clock is the real one.
func NewCache(next Querier, c clock.WithTicker) *Cache {
	if c == nil {
		c = clock.RealClock{}
	}
	return &Cache{next: next, clock: c, entries: map[string]*entry{}}
}

// Match returns what is known of the query, or evaluates it. It fails when the query does,
// and when it may not be asked yet.
func (c *Cache) Match(ctx context.Context, query string) (bool, error) {
	if running := c.ask(ctx, query); running != nil {
		timer := c.clock.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-running:
		case <-timer.C():
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}

	return c.answer(query)
}

// ask notes that somebody wants to know, and starts a query when there is room: the one
// that has waited longest. It gives what is closed when that ends.
func (c *Cache) ask(ctx context.Context, query string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	e := c.entries[query]
	if e == nil {
		c.forget(now)
		if len(c.entries) >= maxQueries {
			return nil
		}
		e = &entry{}
		c.entries[query] = e
	}

	e.asked = now
	if !e.isDue(now) || c.running >= maxRunning || now.Before(c.last.Add(betweenQueries)) {
		return nil
	}

	stalest, chosen := query, e
	for other, candidate := range c.entries {
		if candidate.isDue(now) && candidate.staler(chosen) {
			stalest, chosen = other, candidate
		}
	}

	done := make(chan struct{})
	chosen.started, chosen.running = now, done
	c.last = now
	c.running++
	// The query outlives those who ask for it: its result is for all.
	go c.run(context.WithoutCancel(ctx), stalest, chosen, done)

	return done
}

func (c *Cache) run(ctx context.Context, query string, e *entry, done chan struct{}) {
	matches, err := c.next.Match(ctx, query)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.done, e.err, e.running = c.clock.Now(), err, nil
	if err == nil {
		e.matches, e.known, e.failures = matches, true, 0
	} else {
		e.failures++
	}

	c.running--
	close(done)
}

// answer returns what is known of a query.
func (c *Cache) answer(query string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[query]
	switch {
	case e == nil:
		return false, fmt.Errorf("more than %d queries are to be evaluated", maxQueries)
	case !e.done.IsZero() && e.err != nil:
		return false, e.err
	case e.known:
		return e.matches, nil
	case e.running != nil:
		return false, fmt.Errorf("the evaluation that began at %s goes on", clockTime(e.started))
	}

	return false, fmt.Errorf("evaluation is throttled until %s", clockTime(c.last.Add(betweenQueries)))
}

func clockTime(t time.Time) string { return t.Format("15:04:05Z07") }

// isDue reports whether a query may be evaluated again.
func (e *entry) isDue(now time.Time) bool {
	if e.running != nil {
		return false
	}
	if e.done.IsZero() {
		return true
	}

	pause := betweenEqual
	if e.failures > 0 {
		pause = min(time.Second<<min(e.failures-1, 10), maxFailurePause)
	}

	return !now.Before(e.started.Add(pause))
}

// staler reports whether a query has waited longer than another. Those that never were
// evaluated have; of these, those that were asked for earlier.
func (e *entry) staler(other *entry) bool {
	if e.started.Equal(other.started) {
		return e.asked.Before(other.asked)
	}
	return e.started.Before(other.started)
}

// forget drops what nobody has asked for in a long time.
func (c *Cache) forget(now time.Time) {
	for query, e := range c.entries {
		last := e.done
		if last.IsZero() {
			last = e.asked
		}
		if e.running == nil && now.Sub(last) > forgetAfter {
			delete(c.entries, query)
		}
	}
}
