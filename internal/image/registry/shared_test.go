package registry

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoff(t *testing.T) {
	var got []time.Duration
	for nth := 1; nth <= 9; nth++ {
		got = append(got, backoffDelay(250*time.Millisecond, nth, 0))
	}

	want := []time.Duration{
		250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		maxBackoff, maxBackoff, maxBackoff,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without jitter (-want +got):\n%s", diff)
	}
	if got := backoffDelay(time.Second, 1, 1); got != 500*time.Millisecond {
		t.Errorf("with the maximum jitter: got %s, want 500ms", got)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": -1, "soon": -1, "-1": -1, "1.5": -1,
		"0": 0, "7": 7 * time.Second,
		"99999999999": 24 * time.Hour, "9223372036854775807": 24 * time.Hour,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"Fri, 02 Jan 2099 03:00:00 GMT": 24 * time.Hour,
	} {
		got, ok := parseRetryAfter(http.Header{"Retry-After": {text}}, now)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestRetries checks that transient failures are retried, and that requested pauses are
// kept.
func TestRetries(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		statuses   []int // one for each request; the last one for all further requests
		retryAfter string
		once       bool
		want       []time.Duration
		status     int // the status of the error; 0 for none
	}{
		"good at once":          {statuses: []int{200}},
		"500, then good":        {statuses: []int{500, 200}, want: []time.Duration{100 * ms}},
		"three times bad":       {statuses: []int{502, 503, 504, 200}, want: []time.Duration{100 * ms, 200 * ms, 400 * ms}},
		"always bad":            {statuses: []int{500}, want: []time.Duration{100 * ms, 200 * ms, 400 * ms}, status: 500},
		"another source exists": {statuses: []int{500}, once: true, status: 500},
		"not found":             {statuses: []int{404}, status: 404},
		"forbidden":             {statuses: []int{403}, status: 403},
		"gone":                  {statuses: []int{410}, status: 410},
		"429, then good":        {statuses: []int{429, 200}, want: []time.Duration{100 * ms}},
		"429 with a pause":      {statuses: []int{429, 200}, retryAfter: "7", want: []time.Duration{7 * time.Second}},
		"503 with a pause":      {statuses: []int{503, 200}, retryAfter: "7", want: []time.Duration{7 * time.Second}},
		"a pause of nothing":    {statuses: []int{429, 429, 200}, retryAfter: "0"},
		"always a pause":        {statuses: []int{429}, retryAfter: "7", want: []time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second}, status: 429},
		"a pause too long":      {statuses: []int{429, 200}, retryAfter: "3600", status: 429},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
				i := min(int(requests.Add(1)), len(test.statuses)) - 1
				if test.retryAfter != "" {
					w.Header().Set("Retry-After", test.retryAfter)
				}
				w.Header().Set("Docker-Content-Digest", someDigest.String())
				w.WriteHeader(test.statuses[i])
			})

			shared, clock := newTestShared()
			session := sessionTo(t, server, func(o *Options) { o.Shared, o.SingleAttempt = shared, test.once })
			found, err := session.Digest(t.Context(), "v1")
			if test.status == 0 && (err != nil || found != someDigest) {
				t.Errorf("got %s (error %v), want %s", found, err, someDigest)
			}
			if test.status != 0 {
				_ = wantStatus(t, err, test.status, "look up the tag v1: the registry answered")
			}
			if diff := cmp.Diff(test.want, clock.slept); diff != "" {
				t.Errorf("pauses (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPauseIsShared checks that a pause applies to all sessions with the registry.
func TestPauseIsShared(t *testing.T) {
	var requests atomic.Int32
	server := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})

	shared, clock := newTestShared()
	open := func() *Session { return sessionTo(t, server, func(o *Options) { o.Shared = shared }) }
	_, _, err := open().Manifest(t.Context(), "v1")
	answer := wantStatus(t, err, 429, "asks for a pause of 1h0m0s")
	if answer.Pause != time.Hour {
		t.Errorf("got pause %s, want 1h", answer.Pause)
	}

	_, _, err = open().Manifest(t.Context(), "v1")
	var paused *PausedError
	if !errors.As(err, &paused) || paused.Left != maxPauseDuration {
		t.Errorf("got %v, want a pause of %s", err, maxPauseDuration)
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("the registry received %d requests before the end of the pause, want 1", n)
	}
	if err := clock.sleep(t.Context(), maxPauseDuration-time.Second); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open().Manifest(t.Context(), "v1"); err != nil {
		t.Errorf("got error %v one second before the end of the pause, want the request to wait", err)
	}
	if last := clock.slept[len(clock.slept)-1]; last != time.Second {
		t.Errorf("got wait %s, want 1s", last)
	}
}

// TestScopeOfPauses checks that 429 pauses only the requested repository, while 503, and 429 of
// the base endpoint, pause the whole registry.
func TestScopeOfPauses(t *testing.T) {
	tests := map[string]struct {
		path     string // the path that the registry rejects
		status   int
		isPaused bool // whether the other repository is paused
	}{
		"429 for a repository":      {path: "/v2/org/name/", status: 429},
		"503 for a repository":      {path: "/v2/org/name/", status: 503, isPaused: true},
		"429 for the base endpoint": {path: "/v2/", status: 429, isPaused: true},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case test.path == "/v2/" && r.URL.Path != test.path && r.URL.Path != "/v2/org/other/manifests/v1":
					// The login would be sent to another host, so that the client requests the base endpoint.
					w.Header().Set("WWW-Authenticate", `Bearer realm="https://elsewhere.example/token"`)
					w.WriteHeader(http.StatusUnauthorized)
				case strings.HasPrefix(r.URL.Path, test.path) && r.URL.Path != "/v2/org/other/manifests/v1":
					w.Header().Set("Retry-After", "3600")
					w.WriteHeader(test.status)
				}
			})

			shared, _ := newTestShared()
			manifestOf := func(name string) error {
				session := sessionTo(t, server, func(o *Options) {
					o.Shared, o.Repository, o.Login = shared, name, Login{Username: "u", Password: "p"}
				})
				_, _, err := session.Manifest(t.Context(), "v1")
				return err
			}
			if err := manifestOf(repository); err == nil {
				t.Fatal("got no rejected request, want one")
			}

			var paused *PausedError
			err := manifestOf("org/other")
			if errors.As(err, &paused) != test.isPaused || (!test.isPaused && err != nil) {
				t.Errorf("another repository: got %v, want a pause: %t", err, test.isPaused)
			}

			err = manifestOf(repository)
			if test.path != "/v2/" && !errors.As(err, &paused) {
				t.Errorf("the same repository: got %v, want a pause", err)
			}
		})
	}
}

// TestPauseBeyondTheDeadline checks that a request does not wait for a pause that ends
// after its deadline.
func TestPauseBeyondTheDeadline(t *testing.T) {
	server := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	shared, clock := newTestShared()
	session := sessionTo(t, server, func(o *Options) { o.Shared = shared })
	ctx, cancel := contextUntil(t, clock.now().Add(10*time.Second))
	defer cancel()

	_, _, err := session.Manifest(ctx, "v1")
	_ = wantStatus(t, err, 503, "asks for a pause of 20s")
	if len(clock.slept) != 0 {
		t.Errorf("got waits %v, want none", clock.slept)
	}
}

func TestRateIsBounded(t *testing.T) {
	server := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Docker-Content-Digest", someDigest.String())
	})
	shared := NewShared(0.001, time.Millisecond) // one request in 1000 s, in bursts of one
	for _, unlimited := range []bool{false, true} {
		session := sessionTo(t, server, func(o *Options) { o.Shared, o.Unlimited = shared, unlimited })
		ctx, cancel := contextUntil(t, time.Now().Add(time.Minute))
		defer cancel()

		if _, err := session.Digest(ctx, "v1"); err != nil {
			t.Errorf("unlimited %t: got error %v, want none", unlimited, err)
		}
		if _, err := session.Digest(ctx, "v1"); (err == nil) != unlimited {
			t.Errorf("unlimited %t: got error %v of the second request", unlimited, err)
		}
	}
}

// TestHostsAreBounded checks that the number of remembered registries is bounded.
func TestHostsAreBounded(t *testing.T) {
	shared, _ := newTestShared()
	for i := range 3 * maxHosts {
		shared.stateOfHost(string(rune(i)))
		if n := len(shared.hosts); n > maxHosts {
			t.Fatalf("got %d tracked hosts, want fewer", n)
		}
	}

	for i := range 3 * maxPausesPerHost {
		shared.pauseRequests(pauseScope{host: "h", repository: string(rune(i))}, time.Hour)
		if n := len(shared.stateOfHost("h").pauses); n > maxPausesPerHost {
			t.Fatalf("got %d tracked pauses, want fewer", n)
		}
	}
}
