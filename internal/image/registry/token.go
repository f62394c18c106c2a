package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// token returns access to a repository until it expires.
type token struct {
	text    string
	expires time.Time
}

// header returns the Authorization header that carries the token.
func (t token) header() string { return "Bearer " + t.text }

const (
	// maxTokenAnswer bounds the answer of a token server, in bytes.
	maxTokenAnswer = 1 << 20
	// minTokenLife is how long a token is used when its server states less or nothing. It is
	// the default of the protocol.
	minTokenLife = 60 * time.Second
	maxTokenLife = time.Hour
	// tokenMargin is how long before it expires a token is no longer used.
	tokenMargin = 5 * time.Second
)

// fetchToken exchanges the login for a token at the token server of a challenge. With once
// set, a request that fails is not sent again.
func (s *Session) fetchToken(ctx context.Context, c challenge, once bool) (token, error) {
	r, authorization, err := s.tokenRequest(c)
	if err != nil {
		return token{}, err
	}

	r.once = once
	resp, err := s.send(ctx, r, authorization)
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", r.what, err)
	}
	if resp.StatusCode != http.StatusOK {
		return token{}, statusError(resp, r.what, s.opts.Shared.now())
	}

	defer func() { _ = resp.Body.Close() }() // It was only read.

	data, err := readAtMost(resp.Body, maxTokenAnswer, "the token")
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", r.what, err)
	}

	var answer struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"` // seconds
	}
	// The parser's message could quote the token.
	if json.Unmarshal(data, &answer) != nil || answer.Token+answer.AccessToken == "" {
		return token{}, fmt.Errorf("%s: %w", r.what, errors.New("the answer holds no token"))
	}

	text := answer.Token
	if text == "" {
		text = answer.AccessToken
	}

	life := time.Duration(min(answer.ExpiresIn, maxTokenLife.Seconds())) * time.Second
	return token{text: text, expires: s.opts.Shared.now().Add(max(life, minTokenLife) - tokenMargin)}, nil
}

// tokenRequest returns the request for a token and its Authorization header.
func (s *Session) tokenRequest(c challenge) (request, string, error) {
	target, err := url.Parse(c.realm)
	if err != nil {
		return request{}, "", &LoginError{"the registry names no usable address of its token server"}
	}

	// What the address of the token server asks for is no better than a scope of the challenge.
	query := target.Query()
	query.Del("scope")
	target.RawQuery = query.Encode()

	query.Set("scope", s.scope())
	if c.service != "" {
		query.Set("service", c.service)
	}

	r := request{what: "log in at " + target.Host, method: http.MethodGet, target: target}
	login := s.opts.Login
	if login.IdentityToken != "" {
		query.Set("grant_type", "refresh_token")
		query.Set("refresh_token", login.IdentityToken)
		query.Set("client_id", "mainstay")
		r.method, r.body = http.MethodPost, bytesBody([]byte(query.Encode()))
		r.body.secret = true
		r.header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}

		return r, "", nil
	}

	if login.Username != "" {
		query.Set("account", login.Username)
	}

	target.RawQuery = query.Encode()
	return r, login.basic(), nil
}

// scope returns what tokens are requested for: the repository of the session and what it
// does there, whatever the registry's challenge names.
func (s *Session) scope() string {
	actions := "pull"
	if s.opts.Push {
		actions = "pull,push"
	}
	return "repository:" + s.opts.Repository + ":" + actions
}
