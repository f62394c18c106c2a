package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/testing/poll"
)

// sharedRegistry is a registry whose repositories belong to different people. Those below
// org/ belong to the registry itself. The test defines the responses of the others.
type sharedRegistry struct {
	registry *httptest.Server
	tokens   *repositoryTokenServer
	thief    *repositoryTokenServer

	mu       sync.Mutex
	others   http.HandlerFunc
	base     http.HandlerFunc // if nil, the base endpoint names the token server
	requests []string         // requests to the registry with their authorization
}

// repositoryTokenServer is a token server that records its requests.
type repositoryTokenServer struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string
	status   int           // the status of each response; 0 grants the requested scope
	hang     chan struct{} // if set, the server does not respond before it is closed
}

func newRepositoryTokenServer(t *testing.T) *repositoryTokenServer {
	t.Helper()
	s := &repositoryTokenServer{}
	s.Server = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		s.mu.Lock()
		s.requests = append(s.requests, fmt.Sprintf("%s:%s %s", user, password, strings.Join(r.URL.Query()["scope"], " ")))
		status, hang := s.status, s.hang
		s.mu.Unlock()
		if hang != nil {
			<-hang
		}
		if status != 0 {
			w.WriteHeader(status)
			return
		}

		fmt.Fprintf(w, `{"token":%q,"expires_in":300}`, user+" "+r.URL.Query().Get("scope"))
	})

	return s
}

func (s *repositoryTokenServer) challenge() string {
	return fmt.Sprintf(`Bearer realm="%s/token"`, s.URL)
}

func (s *repositoryTokenServer) set(status int, hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.hang = status, hang
}

// drainRequests returns the requests since the last call.
func (s *repositoryTokenServer) drainRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	requests := s.requests
	s.requests = nil
	return requests
}

func newSharedRegistry(t *testing.T) *sharedRegistry {
	t.Helper()
	s := &sharedRegistry{tokens: newRepositoryTokenServer(t), thief: newRepositoryTokenServer(t)}
	s.registry = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		authorization := r.Header.Get("Authorization")
		s.mu.Lock()
		s.requests = append(s.requests, strings.TrimSpace(r.URL.Path+" "+authorization))
		others, base, tokens := s.others, s.base, s.tokens
		s.mu.Unlock()
		switch {
		case r.URL.Path == "/v2/" && base != nil:
			base(w, r)
		case !strings.HasPrefix(r.URL.Path, "/v2/org/") && r.URL.Path != "/v2/":
			others(w, r)
		case authorization == "Bearer robot repository:"+repositoryOf(r)+":pull":
			w.Header().Set("Docker-Content-Digest", someDigest.String())
		default:
			respondUnauthorized(w, tokens.challenge())
		}
	})

	return s
}

func repositoryOf(r *http.Request) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v2/"), "/manifests/")
	return name
}

func respondUnauthorized(w http.ResponseWriter, challenge string) {
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.WriteHeader(http.StatusUnauthorized)
}

func (s *sharedRegistry) drainRequests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	requests := s.requests
	s.requests = nil
	return requests
}

func (s *sharedRegistry) session(t *testing.T, shared *Shared, edit func(*Options)) *Session {
	t.Helper()
	return sessionTo(t, s.registry, func(o *Options) {
		o.Shared, o.Login = shared, robot
		for _, server := range []*repositoryTokenServer{s.tokens, s.thief} {
			o.TLS.RootCAs.AddCert(server.Certificate())
		}
		if edit != nil {
			edit(o)
		}
	})
}

// TestRepositoriesDoNotDecideForOthers checks that the response of one repository does not
// affect another one: neither its access, nor where its login is sent, nor for which scope.
func TestRepositoriesDoNotDecideForOthers(t *testing.T) {
	s := newSharedRegistry(t)
	hostile := map[string]http.HandlerFunc{
		"requests a token of another server, for another repository": func(w http.ResponseWriter, _ *http.Request) {
			respondUnauthorized(w, s.thief.challenge()+`,scope="repository:org/name:pull,push"`)
		},
		"requests a token of the registry, for another repository": func(w http.ResponseWriter, _ *http.Request) {
			respondUnauthorized(w, s.tokens.challenge()+`,service="other",scope="repository:org/name:pull,push"`)
		},
		"requests the password": func(w http.ResponseWriter, _ *http.Request) { respondUnauthorized(w, `Basic realm="x"`) },
		"requests a token of an unreachable server": func(w http.ResponseWriter, _ *http.Request) {
			respondUnauthorized(w, `Bearer realm="https://127.0.0.1:1/token"`)
		},
		"names no address":      func(w http.ResponseWriter, _ *http.Request) { respondUnauthorized(w, `Bearer realm="/token"`) },
		"names no login method": func(w http.ResponseWriter, _ *http.Request) { respondUnauthorized(w, "") },
		"forbids":               func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"redirects to a thief":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.thief.URL, http.StatusFound) },
	}

	for name, answer := range hostile {
		t.Run(name, func(t *testing.T) {
			s.mu.Lock()
			s.others = answer
			s.mu.Unlock()
			shared, _ := newTestShared()
			for _, login := range []Login{{}, {Username: "tenant", Password: "tenant"}, robot} {
				session := s.session(t, shared, func(o *Options) { o.Repository, o.Login = "tenant/name", login })
				if _, err := session.Digest(t.Context(), "v1"); err == nil {
					t.Error("the hostile repository could be read, want an error")
				}
			}

			for _, request := range append(s.tokens.drainRequests(), s.thief.drainRequests()...) {
				if strings.Contains(request, "org/name") {
					t.Errorf("got a token request %q, want none for another repository", request)
				}
			}

			_ = s.drainRequests()

			found, err := s.session(t, shared, nil).Digest(t.Context(), "v1")
			if err != nil || found != someDigest {
				t.Errorf("got %q (%v) from the other repository, want %s", found, err, someDigest)
			}
			if diff := cmp.Diff([]string{"robot:s3cr3t repository:org/name:pull"}, s.tokens.drainRequests()); diff != "" {
				t.Errorf("requests to the token server (-want +got):\n%s", diff)
			}
			if requests := s.thief.drainRequests(); len(requests) != 0 {
				t.Errorf("got %q at the hostile token server, want nothing", requests)
			}

			want := []string{"/v2/org/name/manifests/v1", "/v2/", "/v2/org/name/manifests/v1 Bearer robot repository:org/name:pull"}
			if diff := cmp.Diff(want, s.drainRequests()); diff != "" {
				t.Errorf("requests to the registry (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGrantsOfHostsAndLoginsAreSeparate checks that a grant of one registry is neither sent to another host with a
// repository of the same name nor used for another login. Each gets its own challenge.
func TestGrantsOfHostsAndLoginsAreSeparate(t *testing.T) {
	const path, authorized = "/v2/org/name/manifests/v1", "/v2/org/name/manifests/v1 Bearer robot repository:org/name:pull"
	const robotToken = "robot:s3cr3t repository:org/name:pull"
	first, second := newSharedRegistry(t), newSharedRegistry(t)
	shared, _ := newTestShared()
	guest := Login{Username: "guest", Password: "guest"}
	for _, step := range []struct {
		name     string
		registry *sharedRegistry
		login    Login
		requests []string
		tokens   []string
	}{
		{"the first host", first, robot, []string{path, "/v2/", authorized}, []string{robotToken}},
		{"another host", second, robot, []string{path, "/v2/", authorized}, []string{robotToken}},
		{"another login", first, guest, []string{path, "/v2/", path + " Bearer guest repository:org/name:pull"}, []string{"guest:guest repository:org/name:pull"}},
		{"no login", second, Login{}, []string{path, path + " Bearer  repository:org/name:pull"}, []string{": repository:org/name:pull"}},
		{"the first host again", first, robot, []string{authorized}, nil},
		{"the other host again", second, robot, []string{authorized}, nil},
	} {
		t.Run(step.name, func(t *testing.T) {
			_, err := step.registry.session(t, shared, func(o *Options) { o.Login = step.login }).Digest(t.Context(), "v1")
			if (err == nil) != (step.login == robot) {
				t.Errorf("got error %v, want only robot to have access", err)
			}
			if diff := cmp.Diff(step.requests, step.registry.drainRequests()); diff != "" {
				t.Errorf("requests to the registry (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(step.tokens, step.registry.tokens.drainRequests()); diff != "" {
				t.Errorf("requests to its token server (-want +got):\n%s", diff)
			}
			for _, other := range []*sharedRegistry{first, second} {
				if requests := append(other.drainRequests(), other.tokens.drainRequests()...); len(requests) > 0 {
					t.Errorf("got requests %q at an unrelated host, want none", requests)
				}
			}
		})
	}
}

// TestLoginGoesWhereTheBaseEndpointSays checks that a login is sent to a token server on
// another host only if the registry's base endpoint names it, which no repository controls.
func TestLoginGoesWhereTheBaseEndpointSays(t *testing.T) {
	tests := map[string]struct {
		base   func(*sharedRegistry) string
		login  Login
		tokens []string // requests to the registry's own token server
		thief  []string
		err    string
	}{
		"the base endpoint names another": {
			login: robot, tokens: []string{"robot:s3cr3t repository:tenant/name:pull"},
		},
		"the base endpoint requires no login": {
			base: func(*sharedRegistry) string { return "" }, login: robot,
			err: "which the registry's base endpoint (/v2/) does not name as its token server; it is not sent",
		},
		"the base endpoint names the same": {
			base: func(s *sharedRegistry) string { return s.thief.challenge() }, login: robot,
			thief: []string{"robot:s3cr3t repository:tenant/name:pull"},
		},
		"there is no login to send": {
			thief: []string{": repository:tenant/name:pull"},
		},
		"there is an identity token": {
			base: func(*sharedRegistry) string { return "" }, login: Login{IdentityToken: "identity"},
			err: "it is not sent",
		},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSharedRegistry(t)
			s.others = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					w.Header().Set("Docker-Content-Digest", someDigest.String())
					return
				}
				respondUnauthorized(w, s.thief.challenge())
			}

			if test.base != nil {
				s.base = func(w http.ResponseWriter, _ *http.Request) {
					if challenge := test.base(s); challenge != "" {
						respondUnauthorized(w, challenge)
					}
				}
			}

			shared, _ := newTestShared()
			session := s.session(t, shared, func(o *Options) { o.Repository, o.Login = "tenant/name", test.login })

			_, err := session.Digest(t.Context(), "v1")
			if test.err != "" {
				var login *LoginError
				if !errors.As(err, &login) {
					t.Errorf("got %v, want a *LoginError", err)
				}
				wantText(t, err, test.err)
			} else if err != nil {
				t.Error(err)
			}

			if diff := cmp.Diff(test.tokens, s.tokens.drainRequests()); diff != "" {
				t.Errorf("requests to the registry's token server (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.thief, s.thief.drainRequests()); diff != "" {
				t.Errorf("requests to the other token server (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTokenServerThatFailsIsLearnedAgain checks that a failing token server is forgotten:
// the next request has no login, and the registry sends a new challenge.
func TestTokenServerThatFailsIsLearnedAgain(t *testing.T) {
	s := newSharedRegistry(t)
	old := s.tokens
	shared, clock := newTestShared()
	ask := func(ctx context.Context) error {
		_, err := s.session(t, shared, func(o *Options) { o.TLS.RootCAs.AddCert(old.Certificate()) }).Digest(ctx, "v1")
		return err
	}
	expire := func() {
		t.Helper()
		if err := clock.sleep(t.Context(), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
		_, _ = s.drainRequests(), old.drainRequests()
	}

	const path, authorized = "/v2/org/name/manifests/v1", "/v2/org/name/manifests/v1 Bearer robot repository:org/name:pull"
	if err := ask(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The token server fails, and the registry names no other server, which is a single error.
	expire()
	old.set(http.StatusInternalServerError, nil)
	wantText(t, ask(t.Context()), "log in at", "500 Internal Server Error")
	if diff := cmp.Diff([]string{path, "/v2/"}, s.drainRequests()); diff != "" {
		t.Errorf("requests to the registry (-want +got):\n%s", diff)
	}
	if got, want := len(old.drainRequests()), 1+maxAttempts; got != want {
		t.Errorf("got %d requests to the token server, want %d", got, want)
	}

	old.set(0, nil)
	if err := ask(t.Context()); err != nil {
		t.Errorf("got error %v after the token server has recovered, want none", err)
	}

	// The token server has moved.
	expire()
	old.set(http.StatusNotFound, nil)
	s.mu.Lock()
	s.tokens = newRepositoryTokenServer(t)
	moved := s.tokens
	s.mu.Unlock()
	if err := ask(t.Context()); err != nil {
		t.Errorf("got error %v after the token server has moved, want none", err)
	}
	if diff := cmp.Diff([]string{path, "/v2/", authorized}, s.drainRequests()); diff != "" {
		t.Errorf("requests to the registry (-want +got):\n%s", diff)
	}

	// The token server does not respond while a request waits. It does not delay the next request.
	expire()
	hang := make(chan struct{})
	moved.set(0, hang)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- ask(ctx) }()
	poll.EventuallyTrue(t, "the token server receives a request", func() bool { return len(moved.drainRequests()) > 0 }, nil)

	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that of the context", err)
	}

	close(hang)
	s.mu.Lock()
	s.tokens = old
	s.mu.Unlock()
	old.set(0, nil)
	moved.set(http.StatusInternalServerError, nil)
	_ = moved.drainRequests()
	if err := ask(t.Context()); err != nil {
		t.Errorf("got error %v after the token server did not respond, want none", err)
	}
	if requests := moved.drainRequests(); len(requests) != 0 {
		t.Errorf("got requests %q at a token server that did not respond, want a request to the registry first", requests)
	}
}

// TestGrantsAreBounded checks that the number of remembered grants is bounded.
func TestGrantsAreBounded(t *testing.T) {
	shared, _ := newTestShared()
	for i := range 3 * maxGrants {
		key := grantKey{repository: strconv.Itoa(i)}
		shared.rememberGrant(key, grant{})
		if n := len(shared.grants); n > maxGrants {
			t.Fatalf("got %d grants, want at most %d", n, maxGrants)
		}
		if _, ok := shared.rememberedGrant(key); !ok {
			t.Fatalf("got no grant for %v after it was stored, want it", key)
		}
	}
}
