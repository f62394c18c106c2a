package registry

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	authchallenge "github.com/docker/distribution/registry/client/auth/challenge"
)

// Login is a login to a registry.
type Login struct {
	Username, Password string
	// IdentityToken is exchanged for an access token instead of a password.
	IdentityToken string
}

// basicAuthorization returns the Authorization header with the user name and the password.
// It is empty when both are empty.
func (l Login) basicAuthorization() string {
	if l.Username == "" && l.Password == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))
}

// challenge is how a registry asks for a login. It has no scope, because the session alone
// determines what a token is requested for.
type challenge struct {
	// basic asks for the login itself. Otherwise the login is exchanged for a token.
	basic bool
	// realm is the URL of the token server, and service the name of the registry there.
	realm, service string
}

// grantKey identifies who accesses what. A grant for one key is never used for another: the
// repositories of one registry may belong to people who do not trust each other.
type grantKey struct {
	host string
	// insecure separates what was learned over a connection that others can read and change
	// from the sessions that verify their registry.
	insecure   bool
	repository string
	push       bool
	login      [sha256.Size]byte
}

// grant is the login method that succeeded last: the registry's challenge, and the token
// that the login was exchanged for.
type grant struct {
	challenge challenge
	token     token
}

func (s *Session) grantKey() grantKey {
	l := s.opts.Login
	text := strings.Join([]string{l.Username, l.Password, l.IdentityToken}, "\x00")
	return grantKey{
		host: s.registryAddress(), insecure: s.opts.Insecure,
		repository: s.opts.Repository, push: s.opts.Push, login: sha256.Sum256([]byte(text)),
	}
}

// rememberedAuthorization returns the Authorization header of the remembered grant, with a
// new token if the last one has expired. It returns an empty header when nothing is
// remembered, or when the token server fails: the registry then sends a new challenge. It
// returns an error only if ctx is done.
func (s *Session) rememberedAuthorization(ctx context.Context) (string, error) {
	key := s.grantKey()
	g, ok := s.opts.Shared.rememberedGrant(key)
	switch {
	case !ok:
		return "", nil
	case g.challenge.basic:
		return s.opts.Login.basicAuthorization(), nil
	case s.opts.Shared.now().Before(g.token.expires):
		return g.token.authorizationHeader(), nil
	}

	// One attempt is enough, because the registry can be asked again.
	renewed, err := s.fetchAccessToken(ctx, g.challenge, true)
	if err != nil {
		s.opts.Shared.forgetGrant(key)
		if ctx.Err() != nil {
			return "", err
		}
		return "", nil
	}

	s.opts.Shared.rememberGrant(key, grant{challenge: g.challenge, token: renewed})
	return renewed.authorizationHeader(), nil
}

// answerChallenge returns the grant for a request that was refused with 401, and its
// Authorization header. The header is empty when no method is left that was not tried.
func (s *Session) answerChallenge(ctx context.Context, refused *http.Response, tried string) (grant, string, error) {
	c, err := s.chooseChallenge(ctx, refused)
	if c == nil || err != nil {
		return grant{}, "", err
	}

	if c.basic {
		header := s.opts.Login.basicAuthorization()
		if header == tried {
			header = ""
		}
		return grant{challenge: *c}, header, nil
	}

	fetched, err := s.fetchAccessToken(ctx, *c, false)
	if err != nil {
		return grant{}, "", err
	}

	return grant{challenge: *c, token: fetched}, fetched.authorizationHeader(), nil
}

// chooseChallenge returns the challenge to answer, or nil if there is none. A repository's
// own challenge is used if it does not send the login to another host. Otherwise only the
// challenge of the registry's base endpoint is used, which no repository controls.
// Container tools use the challenge of that endpoint, too.
func (s *Session) chooseChallenge(ctx context.Context, refused *http.Response) (*challenge, error) {
	c, err := s.parseChallenge(refused)
	if err != nil {
		return nil, err
	}
	if c != nil && (s.opts.Login == Login{} || c.basic || s.isOwnTokenServer(c.realm)) {
		return c, nil
	}

	base, err := s.fetchBaseChallenge(ctx)
	if err != nil {
		return nil, err
	}
	if base == nil && c != nil {
		return nil, &LoginError{fmt.Sprintf("the repository wants the login to be sent to %s, "+
			"which the registry's base endpoint (/v2/) does not name as its token server; it is not sent", hostOfURL(c.realm))}
	}

	return base, nil
}

// fetchBaseChallenge returns the challenge of the registry's base endpoint.
func (s *Session) fetchBaseChallenge(ctx context.Context) (*challenge, error) {
	resp, err := s.sendWithRetries(ctx, request{method: http.MethodGet, path: "/v2/"}, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // Only the header is needed.

	if !s.isOwnResponse(resp) {
		return nil, nil
	}

	return s.parseChallenge(resp)
}

// isOwnResponse reports whether the response is from the registry itself, not from the
// target of a redirect.
func (s *Session) isOwnResponse(resp *http.Response) bool {
	return resp.Request.URL.Host == s.registryAddress()
}

// isOwnTokenServer reports whether a token server has the registry's own address.
func (s *Session) isOwnTokenServer(realm string) bool { return hostOfURL(realm) == s.registryAddress() }

func hostOfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// parseChallenge returns the first supported challenge of a response, or nil if there is
// none.
func (s *Session) parseChallenge(resp *http.Response) (*challenge, error) {
	for _, c := range authchallenge.ResponseChallenges(resp) {
		switch c.Scheme {
		case "basic":
			return &challenge{basic: true}, nil
		case "bearer":
			realm, err := url.Parse(c.Parameters["realm"])
			if err != nil || realm.Host == "" {
				return nil, &LoginError{"the registry names no usable address of its token server"}
			}
			if realm.Scheme != "https" && (realm.Scheme != "http" || !s.opts.Insecure) {
				return nil, &LoginError{fmt.Sprintf("the registry wants the login to be sent to %s over %s:, which is not encrypted; it is not sent", realm.Host, realm.Scheme)}
			}
			realm.User = nil
			return &challenge{realm: realm.String(), service: c.Parameters["service"]}, nil
		}
	}

	return nil, nil
}
