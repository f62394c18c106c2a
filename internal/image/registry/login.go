package registry

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	authchallenge "github.com/docker/distribution/registry/client/auth/challenge"
)

// Login is what a registry knows somebody by.
type Login struct {
	Username, Password string
	// IdentityToken is exchanged for access instead of a password.
	IdentityToken string
}

// challenge is how a registry wants to be logged in to.
type challenge struct {
	basic bool
	// Where tokens are got from otherwise, and what for.
	realm, service, scope string
}

// tokenKey names what a token is good for, and whose it is.
type tokenKey struct {
	challenge  challenge
	repository string
	push       bool
	login      [sha256.Size]byte
}

// token opens a repository for a while.
type token struct {
	text  string
	until time.Time
}

const (
	// maxToken bounds the answer of a token server, in bytes.
	maxToken = 1 << 20
	// maxScope bounds what a registry may want to be asked for, in bytes.
	maxScope = 1 << 10
	// minTokenLife is what a token is good for when the server says nothing or less (the
	// protocol's own default), and margin is how long before its end it is not used any more.
	minTokenLife, tokenMargin = 60 * time.Second, 5 * time.Second
	maxTokenLife              = time.Hour
)

func (l Login) basic() string {
	if l.Username == "" && l.Password == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Username+":"+l.Password))
}

// known is what is remembered of the registry. What was learnt over a line that is open to
// all is not used on one that is not.
func (s *Session) known() *host {
	key := s.address()
	if s.opts.Insecure {
		key += " insecure"
	}
	return s.opts.Shared.host(key)
}

// authorization gives the header of a request, as far as the registry is known to ask for
// one. Empty: none.
func (s *Session) authorization(ctx context.Context) (string, error) {
	h := s.known()
	h.mu.Lock()
	c := h.challenge
	h.mu.Unlock()
	switch {
	case c == nil:
		return "", nil
	case c.basic:
		return s.opts.Login.basic(), nil
	}
	key := s.tokenKey(*c)
	h.mu.Lock()
	kept := h.tokens[key]
	h.mu.Unlock()
	if s.opts.Shared.now().Before(kept.until) {
		return "Bearer " + kept.text, nil
	}
	got, err := s.fetchToken(ctx, *c)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.tokens) >= maxTokens {
		clear(h.tokens)
	}
	h.tokens[key] = got
	return "Bearer " + got.text, nil
}

func (s *Session) tokenKey(c challenge) tokenKey {
	l := s.opts.Login
	text := strings.Join([]string{l.Username, l.Password, l.IdentityToken}, "\x00")
	return tokenKey{challenge: c, repository: s.opts.Repository, push: s.opts.Push, login: sha256.Sum256([]byte(text))}
}

// learn reads from a refusal how the registry wants to be logged in to, and tells whether
// that is a way which was not tried.
func (s *Session) learn(ctx context.Context, refused *http.Response, tried string) (bool, error) {
	if refused.Request.URL.Host != s.address() {
		return false, nil // The login is not for where the registry redirected to.
	}
	c, err := s.challenge(refused)
	if c == nil && err == nil {
		// Some tell it only at the front door.
		c, err = s.ask(ctx)
	}
	if c == nil || err != nil {
		return false, err
	}
	if c.basic && (s.opts.Login.basic() == "" || tried == s.opts.Login.basic()) {
		return false, nil
	}
	h := s.known()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.challenge = c
	if !c.basic {
		delete(h.tokens, s.tokenKey(*c))
	}
	return true, nil
}

// ask asks the front door how to log in.
func (s *Session) ask(ctx context.Context) (*challenge, error) {
	resp, err := s.send(ctx, request{method: http.MethodGet, path: "/v2/"}, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // Only its head counts.
	if resp.Request.URL.Host != s.address() {
		return nil, nil
	}
	return s.challenge(resp)
}

// challenge gives the first way to log in that is known here, nil when there is none.
func (s *Session) challenge(resp *http.Response) (*challenge, error) {
	for _, c := range authchallenge.ResponseChallenges(resp) {
		switch c.Scheme {
		case "basic":
			return &challenge{basic: true}, nil
		case "bearer":
			found := &challenge{realm: c.Parameters["realm"], service: c.Parameters["service"]}
			if scope := c.Parameters["scope"]; len(scope) <= maxScope {
				found.scope = scope
			}
			realm, err := url.Parse(found.realm)
			if err != nil || realm.Host == "" {
				return nil, &LoginError{"the registry names no usable address of its token server"}
			}
			if realm.Scheme != "https" && (realm.Scheme != "http" || !s.opts.Insecure) {
				return nil, &LoginError{fmt.Sprintf("the registry wants the login to be sent to %s over %s:, which is open to all; it is not sent", realm.Host, realm.Scheme)}
			}
			return found, nil
		}
	}
	return nil, nil
}

// fetchToken gets a token from the token server that a registry names.
func (s *Session) fetchToken(ctx context.Context, c challenge) (token, error) {
	realm, err := url.Parse(c.realm)
	if err != nil {
		return token{}, &LoginError{"the registry names no usable address of its token server"}
	}
	what := "log in at " + realm.Host
	resp, err := s.sendLogin(ctx, c, realm, what)
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", what, err)
	}
	if resp.StatusCode != http.StatusOK {
		return token{}, statusError(resp, what, s.opts.Shared.now())
	}
	defer func() { _ = resp.Body.Close() }() // It was only read.
	data, err := readAtMost(resp.Body, maxToken, "the token")
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", what, err)
	}
	var answer struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"` // seconds
	}
	// The parser's message could quote the token.
	if json.Unmarshal(data, &answer) != nil || answer.Token+answer.AccessToken == "" {
		return token{}, fmt.Errorf("%s: %w", what, errors.New("the answer holds no token"))
	}
	text := answer.Token
	if text == "" {
		text = answer.AccessToken
	}
	life := time.Duration(min(answer.ExpiresIn, maxTokenLife.Seconds())) * time.Second
	return token{text: text, until: s.opts.Shared.now().Add(max(life, minTokenLife) - tokenMargin)}, nil
}

func (s *Session) sendLogin(ctx context.Context, c challenge, realm *url.URL, what string) (*http.Response, error) {
	target := *realm
	query := target.Query()
	if c.service != "" {
		query.Set("service", c.service)
	}
	actions := "pull"
	if s.opts.Push {
		actions = "pull,push"
	}
	own := "repository:" + s.opts.Repository + ":" + actions
	query.Add("scope", own)
	if c.scope != "" && c.scope != own {
		query.Add("scope", c.scope)
	}
	r := request{what: what, method: http.MethodGet, target: &target}
	login := s.opts.Login
	if login.IdentityToken != "" {
		query.Set("grant_type", "refresh_token")
		query.Set("refresh_token", login.IdentityToken)
		query.Set("client_id", "mainstay")
		query.Set("scope", strings.Join(query["scope"], " "))
		r.method, r.body = http.MethodPost, bytesBody([]byte(query.Encode()))
		r.body.secret = true
		r.header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
		return s.send(ctx, r, "")
	}
	if login.Username != "" {
		query.Set("account", login.Username)
	}
	target.RawQuery = query.Encode()
	return s.send(ctx, r, login.basic())
}
