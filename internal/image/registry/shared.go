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

// Shared is the state that the sessions of a process share: for each registry its rate
// limit, requested pauses and login method, and tokens that have not expired. It is safe for
// concurrent use.
type Shared struct {
	requestsPerSecond float64
	firstDelay        time.Duration // before the first retry
	now               func() time.Time
	sleep             func(context.Context, time.Duration) error
	jitter            func() float64 // from 0 to 1

	mu     sync.Mutex
	hosts  map[string]*hostState
	grants map[grantKey]grant
}

// hostState is the state of one registry or token server.
type hostState struct {
	limiter *rate.Limiter

	mu sync.Mutex
	// pauses are the times before which no requests are sent, by repository. Those of the
	// empty repository are about the whole host.
	pauses map[string]time.Time
}

// pauseScope is a repository of a host, or the whole host if the repository is empty.
type pauseScope struct{ host, repository string }

// forStatus returns the scope that a status pauses. 429 for a request of a repository is
// about that repository: a registry of many tenants may limit one of them. Other statuses are
// about the host.
func (p pauseScope) forStatus(status int) pauseScope {
	if status != http.StatusTooManyRequests {
		p.repository = ""
	}
	return p
}

// Limits of the shared state. When one is reached, all entries are dropped and learned
// again.
const (
	maxHosts         = 256
	maxPausesPerHost = 256
	maxGrants        = 1024
)

// NewShared returns an empty shared state. Each registry gets at most perSecond requests
// per second on average, with bursts of twice as many. The first retry of a failed request
// waits for delay, each further one twice as long.
func NewShared(perSecond float64, delay time.Duration) *Shared {
	return &Shared{
		requestsPerSecond: perSecond, firstDelay: delay, now: time.Now, sleep: sleepContext, jitter: rand.Float64,
		hosts: map[string]*hostState{}, grants: map[grantKey]grant{},
	}
}

// sleepContext waits for d, or until ctx is done.
func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stateOfHost returns the state of a host, which is created if needed.
func (s *Shared) stateOfHost(name string) *hostState {
	s.mu.Lock()
	defer s.mu.Unlock()

	h := s.hosts[name]
	if h == nil {
		if len(s.hosts) >= maxHosts {
			clear(s.hosts)
		}
		h = &hostState{limiter: rate.NewLimiter(rate.Limit(s.requestsPerSecond), max(1, int(2*s.requestsPerSecond)))}
		s.hosts[name] = h
	}

	return h
}

// rememberedGrant returns the last successful grant for a key, and whether there is one.
func (s *Shared) rememberedGrant(key grantKey) (grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	g, ok := s.grants[key]
	return g, ok
}

func (s *Shared) rememberGrant(key grantKey, g grant) {
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

// waitUntilAllowed waits until a request of a scope may be sent. It returns a PausedError if
// the pause of the host or the repository takes too long.
func (s *Shared) waitUntilAllowed(ctx context.Context, scope pauseScope, unlimited bool) error {
	h := s.stateOfHost(scope.host)
	for {
		left := h.pauseLeft(scope.repository, s.now())
		if left <= 0 && unlimited {
			return nil
		}
		if left <= 0 {
			return h.limiter.Wait(ctx)
		}
		if s.exceedsWaitLimit(ctx, left) {
			return &PausedError{Host: scope.host, Left: left}
		}
		if err := s.sleep(ctx, left); err != nil {
			return err
		}
	}
}

// exceedsWaitLimit reports whether a pause is too long to wait for: longer than
// maxWaitDuration or than the context allows.
func (s *Shared) exceedsWaitLimit(ctx context.Context, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return pause > maxWaitDuration || (ok && deadline.Sub(s.now()) < pause)
}

// Limits of pauses.
const (
	// maxWaitDuration is the longest pause that is waited for. A longer one is an error, so
	// that the caller can do something else.
	maxWaitDuration = 30 * time.Second
	// maxPauseDuration is the longest pause that is honoured, regardless of the request of a host.
	maxPauseDuration = 10 * time.Minute
)

// pauseLeft returns how long no requests of a repository are sent.
func (h *hostState) pauseLeft(repository string, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.pauses[""].Sub(now), h.pauses[repository].Sub(now))
}

// pauseRequests sends no requests of a scope for a while.
func (s *Shared) pauseRequests(scope pauseScope, d time.Duration) {
	h := s.stateOfHost(scope.host)
	until := s.now().Add(min(d, maxPauseDuration))
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.pauses == nil || len(h.pauses) >= maxPausesPerHost {
		h.pauses = map[string]time.Time{}
	}
	if until.After(h.pauses[scope.repository]) {
		h.pauses[scope.repository] = until
	}
}

// maxAttempts is how often a request is sent.
const maxAttempts = 4

// maxBackoff is the longest delay before a retry that no host requested.
const maxBackoff = 10 * time.Second

// backoffDelay returns the delay before the nth retry, from 1: the first delay, doubled
// each time. The jitter shortens it by up to a half, so that requests that failed together
// are not retried together.
func backoffDelay(first time.Duration, nth int, jitter float64) time.Duration {
	d := min(first<<min(nth-1, 10), maxBackoff)
	return d - time.Duration(jitter*float64(d)/2)
}

// WaitBeforeRetry waits before the nth retry, from 1.
func (s *Shared) WaitBeforeRetry(ctx context.Context, nth int) error {
	return s.sleep(ctx, backoffDelay(s.firstDelay, nth, s.jitter()))
}

// parseRetryAfter returns the pause that a response requests, and whether it does.
func parseRetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int64(24*time.Hour/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, min(at.Sub(now), 24*time.Hour)), true
	}
	return 0, false
}

// isTransientStatus reports whether the same request may succeed later.
func isTransientStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
