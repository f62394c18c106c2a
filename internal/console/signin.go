package console

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/client-go/rest"

	"github.com/mainstay-dev/mainstay/internal/console/session"
)

// SessionInfo describes the session of a browser.
type SessionInfo struct {
	SignedIn bool     `json:"signedIn"`
	User     string   `json:"user,omitempty"`
	Groups   []string `json:"groups,omitempty"`
	// CSRFToken is the value of the header X-CSRF-Token of writes.
	CSRFToken string `json:"csrfToken,omitempty"`
	// SignIn is how users sign in: with a secret in the address, a token, or an identity provider.
	SignIn  string `json:"signIn" enum:"secret,token,oidc"`
	Version string `json:"version"`
}

// Credentials sign a user in. One of them is set.
type Credentials struct {
	// Secret is the one-time secret of the address.
	Secret string `json:"secret,omitempty" maxLength:"256"`
	// Token is a bearer token of the API server.
	Token string `json:"token,omitempty" maxLength:"65536"`
}

// sessionResponse is a response that may set the cookie.
type sessionResponse struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      SessionInfo
}

func (s *Server) registerSession() {
	huma.Register(s.api, huma.Operation{OperationID: "getSession", Method: http.MethodGet, Path: apiPrefix + "/session", Summary: "Who is signed in"},
		func(ctx context.Context, _ *struct{}) (*body[SessionInfo], error) {
			return &body[SessionInfo]{Body: s.describeSession(sessionOf(ctx))}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "signIn", Method: http.MethodPost, Path: apiPrefix + "/session", Summary: "Sign in"},
		func(ctx context.Context, input *struct{ Body Credentials }) (*sessionResponse, error) {
			created, secret, err := s.signIn(ctx, &input.Body)
			if err != nil {
				return nil, toProblem(err)
			}
			return &sessionResponse{SetCookie: *s.newCookie(secret), Body: s.describeSession(created)}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "signOut", Method: http.MethodDelete, Path: apiPrefix + "/session", Summary: "Sign out"},
		func(ctx context.Context, _ *struct{}) (*sessionResponse, error) {
			s.sessions.Remove(sessionOf(ctx))
			return &sessionResponse{SetCookie: *s.newCookie(""), Body: s.describeSession(nil)}, nil
		})
}

// describeSession returns what the browser knows of a session. It is nil if nobody is signed in.
func (s *Server) describeSession(current *session.Session) SessionInfo {
	info := SessionInfo{SignIn: "token", Version: s.options.Version}
	switch {
	case s.options.OIDC != nil:
		info.SignIn = "oidc"
	case s.secret != nil:
		info.SignIn = "secret"
	}
	if current != nil {
		info.SignedIn, info.User, info.Groups, info.CSRFToken = true, current.User, current.Groups, current.CSRF
	}
	return info
}

// signIn creates a session. It returns the secret of the cookie.
func (s *Server) signIn(ctx context.Context, credentials *Credentials) (*session.Session, string, error) {
	switch {
	case s.secret != nil:
		if err := s.secret.redeemSecret(credentials.Secret); err != nil {
			return nil, "", newProblem(http.StatusUnauthorized, asSentence(err.Error()), "Run 'mainstay console' again for a new address.")
		}
		return s.createSession(ctx, rest.CopyConfig(s.options.Config))
	case credentials.Token == "":
		return nil, "", newProblem(http.StatusUnprocessableEntity, "The token is missing.", "Paste a bearer token, for example the output of 'kubectl create token SERVICEACCOUNT'.")
	case strings.ContainsFunc(credentials.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, "", errWrongCredentials
	default:
		return s.createSession(ctx, s.newTokenConfig(credentials.Token))
	}
}

// errWrongCredentials means that the API server does not know the user.
var errWrongCredentials = newProblem(http.StatusUnauthorized, "The API server does not accept these credentials.",
	"Check that the token is complete, that it has not expired, and that it is for this cluster.")

// newTokenConfig returns a configuration with a bearer token, and without any credentials of the console.
func (s *Server) newTokenConfig(token string) *rest.Config {
	config := rest.AnonymousClientConfig(s.options.Config)
	config.BearerToken = token
	return config
}

// createSession creates a session of the user that a configuration acts as.
func (s *Server) createSession(ctx context.Context, config *rest.Config) (*session.Session, string, error) {
	config.UserAgent = "mainstay-console"
	config.QPS, config.Burst = sessionQPS, sessionBurst
	created, secret, err := session.New(ctx, config, s.scheme)
	if errors.Is(err, session.ErrUnauthenticated) {
		return nil, "", errWrongCredentials
	}
	if err != nil {
		return nil, "", err
	}
	if err := s.sessions.Add(created); err != nil {
		return nil, "", newProblem(http.StatusServiceUnavailable, asSentence(err.Error()), "")
	}
	return created, secret, nil
}

// sessionQPS and sessionBurst limit the requests of a session to the API server.
const (
	sessionQPS   = 50
	sessionBurst = 100
)
