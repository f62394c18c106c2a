package registry

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// schemeDetector finds out whether a registry speaks TLS. Plain HTTP is tried only for an
// insecure registry, and only after TLS failed.
type schemeDetector struct {
	mu    sync.Mutex
	known string // empty while unknown
}

func newSchemeDetector(insecure bool) *schemeDetector {
	if insecure {
		return &schemeDetector{}
	}
	return &schemeDetector{known: "https"}
}

// sendWithScheme calls send with the scheme of the registry.
func (s *schemeDetector) sendWithScheme(ctx context.Context, send func(scheme string) (*http.Response, error)) (*http.Response, error) {
	s.mu.Lock()
	scheme := s.known
	s.mu.Unlock()
	if scheme != "" {
		return send(scheme)
	}

	scheme = "https"
	resp, err := send(scheme)
	if err != nil && ctx.Err() == nil && !isPausedError(err) && !isRefusedRedirect(err) {
		plain, plainErr := send("http")
		// If the registry speaks HTTP, the error of HTTP is more precise.
		if plainErr == nil || isRefusedRedirect(plainErr) || errors.Is(err, http.ErrSchemeMismatch) {
			scheme, resp, err = "http", plain, plainErr
		}
	}

	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	s.known = scheme
	s.mu.Unlock()

	return resp, nil
}

// isRefusedRedirect reports whether a registry responded with a redirect that is not
// followed. Such a registry speaks the scheme of the request.
func isRefusedRedirect(err error) bool {
	var endless *RedirectError
	var login *LoginError
	return errors.As(err, &endless) || errors.As(err, &login)
}
