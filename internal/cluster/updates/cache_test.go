package updates

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testclock "k8s.io/utils/clock/testing"

	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// fakePrometheus is a Querier that records its queries.
type fakePrometheus struct {
	mu      sync.Mutex
	queries []string
	fails   map[string]bool
	blocks  map[string]chan struct{}
}

func (p *fakePrometheus) Match(_ context.Context, query string) (bool, error) {
	p.mu.Lock()
	p.queries = append(p.queries, query)
	fails, blocks := p.fails[query], p.blocks[query]
	p.mu.Unlock()
	if blocks != nil {
		<-blocks
	}
	if fails {
		return false, errors.New(query + " fails")
	}

	return true, nil
}

func (p *fakePrometheus) recordedQueries() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.queries, " ")
}

func newTestCache(p *fakePrometheus) (*Cache, *testclock.FakeClock) {
	clock := testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	return NewCache(p, clock), clock
}

// matchAll evaluates queries in turn and returns the results.
func matchAll(t *testing.T, c *Cache, queries ...string) []string {
	t.Helper()
	var answers []string
	for _, query := range queries {
		matches, err := c.Match(t.Context(), query)
		switch {
		case err != nil:
			answers = append(answers, query+": "+err.Error())
		case matches:
			answers = append(answers, query)
		default:
			answers = append(answers, query+": no")
		}
	}

	return answers
}

func TestCacheThrottles(t *testing.T) {
	p := &fakePrometheus{}
	c, clock := newTestCache(p)
	const until = ": evaluation is throttled until 12:00:01Z"
	expect := func(what, queries string, want, got []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: results (-want +got):\n%s", what, diff)
		}
		if got := p.recordedQueries(); got != queries {
			t.Errorf("%s: got queries %q, want %q", what, got, queries)
		}
	}

	expect("one query for ten risks, and no second one within a second", "a",
		[]string{"a", "a", "a", "b" + until, "c" + until}, matchAll(t, c, "a", "a", "a", "b", "c"))
	clock.Step(time.Second)
	// The query that has waited longest starts, not the requested one.
	expect("the next slot", "a b", []string{"c: evaluation is throttled until 12:00:02Z", "b", "a"}, matchAll(t, c, "c", "b", "a"))
	clock.Step(time.Second)
	expect("the last query", "a b c", []string{"a", "b", "c"}, matchAll(t, c, "a", "b", "c"))
	clock.Step(59 * time.Minute)
	expect("less than an hour later", "a b c", []string{"a", "b", "c"}, matchAll(t, c, "a", "b", "c"))
	clock.Step(time.Minute)
	expect("a query that never ran precedes one that is run again", "a b c d", []string{"d", "a"}, matchAll(t, c, "d", "a"))
	clock.Step(time.Second)
	expect("the previous result is returned without a free slot", "a b c d a", []string{"a", "b"}, matchAll(t, c, "a", "b"))
}

// matchUntilQueried requests a query until it was evaluated.
func matchUntilQueried(t *testing.T, c *Cache, p *fakePrometheus, clock *testclock.FakeClock, query string) {
	t.Helper()
	for !strings.Contains(p.recordedQueries(), query) {
		matchAll(t, c, query)
		clock.Step(time.Second)
	}
}

// A query whose last evaluation seems to be in the future is evaluated again.
func TestCacheAfterTheClockWasSetBack(t *testing.T) {
	p := &fakePrometheus{}
	c, clock := newTestCache(p)
	for _, query := range []string{"a", "a"} {
		if diff := cmp.Diff([]string{query}, matchAll(t, c, query)); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		clock.SetTime(clock.Now().Add(-24 * time.Hour))
	}

	if got, want := p.recordedQueries(), "a a"; got != want {
		t.Errorf("got queries %q, want %q", got, want)
	}
}

func TestCacheFailures(t *testing.T) {
	p := &fakePrometheus{fails: map[string]bool{"a": true}}
	c, clock := newTestCache(p)
	if diff := cmp.Diff([]string{"a: a fails", "a: a fails"}, matchAll(t, c, "a", "a")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	countQueries := func() int { return len(strings.Fields(p.recordedQueries())) }
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		before := countQueries()
		clock.Step(pause*time.Second - 1)
		matchAll(t, c, "a")
		if countQueries() != before {
			t.Fatalf("got a query before %d seconds, want none", pause)
		}

		clock.Step(1)
		matchAll(t, c, "a")
		if countQueries() != before+1 {
			t.Fatalf("got no query after %d seconds, want one", pause)
		}
	}

	p.mu.Lock()
	p.fails = nil
	p.mu.Unlock()
	clock.Step(time.Minute)
	if diff := cmp.Diff([]string{"a"}, matchAll(t, c, "a")); diff != "" {
		t.Errorf("results after the failure (-want +got):\n%s", diff)
	}
}

// A query that never ends does not block Match for long, and does not block other queries.
func TestCacheNeverEnding(t *testing.T) {
	ends := make(chan struct{})
	p := &fakePrometheus{blocks: map[string]chan struct{}{"endless": ends}}
	c, clock := newTestCache(p)
	answered := make(chan []string)
	go func() { answered <- matchAll(t, c, "endless") }()
	poll.EventuallyTrue(t, "Match waits", clock.HasWaiters, nil)

	clock.Step(matchTimeout)
	if diff := cmp.Diff([]string{"endless: the evaluation started at 12:00:00Z is still running"}, <-answered); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"other"}, matchAll(t, c, "other")); diff != "" {
		t.Errorf("result of another query (-want +got):\n%s", diff)
	}

	close(ends)
	poll.EventuallyTrue(t, "the evaluation ends", func() bool {
		matches, err := c.Match(t.Context(), "endless")
		return err == nil && matches
	}, nil)

	if got := p.recordedQueries(); got != "endless other" {
		t.Errorf("got queries %q, want endless and other once each", got)
	}
}

func TestCacheForgets(t *testing.T) {
	p := &fakePrometheus{}
	c, clock := newTestCache(p)
	matchUntilQueried(t, c, p, clock, "old")
	clock.Step(maxEntryAge + time.Second)
	matchAll(t, c, "new")
	c.mu.Lock()
	_, kept := c.entries["old"]
	c.mu.Unlock()
	if kept {
		t.Error("got a result that was not requested for a day, want it evicted")
	}
}
