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

// challenge describes how a registry requests a login. It has no scope, because the session alone
// determines what a token is requested for.
type challenge struct {
	// basic requests the login itself. Otherwise the login is exchanged for a token.
	basic bool
	// realm is the URL of the token server, and service the name of the registry there.
	realm, service string
}

// authenticator sends the requests of a session with its login: in the way that succeeded
// last, or else in answer to the challenge of the registry.
type authenticator struct {
	opts   *Options
	sender *sender
}

// sendAuthorized sends a request with the remembered grant. If the registry refuses it, the
// request is sent once more with an answer to the registry's challenge. A grant that
// succeeds is remembered, and one that fails is forgotten.
func (a *authenticator) sendAuthorized(ctx context.Context, r request) (*http.Response, error) {
	if r.targetHost(a.opts) != a.opts.registryAddress() {
		return a.sender.sendWithRetries(ctx, r, "") // The login is for the registry only.
	}

	authorization, err := a.rememberedAuthorization(ctx)
	if err != nil {
		return nil, err
	}

	resp, err := a.sender.sendWithRetries(ctx, r, authorization)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !a.isOwnResponse(resp) {
		return resp, err
	}

	a.opts.Shared.forgetGrant(a.grantKey())
	access, authorization, err := a.answerChallenge(ctx, resp, authorization)
	if err != nil {
		closeResponse(resp)
		return nil, err
	}
	if authorization == "" {
		return resp, nil
	}

	closeResponse(resp)
	resp, err = a.sender.sendWithRetries(ctx, r, authorization)
	if err == nil && resp.StatusCode != http.StatusUnauthorized {
		a.opts.Shared.rememberGrant(a.grantKey(), access)
	}

	return resp, err
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

func (a *authenticator) grantKey() grantKey {
	l := a.opts.Login
	text := strings.Join([]string{l.Username, l.Password, l.IdentityToken}, "\x00")
	return grantKey{
		host: a.opts.registryAddress(), insecure: a.opts.Insecure,
		repository: a.opts.Repository, push: a.opts.Push, login: sha256.Sum256([]byte(text)),
	}
}

// rememberedAuthorization returns the Authorization header of the remembered grant, with a
// new token if the last one has expired. It returns an empty header when nothing is
// remembered, or when the token server fails: the registry then sends a new challenge. It
// returns an error only if ctx is done.
func (a *authenticator) rememberedAuthorization(ctx context.Context) (string, error) {
	key := a.grantKey()
	g, ok := a.opts.Shared.rememberedGrant(key)
	switch {
	case !ok:
		return "", nil
	case g.challenge.basic:
		return a.opts.Login.basicAuthorization(), nil
	case a.opts.Shared.now().Before(g.token.expires):
		return g.token.authorizationHeader(), nil
	}

	// One attempt is enough, because the request to the registry can be repeated.
	renewed, err := a.fetchAccessToken(ctx, g.challenge, true)
	if err != nil {
		a.opts.Shared.forgetGrant(key)
		if ctx.Err() != nil {
			return "", err
		}
		return "", nil
	}

	a.opts.Shared.rememberGrant(key, grant{challenge: g.challenge, token: renewed})
	return renewed.authorizationHeader(), nil
}

// answerChallenge returns the grant for a request that was refused with 401, and its
// Authorization header. The header is empty when no method is left that was not tried.
func (a *authenticator) answerChallenge(ctx context.Context, refused *http.Response, tried string) (grant, string, error) {
	c, err := a.chooseChallenge(ctx, refused)
	if c == nil || err != nil {
		return grant{}, "", err
	}

	if c.basic {
		header := a.opts.Login.basicAuthorization()
		if header == tried {
			header = ""
		}
		return grant{challenge: *c}, header, nil
	}

	fetched, err := a.fetchAccessToken(ctx, *c, false)
	if err != nil {
		return grant{}, "", err
	}

	return grant{challenge: *c, token: fetched}, fetched.authorizationHeader(), nil
}

// chooseChallenge returns the challenge to answer, or nil if there is none. A repository's
// own challenge is used if it does not send the login to another host. Otherwise only the
// challenge of the registry's base endpoint is used, which no repository controls.
// Container tools use the challenge of that endpoint, too.
func (a *authenticator) chooseChallenge(ctx context.Context, refused *http.Response) (*challenge, error) {
	c, err := a.parseChallenge(refused)
	if err != nil {
		return nil, err
	}
	if c != nil && (a.opts.Login == Login{} || c.basic || a.isOwnTokenServer(c.realm)) {
		return c, nil
	}

	base, err := a.fetchBaseChallenge(ctx)
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
func (a *authenticator) fetchBaseChallenge(ctx context.Context) (*challenge, error) {
	resp, err := a.sender.sendWithRetries(ctx, request{method: http.MethodGet, path: "/v2/"}, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // Only the header is needed.

	if !a.isOwnResponse(resp) {
		return nil, nil
	}

	return a.parseChallenge(resp)
}

// isOwnResponse reports whether the response is from the registry itself, not from the
// target of a redirect.
func (a *authenticator) isOwnResponse(resp *http.Response) bool {
	return resp.Request.URL.Host == a.opts.registryAddress()
}

// isOwnTokenServer reports whether a token server has the registry's own address.
func (a *authenticator) isOwnTokenServer(realm string) bool {
	return hostOfURL(realm) == a.opts.registryAddress()
}

func hostOfURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// parseChallenge returns the first supported challenge of a response, or nil if there is
// none.
func (a *authenticator) parseChallenge(resp *http.Response) (*challenge, error) {
	for _, c := range authchallenge.ResponseChallenges(resp) {
		switch c.Scheme {
		case "basic":
			return &challenge{basic: true}, nil
		case "bearer":
			realm, err := url.Parse(c.Parameters["realm"])
			if err != nil || realm.Host == "" {
				return nil, &LoginError{"the registry names no usable address of its token server"}
			}
			if realm.Scheme != "https" && (realm.Scheme != "http" || !a.opts.Insecure) {
				return nil, &LoginError{fmt.Sprintf("the registry wants the login to be sent to %s over %s:, which is not encrypted; it is not sent", realm.Host, realm.Scheme)}
			}
			realm.User = nil
			return &challenge{realm: realm.String(), service: c.Parameters["service"]}, nil
		}
	}

	return nil, nil
}
