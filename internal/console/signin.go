package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

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
			current := sessionOf(ctx)
			s.sessions.Remove(current)
			s.options.Log.Info("Signed out", "user", current.User)
			return &sessionResponse{SetCookie: *s.newCookie(""), Body: s.describeSession(nil)}, nil
		})
}

// describeSession returns the information of a session for the browser. It is nil if no user is signed in.
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
		return s.createSession(ctx, session.Credentials{Config: s.options.Config})
	case credentials.Token == "":
		return nil, "", newProblem(http.StatusUnprocessableEntity, "The token is missing.", "Paste a bearer token, for example the output of 'kubectl create token SERVICEACCOUNT'.")
	case strings.ContainsFunc(credentials.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, "", errWrongCredentials
	default:
		config := rest.AnonymousClientConfig(s.options.Config)
		config.BearerToken = credentials.Token
		expiry := parseExpiry(credentials.Token)
		return s.createSession(ctx, session.Credentials{Config: config, Expires: func() time.Time { return expiry }})
	}
}

// errWrongCredentials means that the API server does not know the user.
var errWrongCredentials = newProblem(http.StatusUnauthorized, "The API server does not accept these credentials.",
	"Check that the token is complete, that it has not expired, and that it is for this cluster.")

// parseExpiry returns the time at which a token expires, or zero if the token does not say so. It does not verify the
// token: the API server does.
func parseExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}

	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expiry int64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expiry <= 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expiry, 0)
}

// createSession creates a session with the credentials of a user.
func (s *Server) createSession(ctx context.Context, credentials session.Credentials) (*session.Session, string, error) {
	credentials.Config = rest.CopyConfig(credentials.Config)
	credentials.Config.UserAgent = "mainstay-console"
	credentials.Config.QPS, credentials.Config.Burst = sessionQPS, sessionBurst
	created, secret, err := session.New(ctx, credentials, s.scheme)
	if errors.Is(err, session.ErrUnauthenticated) {
		return nil, "", errWrongCredentials
	}
	if err != nil {
		return nil, "", err
	}

	created.Client = newAuditedClient(created.Client, s.options.Log.WithValues("user", created.User))
	if err := s.sessions.Add(created); err != nil {
		return nil, "", newProblem(http.StatusServiceUnavailable, asSentence(err.Error()), "")
	}
	s.options.Log.Info("Signed in", "user", created.User)
	return created, secret, nil
}

// sessionQPS and sessionBurst limit the requests of a session to the API server.
const (
	sessionQPS   = 50
	sessionBurst = 100
)
