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

// token is an access token for a repository.
type token struct {
	text    string
	expires time.Time
}

// authorizationHeader returns the Authorization header that carries the token.
func (t token) authorizationHeader() string { return "Bearer " + t.text }

const (
	// maxTokenResponseBytes bounds the response of a token server.
	maxTokenResponseBytes = 1 << 20
	// minTokenLifetime is how long a token is used when its server specifies less or
	// nothing. It is the default of the protocol.
	minTokenLifetime = 60 * time.Second
	maxTokenLifetime = time.Hour
	// tokenExpiryMargin is how long before it expires a token is no longer used.
	tokenExpiryMargin = 5 * time.Second
)

// fetchAccessToken exchanges the login for a token at the token server of a challenge. If
// once is set, a failed request is not retried.
func (a *authenticator) fetchAccessToken(ctx context.Context, c challenge, once bool) (token, error) {
	r, authorization, err := a.tokenRequest(c)
	if err != nil {
		return token{}, err
	}

	r.singleAttempt = once
	resp, err := a.sender.sendWithRetries(ctx, r, authorization)
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", r.operation, err)
	}
	if resp.StatusCode != http.StatusOK {
		return token{}, newStatusError(resp, r.operation, a.opts.Shared.now())
	}
	defer func() { _ = resp.Body.Close() }() // It was only read.

	data, err := readAtMost(resp.Body, maxTokenResponseBytes, "the token")
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", r.operation, err)
	}

	var answer struct {
		Token       string  `json:"token"`
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"` // seconds
	}
	// The parser's message could quote the token.
	if json.Unmarshal(data, &answer) != nil || answer.Token+answer.AccessToken == "" {
		return token{}, fmt.Errorf("%s: %w", r.operation, errors.New("the answer holds no token"))
	}

	text := answer.Token
	if text == "" {
		text = answer.AccessToken
	}

	life := time.Duration(min(answer.ExpiresIn, maxTokenLifetime.Seconds())) * time.Second
	return token{text: text, expires: a.opts.Shared.now().Add(max(life, minTokenLifetime) - tokenExpiryMargin)}, nil
}

// tokenRequest returns the request for a token and its Authorization header.
func (a *authenticator) tokenRequest(c challenge) (request, string, error) {
	target, err := url.Parse(c.realm)
	if err != nil {
		return request{}, "", &LoginError{"the registry names no usable address of its token server"}
	}

	// A scope in the realm URL is ignored, as is the scope of a challenge.
	query := target.Query()
	query.Del("scope")
	target.RawQuery = query.Encode()

	query.Set("scope", a.tokenScope())
	if c.service != "" {
		query.Set("service", c.service)
	}

	r := request{operation: "log in at " + target.Host, method: http.MethodGet, target: target}
	login := a.opts.Login
	if login.IdentityToken != "" {
		query.Set("grant_type", "refresh_token")
		query.Set("refresh_token", login.IdentityToken)
		query.Set("client_id", "mainstay")
		r.method = http.MethodPost
		r.body = newBytesBody([]byte(query.Encode()))
		r.body.secret = true
		r.header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}

		return r, "", nil
	}

	if login.Username != "" {
		query.Set("account", login.Username)
	}

	target.RawQuery = query.Encode()
	return r, login.basicAuthorization(), nil
}

// tokenScope returns the scope of a token request: the repository of the session and its
// actions there, regardless of the scope in the registry's challenge.
func (a *authenticator) tokenScope() string {
	actions := "pull"
	if a.opts.Push {
		actions = "pull,push"
	}
	return "repository:" + a.opts.Repository + ":" + actions
}
