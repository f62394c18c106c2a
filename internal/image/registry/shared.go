package registry

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Shared is what the sessions of a process know of registries: how fast each may be
// asked, which pause it asked for, how it wants to be logged in to, and tokens that are
// still good. It is safe for concurrent use.
type Shared struct {
	perSecond float64
	delay     time.Duration // the first before trying again
	now       func() time.Time
	sleep     func(context.Context, time.Duration) error
	jitter    func() float64 // from 0 to 1

	mu     sync.Mutex
	hosts  map[string]*host
	grants map[grantKey]grant
}

// host is what is known of one registry or token server.
type host struct {
	limiter *rate.Limiter

	mu     sync.Mutex
	paused time.Time // until then it is left alone
}

// Bounds of what is remembered. Whoever meets one forgets everything and learns it again.
const (
	maxHosts  = 256
	maxGrants = 1024
)

// NewShared makes the shared knowledge, of nothing yet. A registry is asked at most
// perSecond times in a second on average, in bursts of twice as many. What failed is tried
// again after the delay first, and after twice as long each further time.
func NewShared(perSecond float64, delay time.Duration) *Shared {
	return &Shared{
		perSecond: perSecond, delay: delay, now: time.Now, sleep: sleep, jitter: rand.Float64,
		hosts: map[string]*host{}, grants: map[grantKey]grant{},
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Shared) host(name string) *host {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[name]
	if h == nil {
		if len(s.hosts) >= maxHosts {
			clear(s.hosts)
		}
		h = &host{limiter: rate.NewLimiter(rate.Limit(s.perSecond), max(1, int(2*s.perSecond)))}
		s.hosts[name] = h
	}

	return h
}

// grant returns what gave access last, and whether anything did.
func (s *Shared) grant(key grantKey) (grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.grants[key]
	return g, ok
}

func (s *Shared) storeGrant(key grantKey, g grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grants) >= maxGrants {
		clear(s.grants)
	}
	s.grants[key] = g
}

func (s *Shared) forgetGrant(key grantKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.grants, key)
}

// admit waits until a host may be asked, unless that takes too long.
func (s *Shared) admit(ctx context.Context, name string, unlimited bool) error {
	h := s.host(name)
	for {
		h.mu.Lock()
		left := h.paused.Sub(s.now())
		h.mu.Unlock()
		if left <= 0 && unlimited {
			return nil
		}
		if left <= 0 {
			return h.limiter.Wait(ctx)
		}
		if s.tooLong(ctx, left) {
			return &PausedError{Host: name, Left: left}
		}
		if err := s.sleep(ctx, left); err != nil {
			return err
		}
	}
}

// tooLong reports whether a pause is not waited for.
func (s *Shared) tooLong(ctx context.Context, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return pause > maxWait || (ok && deadline.Sub(s.now()) < pause)
}

// Bounds of pauses.
const (
	// maxWait is the longest pause that is waited for. For a longer one the caller is told,
	// who has better things to do.
	maxWait = 30 * time.Second
	// maxPause is the longest that a host is left alone, whatever it asks for.
	maxPause = 10 * time.Minute
)

// pause leaves a host alone for a while.
func (s *Shared) pause(name string, d time.Duration) {
	h := s.host(name)
	until := s.now().Add(min(d, maxPause))
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.paused) {
		h.paused = until
	}
}

// attempts is how often a request is sent at most.
const attempts = 4

// maxBackoff is the longest pause that is made without being asked for one.
const maxBackoff = 10 * time.Second

// backoff is the pause before trying again for the nth time, from 1: the first delay,
// doubled each time, and shortened by up to a half, so that many who failed together do
// not come back together.
func backoff(first time.Duration, nth int, jitter float64) time.Duration {
	d := min(first<<min(nth-1, 10), maxBackoff)
	return d - time.Duration(jitter*float64(d)/2)
}

// Wait waits before something that failed is tried again for the nth time, from 1.
func (s *Shared) Wait(ctx context.Context, nth int) error {
	return s.sleep(ctx, backoff(s.delay, nth, s.jitter()))
}

// retryAfter reads the pause that an answer asks for, and tells whether it does.
func retryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int64(24*time.Hour/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, min(at.Sub(now), 24*time.Hour)), true
	}
	return 0, false
}

// passing reports whether an answer says that the same request may succeed later.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
