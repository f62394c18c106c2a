package registry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var robot = Login{Username: "robot", Password: "s3cr3t"}

// tokenServer is a registry that requires tokens, together with its token server.
type tokenServer struct {
	registry *httptest.Server
	tokens   *httptest.Server

	received  atomic.Int32                                 // requests of manifests to the registry
	fetched   atomic.Int32                                 // issued tokens
	challenge string                                       // in addition to realm and service; set before the first request
	query     string                                       // of the token server's address
	noHint    bool                                         // only the base endpoint sends a challenge
	good      atomic.Value                                 // the valid token
	answer    func(w http.ResponseWriter, r *http.Request) // of the token server
	requests  []string                                     // requests to the token server
}

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	s := &tokenServer{}
	s.good.Store("t0ken-1")
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"token":%q,"expires_in":300}`, s.good.Load())
	}
	s.tokens = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		s.fetched.Add(1)
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}

		user, password, _ := r.BasicAuth()
		s.requests = append(s.requests, fmt.Sprintf("%s %s:%s %s", r.Method, user, password, r.Form.Encode()))
		s.answer(w, r)
	})

	s.registry = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			s.received.Add(1)
		}
		if r.Header.Get("Authorization") == "Bearer "+s.good.Load().(string) {
			w.Header().Set("Docker-Content-Digest", someDigest.String())
			return
		}
		if !s.noHint || r.URL.Path == "/v2/" {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token%s",service="reg"%s`, s.tokens.URL, s.query, s.challenge))
		}
		w.WriteHeader(http.StatusUnauthorized)
	})

	return s
}

func (s *tokenServer) session(t *testing.T, edit func(*Options)) *Session {
	t.Helper()
	return sessionTo(t, s.registry, func(o *Options) {
		o.Login = robot
		o.TLS.RootCAs = s.registry.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		o.TLS.RootCAs.AddCert(s.tokens.Certificate())
		if edit != nil {
			edit(o)
		}
	})
}

func TestTokens(t *testing.T) {
	tests := map[string]struct {
		edit     func(*tokenServer)
		opts     func(*Options)
		requests []string
		err      string
	}{
		"password": {requests: []string{"GET robot:s3cr3t account=robot&scope=repository%3Aorg%2Fname%3Apull&service=reg"}},
		"nobody": {
			opts:     func(o *Options) { o.Login = Login{} },
			requests: []string{"GET : scope=repository%3Aorg%2Fname%3Apull&service=reg"},
		},
		"identity": {
			opts: func(o *Options) { o.Login = Login{IdentityToken: "identity"} },
			requests: []string{
				"POST : client_id=mainstay&grant_type=refresh_token&refresh_token=identity&scope=repository%3Aorg%2Fname%3Apull&service=reg",
			},
		},
		"push": {
			opts:     func(o *Options) { o.Push = true },
			requests: []string{"GET robot:s3cr3t account=robot&scope=repository%3Aorg%2Fname%3Apull%2Cpush&service=reg"},
		},
		"another scope": {
			edit:     func(s *tokenServer) { s.challenge = `,scope="repository:org/secret:pull,push"` },
			requests: []string{"GET robot:s3cr3t account=robot&scope=repository%3Aorg%2Fname%3Apull&service=reg"},
		},
		"another scope in the address of the token server": {
			edit:     func(s *tokenServer) { s.query = "?tenant=a&scope=repository:org/secret:pull" },
			requests: []string{"GET robot:s3cr3t account=robot&scope=repository%3Aorg%2Fname%3Apull&service=reg&tenant=a"},
		},
		"another scope there, for an identity": {
			edit: func(s *tokenServer) { s.query = "?scope=repository:org/secret:pull" },
			opts: func(o *Options) { o.Login = Login{IdentityToken: "identity"} },
			requests: []string{
				"POST : client_id=mainstay&grant_type=refresh_token&refresh_token=identity&scope=repository%3Aorg%2Fname%3Apull&service=reg",
			},
		},
		"only the base endpoint sends a challenge": {
			edit:     func(s *tokenServer) { s.noHint = true },
			requests: []string{"GET robot:s3cr3t account=robot&scope=repository%3Aorg%2Fname%3Apull&service=reg"},
		},
		"under its other name": {
			edit: func(s *tokenServer) {
				s.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"access_token":%q}`, s.good.Load()) }
			},
			requests: []string{"GET robot:s3cr3t account=robot&scope=repository%3Aorg%2Fname%3Apull&service=reg"},
		},
		"no token": {
			edit: func(s *tokenServer) {
				s.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"details":"s3cr3t"}`) }
			},
			err: "the answer holds no token",
		},
		"no JSON": {
			edit: func(s *tokenServer) {
				s.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `s3cr3t`) }
			},
			err: "the answer holds no token",
		},
		"endless": {
			edit: func(s *tokenServer) { s.answer = serveEndlessly(http.StatusOK) },
			err:  fmt.Sprintf("the token has more than %d bytes", maxTokenResponseBytes),
		},
		"refused": {
			edit: func(s *tokenServer) { s.answer = serveEndlessly(http.StatusUnauthorized) },
			err:  "the registry answered 401 Unauthorized",
		},
		"an invalid token": {
			edit: func(s *tokenServer) {
				s.answer = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token":"wrong"}`) }
			},
			err: "look up the tag v1: the registry answered 401 Unauthorized",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newTokenServer(t)
			if test.edit != nil {
				test.edit(s)
			}
			session := s.session(t, test.opts)
			found, err := session.Digest(t.Context(), "v1")
			if test.err != "" {
				wantText(t, err, test.err)
				for _, secret := range []string{"s3cr3t", "wrong"} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("got error %[2]v, want one without %[1]q", secret, err)
					}
				}
				return
			}
			if err != nil || found != someDigest {
				t.Fatalf("got %s (error %v), want %s", found, err, someDigest)
			}
			if diff := cmp.Diff(test.requests, s.requests); diff != "" {
				t.Errorf("requests for tokens (-want +got):\n%s", diff)
			}
		})
	}
}

// serveEndlessly sends a response without end, until the client closes the connection.
func serveEndlessly(status int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		part := make([]byte, 64<<10)
		for i := range part {
			part[i] = ' '
		}
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}
}

// TestTokensAreKept checks that a request needs no further requests once the login method
// is known, in all sessions, until the token expires. The known method applies to one
// repository and one login.
func TestTokensAreKept(t *testing.T) {
	s := newTokenServer(t)
	shared, clock := newTestShared()
	ask := func(edit func(*Options)) {
		t.Helper()
		session := s.session(t, func(o *Options) {
			o.Shared = shared
			if edit != nil {
				edit(o)
			}
		})
		if _, err := session.Digest(t.Context(), "v1"); err != nil {
			t.Fatal(err)
		}
	}

	check := func(when string, received, fetched int32) {
		t.Helper()
		if s.received.Load() != received || s.fetched.Load() != fetched {
			t.Errorf("%s: got %d requests and %d tokens, want %d and %d", when, s.received.Load(), s.fetched.Load(), received, fetched)
		}
	}

	ask(nil)
	check("first", 2, 1)
	ask(nil)
	check("again", 3, 1)
	ask(func(o *Options) { o.Login.Password = "another" })
	check("with another password", 5, 2)
	ask(func(o *Options) { o.Push = true })
	check("to push", 7, 3)
	ask(func(o *Options) { o.Repository = "org/other" })
	check("another repository", 9, 4)
	if err := clock.sleep(t.Context(), 5*time.Minute); err != nil {
		t.Fatal(err)
	}

	ask(nil)
	check("the token ended", 10, 5)
	s.good.Store("t0ken-2")
	ask(nil)
	check("the token was withdrawn", 12, 6)
}

// TestPasswordStaysOnTLS checks that a login is not sent without encryption.
func TestPasswordStaysOnTLS(t *testing.T) {
	var sent atomic.Int32
	listener := serve(t, false, func(http.ResponseWriter, *http.Request) { sent.Add(1) })
	for _, realm := range []string{listener.URL, "ftp://example.com", "//example.com", "%zz", ""} {
		server := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="x"`, realm))
			w.WriteHeader(http.StatusUnauthorized)
		})
		session := sessionTo(t, server, func(o *Options) { o.Login = robot })
		_, err := session.Digest(t.Context(), "v1")
		var login *LoginError
		if !errors.As(err, &login) {
			t.Errorf("realm %q: got %v, want a *LoginError", realm, err)
		}
	}

	if sent.Load() != 0 {
		t.Error("got a login sent without encryption, want none")
	}
}

// TestInsecureKnowledgeIsNotTrusted checks that a secure session does not use a login
// method that was learned from an insecure registry, because others could have changed it.
func TestInsecureKnowledgeIsNotTrusted(t *testing.T) {
	var sent atomic.Int32
	listener := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); ok {
			sent.Add(1)
		}
		fmt.Fprint(w, `{"token":"x"}`)
	})

	server := serve(t, true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q`, listener.URL))
		w.WriteHeader(http.StatusUnauthorized)
	})
	shared, _ := newTestShared()
	for _, insecure := range []bool{true, false} {
		session := sessionTo(t, server, func(o *Options) { o.Shared, o.Login, o.Insecure = shared, robot, insecure })
		if _, err := session.Digest(t.Context(), "v1"); err == nil {
			t.Error("got no error for a response without a token, want one")
		}
		if n := sent.Load(); n != 1 {
			t.Errorf("insecure %t: got the login sent %d times, want once by the insecure session", insecure, n)
		}
	}
}

func TestBasic(t *testing.T) {
	var requests atomic.Int32
	server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if user, password, _ := r.BasicAuth(); user != robot.Username || password != robot.Password {
			w.Header().Add("WWW-Authenticate", "Negotiate")
			w.Header().Add("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Docker-Content-Digest", someDigest.String())
	})

	shared, _ := newTestShared()
	for _, test := range []struct {
		login    Login
		requests int32
		good     bool
	}{
		{login: Login{}, requests: 1},
		{login: Login{Username: "robot", Password: "wrong"}, requests: 2},
		{login: robot, requests: 2, good: true},
		{login: robot, requests: 1, good: true},
		{login: Login{Username: "robot", Password: "wrong"}, requests: 2},
		{login: Login{IdentityToken: "identity"}, requests: 1},
	} {
		requests.Store(0)
		session := sessionTo(t, server, func(o *Options) { o.Shared, o.Login = shared, test.login })
		_, err := session.Digest(t.Context(), "v1")
		if (err == nil) != test.good || requests.Load() != test.requests {
			t.Errorf("%v: got error %v after %d requests, want success %v after %d", test.login, err, requests.Load(), test.good, test.requests)
		}
		if err != nil {
			_ = wantStatus(t, err, http.StatusUnauthorized)
		}
	}
}

// TestRedirects checks that redirects are followed, but that the login is sent to the
// registry only, down to the port.
func TestRedirects(t *testing.T) {
	type seen struct{ authorization, referer string }
	var elsewhere atomic.Pointer[seen]
	record := func(w http.ResponseWriter, r *http.Request) {
		elsewhere.Store(&seen{r.Header.Get("Authorization"), r.Header.Get("Referer")})
		fmt.Fprint(w, "content")
	}
	secure, plain := serve(t, true, record), serve(t, false, record)
	other := strings.Replace(secure.URL, "127.0.0.1", "localhost", 1)
	tests := map[string]struct {
		secure bool
		to     string
		err    string
		sent   string // the login that arrives
	}{
		"to another port":             {secure: true, to: secure.URL},
		"to another host":             {secure: true, to: other},
		"to no TLS":                   {secure: true, to: plain.URL, err: "redirects to http:, which is not followed"},
		"to a file":                   {secure: true, to: "file:///etc/passwd", err: "redirects to file:, which is not followed"},
		"to itself, without end":      {secure: true, to: "/v2/x", err: "redirects more than 10 times"},
		"without TLS, to no TLS":      {to: plain.URL},
		"without TLS, to TLS":         {to: secure.URL},
		"within the registry":         {secure: true, to: "/elsewhere", sent: "Basic cm9ib3Q6czNjcjN0"},
		"to nowhere":                  {secure: true, to: "", err: "302"},
		"to an invalid address":       {secure: true, to: "https://[::bad/", err: "failed to parse Location header"},
		"to its host without its TLS": {secure: true, to: "itself", err: "redirects to http:, which is not followed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			elsewhere.Store(nil)
			var requests atomic.Int32
			var server *httptest.Server
			server = serve(t, test.secure, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) > maxRedirects+3 {
					t.Error("got more requests than the limit of redirects, want an error")
				}
				user, _, _ := r.BasicAuth()
				switch {
				case user == "" && r.URL.Path != "/elsewhere":
					w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
					w.WriteHeader(http.StatusUnauthorized)
				case r.URL.Path == "/elsewhere":
					record(w, r)
				default:
					to := test.to
					if to == "itself" {
						to = strings.Replace(server.URL, "https:", "http:", 1)
					}
					if to != "" {
						w.Header().Set("Location", to)
					}
					w.WriteHeader(http.StatusFound)
				}
			})
			session := sessionTo(t, server, func(o *Options) {
				o.Login = robot
				o.TLS = trustingTLSConfig(secure)
				o.TLS.RootCAs.AddCert(secure.Certificate())
				o.TLS.ServerName = "example.com" // in the test servers' certificate
			})
			data, _, err := session.Manifest(t.Context(), "v1")
			got := elsewhere.Load()
			if test.err != "" {
				wantText(t, err, test.err)
				if got != nil {
					t.Errorf("got request %v at the target of the redirect, want none", got)
				}
				return
			}
			if err != nil || string(data) != "content" {
				t.Fatalf("got %q (error %v), want content", data, err)
			}
			if got.authorization != test.sent {
				t.Errorf("got login %q, want %q", got.authorization, test.sent)
			}
			if test.sent == "" && got.referer != "" {
				t.Errorf("got referer %q, want none", got.referer)
			}
		})
	}
}

// TestNoLoginAfterARedirectBack checks that a redirect that leads away and back carries no login,
// because another host chose its target.
func TestNoLoginAfterARedirectBack(t *testing.T) {
	var arrived atomic.Value
	var server *httptest.Server
	elsewhere := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, server.URL+"/v2/org/secret/manifests/v1", http.StatusTemporaryRedirect)
	})
	server = serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v2/org/secret/"):
			arrived.Store(r.Header.Get("Authorization"))
		case r.Header.Get("Authorization") == "":
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}
	})

	session := sessionTo(t, server, func(o *Options) { o.Login = robot })

	if _, _, err := session.Manifest(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	if got := arrived.Load(); got != "" {
		t.Errorf("got the login %q after a redirect from elsewhere, want none", got)
	}
}

// TestNoLoginElsewhere checks that the target of a redirect receives no login when it requests
// one.
func TestNoLoginElsewhere(t *testing.T) {
	var requests atomic.Int32
	elsewhere := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Header.Get("Authorization") != "" {
			t.Error("got a login at the target of the redirect, want none")
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	})

	server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/x", http.StatusTemporaryRedirect)
	})
	session := sessionTo(t, server, func(o *Options) { o.Login = robot })
	_, _, err := session.Manifest(t.Context(), "v1")
	_ = wantStatus(t, err, http.StatusUnauthorized)
	if n := requests.Load(); n != 1 {
		t.Errorf("the target of the redirect received %d requests, want 1", n)
	}
}

// TestIdentityTokenIsNotRedirected checks that a redirect does not carry the body with a
// refresh token.
func TestIdentityTokenIsNotRedirected(t *testing.T) {
	leaked := atomic.Bool{}
	thief := serve(t, true, func(http.ResponseWriter, *http.Request) { leaked.Store(true) })
	s := newTokenServer(t)
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusPermanentRedirect)
	}
	session := s.session(t, func(o *Options) {
		o.Login = Login{IdentityToken: "identity"}
		o.TLS.RootCAs.AddCert(thief.Certificate())
	})
	_, err := session.Digest(t.Context(), "v1")
	wantText(t, err, "308")
	if leaked.Load() {
		t.Error("got the refresh token at the target of the redirect, want none")
	}
}

func TestInsecure(t *testing.T) {
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Docker-Content-Digest", someDigest.String())
	}
	plain, secure := serve(t, false, answer), serve(t, true, answer)
	ask := func(server *httptest.Server, insecure, verify bool) error {
		address, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}

		session := sessionTo(t, server, func(o *Options) {
			o.Host, o.Insecure = address.Host, insecure
			o.TLS = trustingTLSConfig(plain) // knows no test certificate
			o.TLS.InsecureSkipVerify = !verify
		})
		_, err = session.Digest(t.Context(), "v1")
		return err
	}
	if err := ask(plain, true, true); err != nil {
		t.Errorf("plain HTTP from an insecure registry: got error %v, want none", err)
	}

	wantText(t, ask(plain, false, true), "HTTP response to HTTPS client")
	if err := ask(secure, true, false); err != nil {
		t.Errorf("an unknown certificate of an insecure registry: got error %v, want none", err)
	}

	wantText(t, ask(secure, false, true), "certificate signed by unknown authority")
	secure.Close()
	wantText(t, ask(secure, true, false), "connection refused")
}

// TestRedirectLoopOfInsecureRegistry checks the error of an insecure registry with endless
// redirects, with TLS and without.
func TestRedirectLoopOfInsecureRegistry(t *testing.T) {
	loop := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }
	secure, plain := serve(t, true, loop), httptest.NewUnstartedServer(http.HandlerFunc(loop))
	plain.Listener = &refuseTLS{plain.Listener}
	plain.Start()
	t.Cleanup(plain.Close)

	for name, server := range map[string]*httptest.Server{"TLS": secure, "plain HTTP": plain} {
		session := sessionTo(t, server, func(o *Options) { o.Insecure = true })
		_, _, err := session.Manifest(t.Context(), "v1")
		var endless *RedirectError
		if !errors.As(err, &endless) {
			t.Errorf("%s: got %v, want a *RedirectError", name, err)
		}
	}
}

// refuseTLS accepts connections, and closes those that begin with a TLS handshake.
type refuseTLS struct{ net.Listener }

func (l *refuseTLS) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &plainConn{Conn: conn, reader: bufio.NewReader(conn)}, nil
}

type plainConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *plainConn) Read(p []byte) (int, error) {
	const handshake = 0x16
	if first, err := c.reader.Peek(1); err == nil && first[0] == handshake {
		return 0, io.EOF
	}
	return c.reader.Read(p)
}
