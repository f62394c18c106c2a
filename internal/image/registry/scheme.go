package registry

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// schemeOf finds out whether a registry speaks TLS. Only an insecure one is asked over
// plain HTTP, and only when TLS failed.
type schemeOf struct {
	mu    sync.Mutex
	known string // empty: not known yet
}

func newSchemeOf(insecure bool) *schemeOf {
	if insecure {
		return &schemeOf{}
	}
	return &schemeOf{known: "https"}
}

// try sends a request over what the registry speaks.
func (s *schemeOf) try(ctx context.Context, send func(scheme string) (*http.Response, error)) (*http.Response, error) {
	s.mu.Lock()
	scheme := s.known
	s.mu.Unlock()
	if scheme != "" {
		return send(scheme)
	}

	scheme = "https"
	resp, err := send(scheme)
	if err != nil && ctx.Err() == nil && !isPause(err) && !isRefusedRedirect(err) {
		plain, plainErr := send("http")
		// The error of HTTP is the better one where the registry speaks that.
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

// isRefusedRedirect reports whether a registry answered with a redirect that is not
// followed. It then speaks the scheme that it was asked by.
func isRefusedRedirect(err error) bool {
	var endless *RedirectError
	var login *LoginError
	return errors.As(err, &endless) || errors.As(err, &login)
}
