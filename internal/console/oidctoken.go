package console

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// userToken is the ID token of a user. If the provider has issued a refresh token, the ID token is renewed shortly before
// it expires.
type userToken struct {
	oidc    *OIDC
	subject string

	mu     sync.Mutex
	raw    string
	expiry time.Time
	// refresh is the refresh token. It is empty if there is none, or if the provider no longer accepts it.
	refresh string
}

// renewalMargin is how long before its expiry an ID token is renewed.
const renewalMargin = 30 * time.Second

// expiryTime returns the time at which the token expires, or zero if it can be renewed.
func (t *userToken) expiryTime() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refresh != "" {
		return time.Time{}
	}
	return t.expiry
}

// authenticateRequests returns a transport that adds the token to each request.
func (t *userToken) authenticateRequests(next http.RoundTripper) http.RoundTripper {
	return bearerTransport{token: t, next: next}
}

// bearerTransport adds a token to each request.
type bearerTransport struct {
	token *userToken
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := b.token.currentToken(r.Context())
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // the contract of RoundTripper
		}
		return nil, err
	}

	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+raw)
	return b.next.RoundTrip(r)
}

// currentToken returns the ID token, which it renews if it is about to expire. A token that has expired and cannot be
// renewed is returned as it is: the API server refuses it, and the session ends.
func (t *userToken) currentToken(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.oidc.options.Now()
	if t.refresh == "" || now.Before(t.expiry.Add(-renewalMargin)) {
		return t.raw, nil
	}

	// Requests of the same user wait for the renewal. It must not depend on the request that happens to start it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout)
	defer cancel()
	err := t.renewToken(ctx)
	var refusal *oauth2.RetrieveError
	switch {
	case err == nil:
	case errors.As(err, &refusal) && refusal.Response != nil && refusal.Response.StatusCode < http.StatusInternalServerError, errors.Is(err, errNoRenewal):
		t.refresh = ""
	case now.Before(t.expiry): // the provider does not answer, and there is time to try again
	default:
		return "", describeRefusal("renewing the ID token", err)
	}
	return t.raw, nil
}

// errNoRenewal means that the provider renews no ID tokens.
var errNoRenewal = errors.New("the renewed token is not an ID token of the same user")

// renewToken replaces the token. The caller holds the lock.
func (t *userToken) renewToken(ctx context.Context) error {
	ctx = oidc.ClientContext(ctx, t.oidc.options.Client)
	provider, err := t.oidc.loadProvider(ctx)
	if err != nil {
		return err
	}

	answer, err := t.oidc.newConfig(provider).TokenSource(ctx, &oauth2.Token{RefreshToken: t.refresh}).Token()
	if err != nil {
		return err
	}

	verified, raw, err := t.oidc.verifyIDToken(ctx, provider, answer)
	if err != nil || verified.Subject != t.subject {
		return errors.Join(errNoRenewal, err)
	}

	t.raw, t.expiry = raw, verified.Expiry
	if answer.RefreshToken != "" {
		t.refresh = answer.RefreshToken
	}
	return nil
}
