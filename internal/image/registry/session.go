package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"syscall"
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

// Session sends requests to one repository. It keeps connections until it is closed, and is
// safe for concurrent use.
type Session struct {
	opts      Options
	client    *http.Client
	transport *http.Transport
	scheme    *schemeDetector
}

const (
	// dialTimeout bounds the DNS lookup and the connection to a registry.
	dialTimeout = 15 * time.Second
	// maxResponseHeaderBytes bounds the header of a response.
	maxResponseHeaderBytes = 256 << 10
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 10
)

// NewSession returns a session. It connects when it is first used.
func NewSession(opts Options) *Session {
	s := &Session{opts: opts, scheme: newSchemeDetector(opts.Insecure)}
	s.transport = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        opts.TLS,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  opts.ResponseTimeout,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConns:           8,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		// Blobs are compressed already, and a compressed response could be a bomb.
		DisableCompression: true,
	}

	s.client = &http.Client{Transport: s.transport, CheckRedirect: s.checkRedirect}
	return s
}

// Close closes idle connections. Other connections are closed with the body of their
// response.
func (s *Session) Close() { s.transport.CloseIdleConnections() }

// registryAddress returns the host to connect to.
func (s *Session) registryAddress() string {
	if s.opts.Host == "docker.io" {
		return "registry-1.docker.io"
	}
	return s.opts.Host
}

// checkRedirect follows redirects to other hosts, because large registries store their
// blobs there, but does not send the login there. It follows a redirect to plain HTTP only
// if the registry is insecure. A redirect that comes back from another host carries no
// login either, because the registry did not choose its target.
func (s *Session) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return &RedirectError{}
	}
	if req.URL.Scheme != "https" && (req.URL.Scheme != "http" || !s.opts.Insecure) {
		return &LoginError{fmt.Sprintf("the registry redirects to %s:, which is not followed from a registry that is reached over TLS", req.URL.Scheme)}
	}

	leaves := func(step *http.Request) bool { return !isSameOrigin(step.URL, via[0].URL) }
	if leaves(req) || slices.ContainsFunc(via, leaves) {
		req.Header.Del("Authorization")
		req.Header.Del("Referer")
	}

	return nil
}

func isSameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// request is a request that can be sent several times.
type request struct {
	operation        string // for errors: "read the manifest v1"
	method           string
	path             string   // below the host, with its query
	target           *url.URL // full URL, instead of path
	header           http.Header
	body             *requestBody
	expectedStatuses []int // statuses that are not an error
	singleAttempt    bool  // no retries
}

// targetHost returns the host to which the request is sent.
func (r *request) targetHost(s *Session) string {
	if r.target != nil {
		return r.target.Host
	}
	return s.registryAddress()
}

// sendExpecting sends a request with the login and with retries. It returns a StatusError
// for an unexpected status. The caller closes the response body.
func (s *Session) sendExpecting(ctx context.Context, r request) (*http.Response, error) {
	resp, err := s.sendAuthorized(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.operation, err)
	}
	if !slices.Contains(r.expectedStatuses, resp.StatusCode) {
		return nil, newStatusError(resp, r.operation, s.opts.Shared.now())
	}
	return resp, nil
}

// sendAuthorized sends a request with the remembered grant. If the registry refuses it, the
// request is sent once more with an answer to the registry's challenge. A grant that
// succeeds is remembered, and one that fails is forgotten.
func (s *Session) sendAuthorized(ctx context.Context, r request) (*http.Response, error) {
	if r.targetHost(s) != s.registryAddress() {
		return s.sendWithRetries(ctx, r, "") // The login is for the registry only.
	}

	authorization, err := s.rememberedAuthorization(ctx)
	if err != nil {
		return nil, err
	}

	resp, err := s.sendWithRetries(ctx, r, authorization)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !s.isOwnResponse(resp) {
		return resp, err
	}

	s.opts.Shared.forgetGrant(s.grantKey())
	access, authorization, err := s.answerChallenge(ctx, resp, authorization)
	if err != nil {
		closeResponse(resp)
		return nil, err
	}
	if authorization == "" {
		return resp, nil
	}

	closeResponse(resp)
	resp, err = s.sendWithRetries(ctx, r, authorization)
	if err == nil && resp.StatusCode != http.StatusUnauthorized {
		s.opts.Shared.rememberGrant(s.grantKey(), access)
	}

	return resp, err
}

// sendWithRetries sends a request, and retries it after transient errors and statuses.
func (s *Session) sendWithRetries(ctx context.Context, r request, authorization string) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := s.sendSingleAttempt(ctx, r, authorization)
		switch {
		case err != nil && (ctx.Err() != nil || !isTransientError(err)):
			return nil, err
		case err == nil && !isTransientStatus(resp.StatusCode):
			return resp, nil
		}

		requestedPause := time.Duration(0)
		paused := false
		if err == nil {
			requestedPause, paused = parseRetryAfter(resp.Header, s.opts.Shared.now())
		}
		if paused {
			s.opts.Shared.pauseHost(r.targetHost(s), requestedPause) // The next request to the host waits, also that of this loop.
		}
		if attempt >= maxAttempts || s.opts.SingleAttempt || r.singleAttempt || s.opts.Shared.exceedsWaitLimit(ctx, requestedPause) {
			return resp, err
		}

		closeResponse(resp)
		if !paused {
			if err := s.opts.Shared.WaitBeforeRetry(ctx, attempt); err != nil {
				return nil, err
			}
		}
	}
}

func closeResponse(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// isTransientError reports whether a request that got no response may succeed later.
func isTransientError(err error) bool {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	var login *LoginError
	switch {
	case errors.As(err, &certificate), errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &login), isPausedError(err):
		return false
	case errors.As(err, &name):
		return !name.IsNotFound
	}

	var network net.Error
	var op *net.OpError
	return errors.As(err, &op) || errors.As(err, &network) && network.Timeout() || isBrokenConnection(err)
}

func isPausedError(err error) bool {
	var paused *PausedError
	return errors.As(err, &paused)
}

// isBrokenConnection reports whether an error is that of a connection that ended too early.
func isBrokenConnection(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// sendSingleAttempt sends a request once, with the scheme of the registry.
func (s *Session) sendSingleAttempt(ctx context.Context, r request, authorization string) (*http.Response, error) {
	if r.target != nil {
		return s.sendOverHTTP(ctx, r, r.target, authorization)
	}
	return s.scheme.sendWithScheme(ctx, func(scheme string) (*http.Response, error) {
		target, err := url.Parse(scheme + "://" + s.registryAddress() + r.path)
		if err != nil {
			return nil, err
		}
		return s.sendOverHTTP(ctx, r, target, authorization)
	})
}

// sendOverHTTP sends one HTTP request, as soon as the rate limit and the pause of its host
// allow it.
func (s *Session) sendOverHTTP(ctx context.Context, r request, target *url.URL, authorization string) (*http.Response, error) {
	if err := s.opts.Shared.waitUntilAllowed(ctx, target.Host, s.opts.Unlimited); err != nil {
		return nil, err
	}

	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), nil)
	if err != nil {
		return nil, err
	}

	for name, values := range r.header {
		req.Header[name] = values
	}

	req.Header.Set("User-Agent", s.opts.UserAgent)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}

	if r.body != nil {
		if err := r.body.attachToRequest(req); err != nil {
			return nil, err
		}
	}

	return s.client.Do(req)
}
