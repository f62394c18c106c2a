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

// Login is what a registry knows somebody by.
type Login struct {
	Username, Password string
	// IdentityToken is exchanged for access instead of a password.
	IdentityToken string
}

// basic returns the header that carries the user name and the password, empty when there
// are none.
func (l Login) basic() string {
	if l.Username == "" && l.Password == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))
}

// challenge is how a registry asks for a login. It holds no scope: what a token is
// requested for is decided by the session alone.
type challenge struct {
	// basic asks for the login itself. Otherwise it is exchanged for a token.
	basic bool
	// realm is the URL of the token server, and service the name of the registry there.
	realm, service string
}

// grantKey is who accesses what. An answer to one key is never used for another: the
// repositories of one registry may belong to people who do not trust each other.
type grantKey struct {
	host string
	// insecure keeps what was learned over a connection that anybody can read and change
	// from sessions that verify their registry.
	insecure   bool
	repository string
	push       bool
	login      [sha256.Size]byte
}

// grant is what gave access last: how the registry asked for the login, and the token that
// it was exchanged for.
type grant struct {
	challenge challenge
	token     token
}

func (s *Session) grantKey() grantKey {
	l := s.opts.Login
	text := strings.Join([]string{l.Username, l.Password, l.IdentityToken}, "\x00")
	return grantKey{
		host: s.address(), insecure: s.opts.Insecure,
		repository: s.opts.Repository, push: s.opts.Push, login: sha256.Sum256([]byte(text)),
	}
}

// rememberedAuthorization returns the Authorization header that gave access before, with a
// new token when the last one has expired. It returns an empty header when nothing is
// remembered, and when the token server fails: the registry then says anew how it wants to be
// logged in to. The error is that of a context which is done.
func (s *Session) rememberedAuthorization(ctx context.Context) (string, error) {
	key := s.grantKey()
	g, ok := s.opts.Shared.grant(key)
	switch {
	case !ok:
		return "", nil
	case g.challenge.basic:
		return s.opts.Login.basic(), nil
	case s.opts.Shared.now().Before(g.token.expires):
		return g.token.header(), nil
	}

	// One attempt is enough, because the registry can be asked again.
	renewed, err := s.fetchToken(ctx, g.challenge, true)
	if err != nil {
		s.opts.Shared.forgetGrant(key)
		if ctx.Err() != nil {
			return "", err
		}
		return "", nil
	}

	s.opts.Shared.storeGrant(key, grant{challenge: g.challenge, token: renewed})
	return renewed.header(), nil
}

// answerChallenge returns the grant for a request that was refused with 401, and its
// Authorization header. An empty header means that there is no way to log in that was not
// tried.
func (s *Session) answerChallenge(ctx context.Context, refused *http.Response, tried string) (grant, string, error) {
	c, err := s.chooseChallenge(ctx, refused)
	if c == nil || err != nil {
		return grant{}, "", err
	}

	if c.basic {
		header := s.opts.Login.basic()
		if header == tried {
			header = ""
		}
		return grant{challenge: *c}, header, nil
	}

	fetched, err := s.fetchToken(ctx, *c, false)
	if err != nil {
		return grant{}, "", err
	}

	return grant{challenge: *c, token: fetched}, fetched.header(), nil
}

// chooseChallenge returns the challenge to answer, nil when there is none. A repository's
// own challenge counts as long as it does not send the login to another host. For that, only
// the challenge of the registry's base endpoint counts, which no repository controls. It is
// also where container tools take their challenge from.
func (s *Session) chooseChallenge(ctx context.Context, refused *http.Response) (*challenge, error) {
	c, err := s.parseChallenge(refused)
	if err != nil {
		return nil, err
	}
	if c != nil && (s.opts.Login == Login{} || c.basic || s.isOwnRealm(c.realm)) {
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

// fetchBaseChallenge asks the registry's base endpoint how to log in.
func (s *Session) fetchBaseChallenge(ctx context.Context) (*challenge, error) {
	resp, err := s.send(ctx, request{method: http.MethodGet, path: "/v2/"}, "")
	if err != nil {
		return nil, err
	}

	defer func() { _ = resp.Body.Close() }() // Only its head counts.
	if !s.isOwnAnswer(resp) {
		return nil, nil
	}

	return s.parseChallenge(resp)
}

// isOwnAnswer reports whether the registry itself answered, not a place that it redirected
// to.
func (s *Session) isOwnAnswer(resp *http.Response) bool { return resp.Request.URL.Host == s.address() }

// isOwnRealm reports whether a token server is at the registry's own address.
func (s *Session) isOwnRealm(realm string) bool { return hostOfURL(realm) == s.address() }

func hostOfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// parseChallenge returns the first challenge of an answer that can be met, nil when there
// is none.
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
				return nil, &LoginError{fmt.Sprintf("the registry wants the login to be sent to %s over %s:, which is open to all; it is not sent", realm.Host, realm.Scheme)}
			}
			realm.User = nil
			return &challenge{realm: realm.String(), service: c.Parameters["service"]}, nil
		}
	}

	return nil, nil
}
