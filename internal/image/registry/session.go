package registry

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Options configure a [Session].
type Options struct {
	// Host is the host of references, such as quay.io, registry.example.com:5000 or
	// [::1]:5000.
	Host string
	// Repository is the path of the repository, such as org/name.
	Repository string
	// Push requests permission to upload in addition to reading.
	Push bool
	// Insecure falls back to plain HTTP when the registry does not speak TLS. TLS
	// determines whether the certificate is verified.
	Insecure bool
	// SingleAttempt sends each request only once, because the caller has another registry to ask.
	SingleAttempt bool
	// Unlimited disables the rate limit of Shared.
	Unlimited bool
	// TLS is the configuration of every connection of the session.
	TLS *tls.Config
	// Login is the login for this repository. Zero means none.
	Login Login
	// UserAgent is sent with each request.
	UserAgent string
	// ResponseTimeout is the timeout for the header of a response. Zero means no timeout besides the
	// context's.
	ResponseTimeout time.Duration
	// Shared is the shared state of the process. It is required.
	Shared *Shared
}

// registryAddress returns the host to connect to.
func (o *Options) registryAddress() string {
	if o.Host == "docker.io" {
		return "registry-1.docker.io"
	}
	return o.Host
}

// Session reads and writes one repository. It keeps connections until it is closed, and is
// safe for concurrent use.
type Session struct {
	opts   *Options
	sender *sender
	auth   *authenticator
}

// NewSession returns a session. It connects when it is first used.
func NewSession(opts Options) *Session {
	sender := newSender(&opts)
	return &Session{opts: &opts, sender: sender, auth: &authenticator{opts: &opts, sender: sender}}
}

// Close closes idle connections. Other connections are closed with the body of their
// response.
func (s *Session) Close() { s.sender.transport.CloseIdleConnections() }

// sendExpecting sends a request with the login and with retries. It returns a StatusError
// for an unexpected status. The caller closes the response body.
func (s *Session) sendExpecting(ctx context.Context, r request) (*http.Response, error) {
	resp, err := s.auth.sendAuthorized(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.operation, err)
	}
	if !slices.Contains(r.expectedStatuses, resp.StatusCode) {
		return nil, newStatusError(resp, r.operation, s.opts.Shared.now())
	}
	return resp, nil
}
