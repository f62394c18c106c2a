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
	"strings"
	"syscall"
	"time"
)

// sender sends the requests of a session: it finds the scheme of the registry, retries after
// transient failures, and respects the rate limit and the pauses of Shared. It adds no login.
type sender struct {
	opts      *Options
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

func newSender(opts *Options) *sender {
	s := &sender{opts: opts, scheme: newSchemeDetector(opts.Insecure)}
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

// checkRedirect follows redirects to other hosts, because large registries store their
// blobs there, but does not send the login there. It follows a redirect to plain HTTP only
// if the registry is insecure. A redirect that comes back from another host carries no
// login either, because the registry did not choose its target.
func (s *sender) checkRedirect(req *http.Request, via []*http.Request) error {
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
func (r *request) targetHost(opts *Options) string {
	if r.target != nil {
		return r.target.Host
	}
	return opts.registryAddress()
}

// pauseScope returns the part of a registry to which the request belongs: the repository of the
// session if its path is one of that repository, and otherwise the whole host.
func (r *request) pauseScope(opts *Options) pauseScope {
	path := r.path
	if r.target != nil {
		path = r.target.EscapedPath()
	}

	scope := pauseScope{host: r.targetHost(opts)}
	if scope.host == opts.registryAddress() && strings.HasPrefix(path, repositoryPath(opts.Repository)) {
		scope.repository = opts.Repository
	}
	return scope
}

// sendWithRetries sends a request, and retries it after transient errors and statuses.
func (s *sender) sendWithRetries(ctx context.Context, r request, authorization string) (*http.Response, error) {
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
			s.opts.Shared.pauseRequests(r.pauseScope(s.opts).forStatus(resp.StatusCode), requestedPause) // The next request waits, also that of this loop.
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
func (s *sender) sendSingleAttempt(ctx context.Context, r request, authorization string) (*http.Response, error) {
	if r.target != nil {
		return s.sendOverHTTP(ctx, r, r.target, authorization)
	}
	return s.scheme.sendWithScheme(ctx, func(scheme string) (*http.Response, error) {
		target, err := url.Parse(scheme + "://" + s.opts.registryAddress() + r.path)
		if err != nil {
			return nil, err
		}
		return s.sendOverHTTP(ctx, r, target, authorization)
	})
}

// sendOverHTTP sends one HTTP request, as soon as the rate limit and the pauses of its host
// and its repository allow it.
func (s *sender) sendOverHTTP(ctx context.Context, r request, target *url.URL, authorization string) (*http.Response, error) {
	if err := s.opts.Shared.waitUntilAllowed(ctx, r.pauseScope(s.opts), s.opts.Unlimited); err != nil {
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
