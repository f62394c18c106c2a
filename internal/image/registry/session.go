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

// Options say how a repository is reached.
type Options struct {
	// Host as it stands in references, such as quay.io, registry.example.com:5000 or
	// [::1]:5000.
	Host string
	// Repository, such as org/name.
	Repository string
	// Push asks for the right to upload, not only to read.
	Push bool
	// Insecure falls back to plain HTTP when the registry does not speak TLS. Whether its
	// certificate is verified is said by TLS.
	Insecure bool
	// Once sends each request one time only: there is somebody else to ask.
	Once bool
	// Unlimited asks as often as it takes, whatever Shared says about the rate.
	Unlimited bool
	// TLS of every connection of the session.
	TLS *tls.Config
	// Login for this repository. Zero: none.
	Login Login
	// UserAgent is sent with each request.
	UserAgent string
	// Answer is how long the head of an answer may take. Zero: as long as the context
	// allows.
	Answer time.Duration
	// Shared is what is known of registries. Required.
	Shared *Shared
}

// Session asks one repository. It keeps connections until it is closed, and is safe for
// concurrent use.
type Session struct {
	opts      Options
	client    *http.Client
	transport *http.Transport
	scheme    *schemeOf
}

const (
	// dialTimeout bounds finding a registry and connecting to it.
	dialTimeout = 15 * time.Second
	// maxHeader bounds the head of an answer, in bytes.
	maxHeader = 256 << 10
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 10
)

// NewSession makes a session. It connects when it is first used.
func NewSession(opts Options) *Session {
	s := &Session{opts: opts, scheme: newSchemeOf(opts.Insecure)}
	s.transport = &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        opts.TLS,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  opts.Answer,
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConns:           8,
		MaxResponseHeaderBytes: maxHeader,
		// What is asked for is compressed already, and a compressed answer could be a bomb.
		DisableCompression: true,
	}

	s.client = &http.Client{Transport: s.transport, CheckRedirect: s.checkRedirect}
	return s
}

// Close closes the connections that are idle; others end with their answer's body.
func (s *Session) Close() { s.transport.CloseIdleConnections() }

// address is where the host is really asked.
func (s *Session) address() string {
	if s.opts.Host == "docker.io" {
		return "registry-1.docker.io"
	}
	return s.opts.Host
}

// checkRedirect lets answers lie elsewhere, as large registries keep their blobs, but
// takes no password there, and nothing over a line that is open to all unless the registry
// itself is such. A redirect that comes back from elsewhere carries no password either: its
// target was not chosen by the registry.
func (s *Session) checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return &RedirectError{}
	}
	if req.URL.Scheme != "https" && (req.URL.Scheme != "http" || !s.opts.Insecure) {
		return &LoginError{fmt.Sprintf("the registry redirects to %s:, which is not followed from a registry that is reached over TLS", req.URL.Scheme)}
	}

	leaves := func(step *http.Request) bool { return !sameOrigin(step.URL, via[0].URL) }
	if leaves(req) || slices.ContainsFunc(via, leaves) {
		req.Header.Del("Authorization")
		req.Header.Del("Referer")
	}

	return nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// request is one request, which can be sent several times.
type request struct {
	what   string // for errors: "read the manifest v1"
	method string
	path   string   // below the host, with its query
	target *url.URL // instead of path: somewhere else
	header http.Header
	body   *body
	want   []int // statuses that are no error
	once   bool  // it is not sent again when it fails
}

// host is what the request is sent to.
func (r *request) host(s *Session) string {
	if r.target != nil {
		return r.target.Host
	}
	return s.address()
}

// do sends a request, with the login if the registry asks for one, and again if a failure
// may pass. The caller closes the answer's body.
func (s *Session) do(ctx context.Context, r request) (*http.Response, error) {
	resp, err := s.sendAuthorized(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}
	if !slices.Contains(r.want, resp.StatusCode) {
		return nil, statusError(resp, r.what, s.opts.Shared.now())
	}
	return resp, nil
}

// sendAuthorized sends a request with what gave access before, and once more with what the
// registry asks for when that is refused. What gives access is remembered for the next
// request, and what does not is forgotten.
func (s *Session) sendAuthorized(ctx context.Context, r request) (*http.Response, error) {
	if r.host(s) != s.address() {
		return s.send(ctx, r, "") // The login is only for the registry.
	}

	authorization, err := s.rememberedAuthorization(ctx)
	if err != nil {
		return nil, err
	}

	resp, err := s.send(ctx, r, authorization)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !s.isOwnAnswer(resp) {
		return resp, err
	}

	s.opts.Shared.forgetGrant(s.grantKey())
	access, authorization, err := s.answerChallenge(ctx, resp, authorization)
	if err != nil {
		closeAnswer(resp)
		return nil, err
	}
	if authorization == "" {
		return resp, nil
	}

	closeAnswer(resp)
	resp, err = s.send(ctx, r, authorization)
	if err == nil && resp.StatusCode != http.StatusUnauthorized {
		s.opts.Shared.storeGrant(s.grantKey(), access)
	}

	return resp, err
}

// send sends a request until it is answered otherwise than "not now".
func (s *Session) send(ctx context.Context, r request, authorization string) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := s.sendOnce(ctx, r, authorization)
		switch {
		case err != nil && (ctx.Err() != nil || !mayPass(err)):
			return nil, err
		case err == nil && !passing(resp.StatusCode):
			return resp, nil
		}

		asked, paused := time.Duration(0), false
		if err == nil {
			asked, paused = retryAfter(resp.Header, s.opts.Shared.now())
		}
		if paused {
			s.opts.Shared.pause(r.host(s), asked) // Whoever asks next waits, be it this loop.
		}
		if attempt >= attempts || s.opts.Once || r.once || s.opts.Shared.tooLong(ctx, asked) {
			return resp, err
		}

		closeAnswer(resp)
		if !paused {
			if err := s.opts.Shared.Wait(ctx, attempt); err != nil {
				return nil, err
			}
		}
	}
}

func closeAnswer(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// mayPass reports whether a request that got no answer may get one later.
func mayPass(err error) bool {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	var login *LoginError
	switch {
	case errors.As(err, &certificate), errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &login), isPause(err):
		return false
	case errors.As(err, &name):
		return !name.IsNotFound
	}

	var network net.Error
	var op *net.OpError
	return errors.As(err, &op) || errors.As(err, &network) && network.Timeout() || isCut(err)
}

func isPause(err error) bool {
	var paused *PausedError
	return errors.As(err, &paused)
}

// isCut reports whether an error is that of a connection which ended too early.
func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (s *Session) sendOnce(ctx context.Context, r request, authorization string) (*http.Response, error) {
	if r.target != nil {
		return s.exchange(ctx, r, r.target, authorization)
	}
	return s.scheme.try(ctx, func(scheme string) (*http.Response, error) {
		target, err := url.Parse(scheme + "://" + s.address() + r.path)
		if err != nil {
			return nil, err
		}
		return s.exchange(ctx, r, target, authorization)
	})
}

// exchange sends a request one time, when its host may be asked.
func (s *Session) exchange(ctx context.Context, r request, target *url.URL, authorization string) (*http.Response, error) {
	if err := s.opts.Shared.admit(ctx, target.Host, s.opts.Unlimited); err != nil {
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
		if err := r.body.attach(req); err != nil {
			return nil, err
		}
	}

	return s.client.Do(req)
}
