package console_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// identity is the provider that the API server of the tests trusts.
var identity = newProvider()

// newOIDCFixture starts a console whose users sign in at the provider, which behaves as in settings.
func newOIDCFixture(t *testing.T, settings providerSettings) *fixture {
	t.Helper()
	f := newFixture(t, nil)
	settings.now = f.clock
	identity.set(func(s *providerSettings) { *s = settings })
	t.Cleanup(func() { identity.set(func(s *providerSettings) { *s = providerSettings{} }) })

	f.waitForTrust()
	signIn, err := console.NewOIDC(console.OIDCOptions{
		Issuer: identity.URL, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: origin + "/auth/callback",
		Scopes: []string{"email", "groups", "offline_access"}, Client: identity.Client(), Now: f.clock,
	})
	f.Must(err)
	f.server, err = console.New(console.Options{
		Assets: pages, Config: rest.AnonymousClientConfig(env.Start(t)), OIDC: signIn, Log: f.newLog(), Now: f.clock,
	})
	f.Must(err)
	t.Cleanup(f.server.Close)
	return f
}

// waitForTrust waits until the API server has read the keys of the provider.
func (f *fixture) waitForTrust() {
	f.T.Helper()
	var token string
	identity.set(func(s *providerSettings) {
		settings := *s
		*s = providerSettings{user: "test"}
		token = identity.newIDToken("")
		*s = settings
	})

	config := rest.AnonymousClientConfig(env.Start(f.T))
	config.BearerToken = token
	c, err := client.New(config, client.Options{Scheme: env.Scheme(f.T, clientgoscheme.AddToScheme)})
	f.Must(err)
	env.Eventually(f.T, "the API server trusts the provider", func() error {
		return c.Create(f.T.Context(), &authenticationv1.SelfSubjectReview{})
	})
}

// user is a browser that follows the redirects of a sign-in.
type user struct {
	*browser
	login *http.Cookie
}

// startLogin follows the console's redirect to the provider, and returns the address to which the provider sends back.
func (u *user) startLogin() *url.URL {
	u.f.T.Helper()
	r := u.get("/auth/login")
	if r.Code != http.StatusFound {
		u.f.T.Fatalf("starting to sign in: got %d %s", r.Code, r.Body)
	}
	u.login = r.Result().Cookies()[0]
	if c := u.login; !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/auth/callback" {
		u.f.T.Errorf("got the cookie %v, want one that scripts cannot use", c)
	}

	client := &http.Client{Transport: identity.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(u.f.T.Context(), http.MethodGet, r.Header().Get("Location"), http.NoBody)
	u.f.Must(err)
	response, err := client.Do(request)
	u.f.Must(err)
	_ = response.Body.Close()
	back, err := response.Location()
	u.f.Must(err)
	return back
}

// finishLogin opens the address to which the provider has sent the browser back.
func (u *user) finishLogin(back *url.URL) response {
	r := u.newRequest(http.MethodGet, back.RequestURI(), nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if u.login != nil {
		r.AddCookie(u.login)
	}
	recorder := httptest.NewRecorder()
	u.f.server.ServeHTTP(recorder, r)
	for _, cookie := range recorder.Result().Cookies() {
		if cookie.Name != "mainstay-login" {
			u.cookie = cookie
		}
	}
	return response{recorder, u.f.T}
}

func (u *user) get(path string) response {
	recorder := httptest.NewRecorder()
	u.f.server.ServeHTTP(recorder, u.newRequest(http.MethodGet, path, nil))
	return response{recorder, u.f.T}
}

// signInWithProvider returns a signed-in user.
func (f *fixture) signInWithProvider() *user {
	f.T.Helper()
	u := &user{browser: &browser{f: f}}
	if r := u.finishLogin(u.startLogin()); r.Code != http.StatusFound || r.Header().Get("Location") != "/" {
		f.T.Fatalf("signing in: got %d %s to %q, want the pages", r.Code, r.Body, r.Header().Get("Location"))
	}
	return u
}

// The user of an identity provider is the user of the API server: the console itself has no rights.
func TestSignInWithAnIdentityProvider(t *testing.T) {
	f := newOIDCFixture(t, providerSettings{user: "alice"})
	var info console.SessionInfo
	(&browser{f: f}).do(http.MethodGet, "/api/v1/session", nil, &info)
	if info.SignedIn || info.SignIn != "oidc" {
		t.Errorf("got %+v, want no user signed in, and the sign-in with a provider", info)
	}

	alice := f.signInWithProvider()
	alice.do(http.MethodGet, "/api/v1/session", nil, &info)
	if info.User != "alice@example.com" || !slices.Contains(info.Groups, "developers") {
		t.Errorf("got %+v, want the user and the groups of the token", info)
	}
	if c := alice.cookie; c.Name != "__Host-mainstay-session" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("got the cookie %v, want one that scripts and other sites cannot use", c)
	}
	if got := alice.get("/api/v1/extensions/none-such").Code; got != http.StatusForbidden {
		t.Errorf("a user without rights: got %d, want 403 of the API server", got)
	}

	if log := f.logged(); !strings.Contains(log, `"Signed in" "user"="alice@example.com"`) || strings.Contains(log, "eyJ") {
		t.Errorf("got the log %s, want the user who signed in and no token", log)
	}
}

// Responses that do not belong to the sign-in of this browser, or that the provider did not sign, create no session.
func TestSignInWithAnIdentityProviderIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		settings providerSettings
		change   func(u *user, back *url.URL)
		want     string
	}{
		"wrong state":       {change: setQuery("state", "other"), want: "belongs to another sign-in"},
		"no cookie":         {change: func(u *user, _ *url.URL) { u.login = &http.Cookie{Name: "other"} }, want: "took too long"},
		"empty cookie":      {change: func(u *user, callback *url.URL) { u.login.Value = ".."; callback.RawQuery = "code=c" }, want: "is damaged"},
		"broken cookie":     {change: func(u *user, _ *url.URL) { u.login.Value = "a.b" }, want: "is damaged"},
		"wrong code":        {change: setQuery("code", "other"), want: `status 400 and the error "invalid_grant"`},
		"refused":           {change: setQuery("error", "access_denied"), want: `refused: "access_denied"`},
		"hostile refusal":   {change: setQuery("error", "<script>"), want: `refused: "<script>"`},
		"wrong PKCE":        {change: func(u *user, _ *url.URL) { u.login.Value += "x" }, want: "invalid_grant"},
		"wrong nonce":       {settings: providerSettings{change: setClaim("nonce", "other")}, want: "belongs to another sign-in"},
		"wrong audience":    {settings: providerSettings{change: setClaim("aud", "other")}, want: "audience"},
		"wrong issuer":      {settings: providerSettings{change: setClaim("iss", "https://example.com")}, want: "different provider"},
		"expired":           {settings: providerSettings{lifetime: -time.Minute}, want: "expired"},
		"wrong signature":   {settings: providerSettings{key: newKey()}, want: "signature"},
		"provider is down":  {settings: providerSettings{isAway: true}, want: "status 502"},
		"other user in use": {change: func(u *user, _ *url.URL) { (&user{browser: u.browser}).startLogin(); u.login.Value = "x.y.z" }, want: "another sign-in"},
	} {
		t.Run(name, func(t *testing.T) {
			test.settings.user = "mallory"
			f := newOIDCFixture(t, test.settings)
			u := &user{browser: &browser{f: f}}
			back := u.startLogin()
			if test.change != nil {
				test.change(u, back)
			}

			r := u.finishLogin(back)
			if r.Code != http.StatusUnauthorized || !strings.Contains(r.Body.String(), test.want) {
				t.Errorf("got %d %s, want 401 with %q", r.Code, r.Body, test.want)
			}
			if strings.Contains(r.Body.String(), "this text is not shown") || !strings.HasPrefix(r.Header().Get("Content-Type"), "text/plain") {
				t.Errorf("got %v %s, want plain text of the console", r.Header(), r.Body)
			}
			if u.cookie != nil {
				t.Errorf("got the cookie %v, want none", u.cookie)
			}
		})
	}
}

func setQuery(name, value string) func(*user, *url.URL) {
	return func(_ *user, back *url.URL) {
		query := back.Query()
		query.Set(name, value)
		back.RawQuery = query.Encode()
	}
}

func setClaim(name, value string) func(map[string]any) {
	return func(claims map[string]any) { claims[name] = value }
}

// The API server does not accept tokens without a name of the user.
func TestSignInWhenTheAPIServerRefusesTheToken(t *testing.T) {
	f := newOIDCFixture(t, providerSettings{user: "alice", change: func(claims map[string]any) { claims["email_verified"] = false }})
	u := &user{browser: &browser{f: f}}
	if r := u.finishLogin(u.startLogin()); r.Code != http.StatusForbidden || !strings.Contains(r.Body.String(), "--oidc-issuer-url") || u.cookie != nil {
		t.Errorf("got %d %s and the cookie %v, want 403 with advice", r.Code, r.Body, u.cookie)
	}
}

// A code is valid once, also with the cookie of the sign-in.
func TestCallbackIsValidOnce(t *testing.T) {
	f := newOIDCFixture(t, providerSettings{user: "alice"})
	u := &user{browser: &browser{f: f}}
	back := u.startLogin()
	u.finishLogin(back)
	u.cookie = nil
	if r := u.finishLogin(back); r.Code != http.StatusUnauthorized || u.cookie != nil {
		t.Errorf("the same callback again: got %d and the cookie %v, want 401", r.Code, u.cookie)
	}
}

func TestIDTokenExpires(t *testing.T) {
	f := newOIDCFixture(t, providerSettings{user: "alice", lifetime: 20 * time.Minute})
	alice := f.signInWithProvider()
	f.pass(19 * time.Minute)
	if got := alice.get("/api/v1/namespaces").Code; got != http.StatusOK {
		t.Errorf("before the token expires: got %d, want 200", got)
	}
	f.pass(time.Minute)
	if got := alice.get("/api/v1/namespaces").Code; got != http.StatusUnauthorized {
		t.Errorf("after the token has expired: got %d, want 401", got)
	}
}

func TestIDTokenIsRenewed(t *testing.T) {
	f := newOIDCFixture(t, providerSettings{user: "alice", lifetime: 20 * time.Minute, canRefresh: true})
	alice := f.signInWithProvider()
	get := func() int { return alice.get("/api/v1/namespaces").Code }
	for range 3 {
		f.pass(20*time.Minute - 10*time.Second)
		if got := get(); got != http.StatusOK {
			t.Fatalf("shortly before the token expires: got %d, want 200", got)
		}
	}

	identity.set(func(s *providerSettings) { s.isAway = true })
	f.pass(20*time.Minute - 10*time.Second)
	if got := get(); got != http.StatusOK {
		t.Errorf("while the provider is down and the token is valid: got %d, want 200", got)
	}
	f.pass(time.Minute)
	if got := get(); got != http.StatusServiceUnavailable {
		t.Errorf("while the provider is down and the token has expired: got %d, want 503", got)
	}
	identity.set(func(s *providerSettings) { s.isAway = false })
	if got := get(); got != http.StatusOK {
		t.Errorf("after the provider is available again: got %d, want 200", got)
	}

	identity.set(func(s *providerSettings) { s.isRevoked = true })
	f.pass(20*time.Minute - 10*time.Second)
	if got := get(); got != http.StatusOK {
		t.Errorf("after the provider has revoked the session, with a token that is valid: got %d, want 200", got)
	}
	f.pass(time.Minute)
	if got := get(); got != http.StatusUnauthorized {
		t.Errorf("after the provider has revoked the session and the token has expired: got %d, want 401", got)
	}
}

// A renewed token of another user ends the session.
func TestRenewalForAnotherUser(t *testing.T) {
	f := newOIDCFixture(t, providerSettings{user: "alice", lifetime: 20 * time.Minute, canRefresh: true})
	alice := f.signInWithProvider()
	identity.set(func(s *providerSettings) { s.user = "mallory" })
	f.pass(21 * time.Minute)
	alice.get("/api/v1/namespaces")
	var info console.SessionInfo
	alice.do(http.MethodGet, "/api/v1/session", nil, &info)
	if info.SignedIn {
		t.Errorf("got %+v, want the session ended", info)
	}
}

func TestOIDCOptions(t *testing.T) {
	for issuer, want := range map[string]string{"": "is not a URL", "example": "is not a URL", "http://example.com": "must be an https URL", "https://example.com": "client ID"} {
		if _, err := console.NewOIDC(console.OIDCOptions{Issuer: issuer}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", issuer, err, want)
		}
	}
}

// The console starts without its provider, and reports this to users until the provider responds.
func TestProviderIsAwayAtTheStart(t *testing.T) {
	pool := x509.NewCertPool() // trusts no certificate, so that every connection fails
	signIn, err := console.NewOIDC(console.OIDCOptions{
		Issuer: identity.URL, ClientID: clientID, Client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	})
	if err != nil {
		t.Fatal(err)
	}

	f := newFixture(t, func(o *console.Options) { o.OIDC = signIn })
	u := &user{browser: &browser{f: f}}
	if r := u.get("/auth/login"); r.Code != http.StatusBadGateway || !strings.Contains(r.Body.String(), "try again later") {
		t.Errorf("got %d %s, want 502 with advice", r.Code, r.Body)
	}
}
