package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/console/session"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestSignInWithAToken(t *testing.T) {
	f := newFixture(t, nil)
	token := f.newUser("alice", "")
	b := &browser{f: f}
	var info console.SessionInfo
	b.do(http.MethodGet, "/api/v1/session", nil, &info)
	if info.SignedIn || info.SignIn != "token" {
		t.Errorf("got %+v, want no user signed in, and the sign-in by token", info)
	}

	b.do(http.MethodPost, "/api/v1/session", console.Credentials{Token: token}, &info)
	if want := "system:serviceaccount:" + f.namespace + ":alice"; !info.SignedIn || info.User != want {
		t.Errorf("got %+v, want the user %s", info, want)
	}
	if c := b.cookie; c.Name != "__Host-mainstay-session" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" {
		t.Errorf("got the cookie %v, want one that scripts and other sites cannot use", c)
	}

	b.csrf = info.CSRFToken
	b.do(http.MethodDelete, "/api/v1/session", nil, &info)
	if info.SignedIn {
		t.Error("still signed in after signing out")
	}

	old := f.signIn(token)
	cookie := *old.cookie
	old.do(http.MethodDelete, "/api/v1/session", nil, nil)
	old.cookie = &cookie
	if got := old.send(old.newRequest(http.MethodGet, "/api/v1/installed", nil)).Code; got != http.StatusUnauthorized {
		t.Errorf("the cookie of a session that has ended: got %d, want 401", got)
	}
	if log := f.logged(); strings.Contains(log, token) || !strings.Contains(log, "alice") {
		t.Errorf("got the log %s, want the user who signed out and no token", log)
	}
}

func TestSignInIsRefused(t *testing.T) {
	f := newFixture(t, nil)
	for name, test := range map[string]struct {
		credentials console.Credentials
		status      int
		advice      string
	}{
		"no token":        {console.Credentials{}, http.StatusUnprocessableEntity, "kubectl create token"},
		"a wrong token":   {console.Credentials{Token: "nonsense"}, http.StatusUnauthorized, "Check that the token is complete"},
		"a secret":        {console.Credentials{Secret: "nonsense"}, http.StatusUnprocessableEntity, "kubectl create token"},
		"a broken header": {console.Credentials{Token: "a\nb"}, http.StatusUnauthorized, "Check that the token is complete"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &browser{f: f}
			r := b.send(b.newRequest(http.MethodPost, "/api/v1/session", test.credentials))
			var problem console.Problem
			r.decode(&problem)
			if r.Code != test.status || !strings.Contains(problem.Advice, test.advice) {
				t.Errorf("got %d %+v, want %d with the advice %q", r.Code, problem, test.status, test.advice)
			}
			if b.cookie != nil {
				t.Errorf("got the cookie %v, want none", b.cookie)
			}
		})
	}
}

func TestSecretSignsInOnce(t *testing.T) {
	f := newFixture(t, func(o *console.Options) {
		o.Config, o.Secret, o.Insecure, o.Hosts = env.Start(t), "open-sesame", true, []string{"console.example.com"}
	})
	b := &browser{f: f}
	if got := b.send(b.newRequest(http.MethodPost, "/api/v1/session", console.Credentials{Secret: "wrong"})).Code; got != http.StatusUnauthorized {
		t.Errorf("a wrong secret: got %d, want 401", got)
	}

	b.do(http.MethodPost, "/api/v1/session", console.Credentials{Secret: "open-sesame"}, nil)
	b.do(http.MethodGet, "/api/v1/installed", nil, nil)
	second := &browser{f: f}
	if got := second.send(second.newRequest(http.MethodPost, "/api/v1/session", console.Credentials{Secret: "open-sesame"})).Code; got != http.StatusUnauthorized {
		t.Errorf("the secret a second time: got %d, want 401", got)
	}

	rebound := b.newRequest(http.MethodGet, "/api/v1/installed", nil)
	rebound.Host = "evil.example.com"
	if got := b.send(rebound).Code; got != http.StatusMisdirectedRequest {
		t.Errorf("a request for another host: got %d, want 421", got)
	}
}

func TestSessionsEnd(t *testing.T) {
	f := newFixture(t, func(o *console.Options) {
		o.Limits = session.Limits{Idle: time.Minute, Lifetime: 10 * time.Minute, PerUser: 2, Total: 3}
	})
	token := f.newUser("bob", "")
	status := func(b *browser) int { return b.send(b.newRequest(http.MethodGet, "/api/v1/installed", nil)).Code }

	idle := f.signIn(token)
	f.pass(2 * time.Minute)
	if got := status(idle); got != http.StatusUnauthorized {
		t.Errorf("an idle session: got %d, want 401", got)
	}

	old := f.signIn(token)
	for range 11 {
		f.pass(50 * time.Second)
		status(old)
	}
	f.pass(time.Minute)
	if got := status(old); got != http.StatusUnauthorized {
		t.Errorf("a session after its lifetime: got %d, want 401", got)
	}

	first := f.signIn(token)
	f.pass(time.Second)
	second := f.signIn(token)
	third := f.signIn(token)
	if got := []int{status(first), status(second), status(third)}; got[0] != http.StatusUnauthorized || got[1] != http.StatusOK || got[2] != http.StatusOK {
		t.Errorf("three sessions of a user who may have two: got %v, want the oldest ended", got)
	}

	f.signIn(f.newUser("carol", ""))
	b := &browser{f: f}
	if got := b.send(b.newRequest(http.MethodPost, "/api/v1/session", console.Credentials{Token: f.newUser("dave", "")})).Code; got != http.StatusServiceUnavailable {
		t.Errorf("one session too many: got %d, want 503", got)
	}
}

// A session does not outlive its token: neither the time that the token states, nor the account of the token.
func TestSessionsEndWithTheirTokens(t *testing.T) {
	f := newFixture(t, func(o *console.Options) {
		o.Limits = session.Limits{Idle: 12 * time.Hour, Lifetime: 24 * time.Hour, PerUser: 2, Total: 10}
	})
	get := func(b *browser) int { return b.send(b.newRequest(http.MethodGet, "/api/v1/namespaces", nil)).Code }

	b := f.signIn(f.newUser("erin", "")) // the API server issues tokens for an hour
	f.pass(59 * time.Minute)
	if got := get(b); got != http.StatusOK {
		t.Errorf("before the token expires: got %d, want 200", got)
	}
	// The clock of the sessions stopped when the fixture was created, and the API server issued the token after that. The
	// second minute is for the time between.
	f.pass(2 * time.Minute)
	if got := get(b); got != http.StatusUnauthorized {
		t.Errorf("after the token has expired: got %d, want 401", got)
	}

	gone := f.signIn(f.newUser("frank", ""))
	f.Must(f.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "frank"}}))
	// The API server remembers for some seconds that a token is valid.
	env.EventuallyTrue(t, "the API server refuses the token", func() bool { return get(gone) == http.StatusUnauthorized }, nil)
	var info console.SessionInfo
	gone.do(http.MethodGet, "/api/v1/session", nil, &info)
	if info.SignedIn {
		t.Error("still signed in after the API server has refused the token")
	}
}
