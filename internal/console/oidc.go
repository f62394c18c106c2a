package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// OIDC signs users in with an OpenID Connect provider: the authorization-code flow with PKCE. The ID token is the
// bearer token of the user for the API server, which has to trust the same provider.
type OIDC struct {
	options OIDCOptions

	mu sync.Mutex
	// provider is nil until the configuration of the provider has been read.
	provider *oidc.Provider
}

// OIDCOptions configure the sign-in with a provider.
type OIDCOptions struct {
	// Issuer is the URL of the provider, as in the API server's --oidc-issuer-url.
	Issuer string
	// ClientID and ClientSecret identify the console. The API server accepts tokens for its own --oidc-client-id, which is
	// the same client, or the audience of another. A public client has no secret.
	ClientID, ClientSecret string
	// RedirectURL is the address of /auth/callback of the console.
	RedirectURL string
	// Scopes are requested in addition to openid. With offline_access, most providers issue a token that renews the
	// ID token while the user works.
	Scopes []string
	// Client reaches the provider. The default is a client with a timeout of 10 seconds.
	Client *http.Client
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// NewOIDC returns the sign-in with a provider. It does not reach the provider: the first user who signs in does.
func NewOIDC(options OIDCOptions) (*OIDC, error) {
	issuer, err := url.Parse(options.Issuer)
	switch {
	case err != nil || issuer.Host == "":
		return nil, fmt.Errorf("the issuer %q of the identity provider is not a URL", options.Issuer)
	case issuer.Scheme != "https":
		return nil, fmt.Errorf("the issuer %q of the identity provider must be an https URL", options.Issuer)
	case options.ClientID == "":
		return nil, errors.New("the client ID of the console is missing")
	}

	if options.Client == nil {
		options.Client = &http.Client{Timeout: providerTimeout}
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &OIDC{options: options}, nil
}

// providerTimeout limits a request to the provider.
const providerTimeout = 10 * time.Second

// loadProvider returns the provider. It reads the provider's configuration if that has not succeeded yet.
func (o *OIDC) loadProvider(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}

	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, o.options.Client), o.options.Issuer)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of the identity provider: %w", err)
	}
	o.provider = provider
	return provider, nil
}

// newConfig returns the client of a provider.
func (o *OIDC) newConfig(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.options.ClientID, ClientSecret: o.options.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: o.options.RedirectURL,
		Scopes: append([]string{oidc.ScopeOpenID}, o.options.Scopes...),
	}
}

// Paths of the sign-in.
const (
	loginPath    = "/auth/login"
	callbackPath = "/auth/callback"
)

// CallbackPath is the path of the address to which the provider sends users back.
const CallbackPath = callbackPath

// loginCookie is the cookie with the state of a sign-in. It has to survive the redirect from the provider, which is
// another site, and so cannot be SameSite=Strict.
const loginCookie = "mainstay-login"

// loginTimeout is the time that a user has to sign in at the provider.
const loginTimeout = 10 * time.Minute

// registerPaths adds the paths of the sign-in.
func (o *OIDC) registerPaths(mux *http.ServeMux, s *Server) {
	mux.HandleFunc("GET "+loginPath, func(w http.ResponseWriter, r *http.Request) { o.startLogin(w, r, s) })
	mux.HandleFunc("GET "+callbackPath, func(w http.ResponseWriter, r *http.Request) { o.finishLogin(w, r, s) })
}

// newLoginCookie returns the cookie of a sign-in. An empty value deletes it.
func newLoginCookie(value string, s *Server) *http.Cookie {
	cookie := &http.Cookie{ //nolint:gosec // it is insecure only for plain HTTP on the loopback interface
		Name: loginCookie, Value: value, Path: callbackPath, HttpOnly: true, Secure: !s.options.Insecure, SameSite: http.SameSiteLaxMode,
		MaxAge: int(loginTimeout.Seconds()),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// startLogin sends the user to the provider.
func (o *OIDC) startLogin(w http.ResponseWriter, r *http.Request, s *Server) {
	provider, err := o.loadProvider(r.Context())
	if err != nil {
		s.options.Log.Info("The identity provider does not answer", "issuer", o.options.Issuer, "reason", err.Error())
		http.Error(w, "The identity provider does not answer. Go back to the console and try again later.", http.StatusBadGateway)
		return
	}

	state, nonce, pkce := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	http.SetCookie(w, newLoginCookie(state+"."+nonce+"."+pkce, s))
	http.Redirect(w, r, o.newConfig(provider).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(pkce)), http.StatusFound)
}

// finishLogin exchanges the code of the provider for a token, and creates the session.
func (o *OIDC) finishLogin(w http.ResponseWriter, r *http.Request, s *Server) {
	http.SetCookie(w, newLoginCookie("", s))
	token, err := o.redeemCode(r)
	if err != nil {
		s.options.Log.Info("Sign-in refused", "reason", err.Error())
		http.Error(w, "Signing in failed: "+asSentence(err.Error())+" Go back to the console and sign in again.", http.StatusUnauthorized)
		return
	}

	config := rest.AnonymousClientConfig(s.options.Config)
	config.Wrap(token.authenticateRequests)
	_, secret, err := s.createSession(r.Context(), session.Credentials{Config: config, Expires: token.expiryTime})
	if err != nil {
		s.options.Log.Info("Sign-in refused", "reason", err.Error())
		http.Error(w, "Signing in failed: "+asSentence(err.Error())+" The API server has to trust the identity provider: see its flags --oidc-issuer-url and --oidc-client-id.", http.StatusForbidden)
		return
	}

	http.SetCookie(w, s.newCookie(secret))
	http.Redirect(w, r, "/", http.StatusFound)
}

// redeemCode returns the token for the code in a callback.
func (o *OIDC) redeemCode(r *http.Request) (*userToken, error) {
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		return nil, errors.New("the sign-in took too long, or was started in another browser")
	}

	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return nil, errors.New("the cookie of the sign-in is damaged")
	}

	state, nonce, pkce := parts[0], parts[1], parts[2]
	query := r.URL.Query()
	if query.Get("state") != state {
		return nil, errors.New("the answer of the identity provider belongs to another sign-in")
	}
	if refusal := query.Get("error"); refusal != "" {
		return nil, fmt.Errorf("the identity provider refused: %q", refusal)
	}

	provider, err := o.loadProvider(r.Context())
	if err != nil {
		return nil, err
	}

	ctx := oidc.ClientContext(r.Context(), o.options.Client)
	answer, err := o.newConfig(provider).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(pkce))
	if err != nil {
		return nil, describeRefusal("exchanging the code", err)
	}

	verified, raw, err := o.verifyIDToken(ctx, provider, answer)
	if err != nil {
		return nil, err
	}
	if verified.Nonce != nonce {
		return nil, errors.New("the ID token belongs to another sign-in")
	}
	return &userToken{oidc: o, subject: verified.Subject, raw: raw, expiry: verified.Expiry, refresh: answer.RefreshToken}, nil
}

// verifyIDToken returns the ID token in an answer of the provider.
func (o *OIDC) verifyIDToken(ctx context.Context, provider *oidc.Provider, answer *oauth2.Token) (*oidc.IDToken, string, error) {
	raw, ok := answer.Extra("id_token").(string)
	if !ok {
		return nil, "", errors.New("the identity provider returned no ID token")
	}

	verified, err := provider.Verifier(&oidc.Config{ClientID: o.options.ClientID, Now: o.options.Now}).Verify(ctx, raw)
	if err != nil {
		return nil, "", fmt.Errorf("verifying the ID token: %w", err)
	}
	return verified, raw, nil
}

// describeRefusal returns an error without the body of a response, which is written by the provider and may contain
// anything.
func describeRefusal(what string, err error) error {
	var refusal *oauth2.RetrieveError
	if errors.As(err, &refusal) && refusal.Response != nil {
		return fmt.Errorf("%s: the identity provider refused with status %d and the error %q", what, refusal.Response.StatusCode, refusal.ErrorCode)
	}
	return fmt.Errorf("%s: %w", what, err)
}
