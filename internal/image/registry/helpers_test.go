package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

const repository = "org/name"

var someDigest = digest.FromString("some blob")

// fakeTime is a clock that only advances when a caller sleeps.
type fakeTime struct {
	mu    sync.Mutex
	time  time.Time
	slept []time.Duration
}

func (f *fakeTime) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.time
}

func (f *fakeTime) sleep(ctx context.Context, d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.slept = append(f.slept, d)
	f.time = f.time.Add(d)
	return ctx.Err()
}

// newTestShared returns a shared state with a fake clock and without jitter.
func newTestShared() (*Shared, *fakeTime) {
	clock := &fakeTime{time: time.Now()}
	shared := NewShared(1e6, 100*time.Millisecond)
	shared.now, shared.sleep, shared.jitter = clock.now, clock.sleep, func() float64 { return 0 }
	return shared, clock
}

// serve starts a registry, with TLS or without.
func serve(t *testing.T, secure bool, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = nil
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}

	t.Cleanup(server.Close)
	return server
}

// sessionTo opens a session with the test registry, whose certificate is trusted.
func sessionTo(t *testing.T, server *httptest.Server, edit func(*Options)) *Session {
	t.Helper()
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}

	shared, _ := newTestShared()
	opts := Options{
		Host: address.Host, Repository: repository, UserAgent: "test", Shared: shared,
		Insecure: address.Scheme == "http", TLS: trustingTLSConfig(server),
	}
	if edit != nil {
		edit(&opts)
	}

	session := NewSession(opts)
	t.Cleanup(session.Close)
	return session
}

func trustingTLSConfig(server *httptest.Server) *tls.Config {
	if transport, ok := server.Client().Transport.(*http.Transport); ok && transport.TLSClientConfig != nil {
		return transport.TLSClientConfig.Clone()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// wantStatus fails the test unless err is a StatusError with the status, and its text has
// all parts.
func wantStatus(t *testing.T, err error, status int, parts ...string) *StatusError {
	t.Helper()
	var answer *StatusError
	if !errors.As(err, &answer) {
		t.Fatalf("got %v (%T), want a *StatusError", err, err)
	}
	if answer.Status != status {
		t.Errorf("got status %d, want %d: %v", answer.Status, status, err)
	}

	wantText(t, err, parts...)
	return answer
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error, want one")
	}

	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %q, want %q in it", err, part)
		}
	}
}

func contextUntil(t *testing.T, deadline time.Time) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithDeadline(t.Context(), deadline)
}
