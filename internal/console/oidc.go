package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// OIDC signs users in with an OpenID Connect provider: the authorization-code flow with PKCE. The ID token is the
// bearer token of the user for the API server, which has to trust the same provider.
type OIDC struct {
	verifier *oidc.IDTokenVerifier
	config   oauth2.Config
	client   *http.Client
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
	// Scopes are requested in addition to openid.
	Scopes []string
	// Client reaches the provider. The default is http.DefaultClient.
	Client *http.Client
}

// NewOIDC reads the configuration of a provider.
func NewOIDC(ctx context.Context, options OIDCOptions) (*OIDC, error) {
	if options.Client == nil {
		options.Client = http.DefaultClient
	}

	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, options.Client), options.Issuer)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of the identity provider %s: %w", options.Issuer, err)
	}

	return &OIDC{
		verifier: provider.Verifier(&oidc.Config{ClientID: options.ClientID}),
		client:   options.Client,
		config: oauth2.Config{
			ClientID: options.ClientID, ClientSecret: options.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: options.RedirectURL,
			Scopes: append([]string{oidc.ScopeOpenID}, options.Scopes...),
		},
	}, nil
}

// Paths of the sign-in.
const (
	loginPath    = "/auth/login"
	callbackPath = "/auth/callback"
)

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

// startLogin sends the user to the provider.
func (o *OIDC) startLogin(w http.ResponseWriter, r *http.Request, s *Server) {
	state, nonce, pkce := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // it is insecure only for plain HTTP on the loopback interface
		Name: loginCookie, Value: state + "." + nonce + "." + pkce, Path: callbackPath, HttpOnly: true, Secure: !s.options.Insecure,
		SameSite: http.SameSiteLaxMode, MaxAge: int(loginTimeout.Seconds()),
	})
	http.Redirect(w, r, o.config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(pkce)), http.StatusFound)
}

// finishLogin exchanges the code of the provider for a token, and creates the session.
func (o *OIDC) finishLogin(w http.ResponseWriter, r *http.Request, s *Server) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // it is insecure only for plain HTTP on the loopback interface
		Name: loginCookie, Path: callbackPath, MaxAge: -1, HttpOnly: true, Secure: !s.options.Insecure, SameSite: http.SameSiteLaxMode,
	})
	token, err := o.redeemCode(r)
	if err != nil {
		s.options.Log.Info("Sign-in refused", "reason", err.Error())
		http.Error(w, "Signing in failed: "+asSentence(err.Error())+" Go back to the console and sign in again.", http.StatusUnauthorized)
		return
	}

	created, secret, err := s.createSession(r.Context(), s.newTokenConfig(token))
	if err != nil {
		s.options.Log.Info("Sign-in refused", "reason", err.Error())
		http.Error(w, "Signing in failed: "+err.Error()+" The API server has to trust the identity provider: see its flags --oidc-issuer-url and --oidc-client-id.", http.StatusForbidden)
		return
	}

	s.options.Log.Info("Signed in", "user", created.User)
	http.SetCookie(w, s.newCookie(secret))
	http.Redirect(w, r, "/", http.StatusFound)
}

// redeemCode returns the ID token for the code in a callback.
func (o *OIDC) redeemCode(r *http.Request) (string, error) {
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		return "", errors.New("the sign-in took too long, or was started in another browser")
	}

	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 {
		return "", errors.New("the cookie of the sign-in is damaged")
	}

	state, nonce, pkce := parts[0], parts[1], parts[2]
	query := r.URL.Query()
	if refusal := query.Get("error"); refusal != "" {
		return "", fmt.Errorf("the identity provider refused: %q", refusal)
	}
	if query.Get("state") != state {
		return "", errors.New("the answer of the identity provider belongs to another sign-in")
	}

	ctx := oidc.ClientContext(r.Context(), o.client)
	token, err := o.config.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(pkce))
	if err != nil {
		return "", fmt.Errorf("exchanging the code: %w", err)
	}

	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return "", errors.New("the identity provider returned no ID token")
	}

	verified, err := o.verifier.Verify(ctx, raw)
	if err != nil {
		return "", err
	}
	if verified.Nonce != nonce {
		return "", errors.New("the ID token belongs to another sign-in")
	}
	return raw, nil
}
