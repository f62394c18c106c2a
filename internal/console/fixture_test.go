package console_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/console"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" { // Fuzzing uses a shared API server and no identity provider.
		env.TrustIssuer(env.Issuer{URL: identity.URL, CA: identity.ca(), ClientID: clientID, UserClaim: "email", GroupsClaim: "groups"})
	}
	os.Exit(env.Run(m))
}

// pages are the pages of the console.
var pages = fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>Mainstay</title>")}, "assets/a-1.js": {Data: []byte(strings.Repeat("a", 1000))}}

// origin is the address of the console in tests.
const origin = "https://console.example.com"

// fixture is a console of a cluster.
type fixture struct {
	*env.Fixture
	server    *console.Server
	namespace string

	mu  sync.Mutex
	log bytes.Buffer
	now time.Time
}

// newFixture starts a console. change changes its options.
func newFixture(t testing.TB, change func(*console.Options)) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, clientgoscheme.AddToScheme, olmv1.AddToScheme, v1alpha1.AddToScheme, configv1.AddToScheme, mcfgv1.AddToScheme, operatorsv1.AddToScheme), now: time.Now()}
	f.namespace = f.NewNamespace("console-")
	options := console.Options{
		Assets: pages,
		Config: rest.AnonymousClientConfig(env.Start(t)), Version: "v1.2.3", Log: f.newLog(), Now: f.clock,
	}
	if change != nil {
		change(&options)
	}

	var err error
	f.server, err = console.New(options)
	f.Must(err)
	t.Cleanup(f.server.Close)
	return f
}

func (f *fixture) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// pass advances the clock of the sessions.
func (f *fixture) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

func (f *fixture) newLog() logr.Logger {
	return funcr.New(func(_, args string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.log.WriteString(args + "\n")
	}, funcr.Options{})
}

func (f *fixture) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

// newUser returns a token of a user who has the rules in a namespace. An empty namespace means the whole cluster.
func (f *fixture) newUser(name, namespace string, rules ...rbacv1.PolicyRule) string {
	f.T.Helper()
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: name}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	f.CreateAll(account)
	subject := builder.ServiceAccountSubject(f.namespace, name)
	unique := metav1.ObjectMeta{Namespace: namespace, Name: f.namespace + "-" + name}
	switch {
	case len(rules) == 0:
	case namespace == "":
		role, binding := builder.ClusterRole(unique, rules, subject)
		f.CreateAll(role, binding)
	default:
		role, binding := builder.Role(unique, rules, subject)
		f.CreateAll(role, binding)
	}

	request := &authenticationv1.TokenRequest{}
	f.Must(f.SubResource("token").Create(f.T.Context(), account, request))
	return request.Status.Token
}

// browser is a browser with its cookies.
type browser struct {
	f      *fixture
	cookie *http.Cookie
	csrf   string
}

// response is a response of the console.
type response struct {
	*httptest.ResponseRecorder
	t testing.TB
}

// decode decodes the body.
func (r response) decode(into any) {
	r.t.Helper()
	if err := json.Unmarshal(r.Body.Bytes(), into); err != nil {
		r.t.Fatalf("decoding %s: %v", r.Body, err)
	}
}

// newRequest returns a request as a browser sends it.
func (b *browser) newRequest(method, path string, body any) *http.Request {
	b.f.T.Helper()
	var reader io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		b.f.Must(err)
		reader = bytes.NewReader(data)
	}

	r := httptest.NewRequestWithContext(b.f.T.Context(), method, origin+path, reader)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("X-CSRF-Token", b.csrf)
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	return r
}

// send sends a request and keeps the cookie of the response.
func (b *browser) send(r *http.Request) response {
	recorder := httptest.NewRecorder()
	b.f.server.ServeHTTP(recorder, r)
	for _, cookie := range recorder.Result().Cookies() {
		b.cookie = cookie
	}
	return response{recorder, b.f.T}
}

// do sends a request and decodes the response.
func (b *browser) do(method, path string, body, into any) {
	b.f.T.Helper()
	r := b.send(b.newRequest(method, path, body))
	if r.Code != http.StatusOK {
		b.f.T.Fatalf("%s %s: got %d %s", method, path, r.Code, r.Body)
	}
	if into != nil {
		r.decode(into)
	}
}

// signIn returns a browser in which the owner of a token has signed in.
func (f *fixture) signIn(token string) *browser {
	f.T.Helper()
	b := &browser{f: f}
	var info console.SessionInfo
	b.do(http.MethodPost, "/api/v1/session", console.Credentials{Token: token}, &info)
	b.csrf = info.CSRFToken
	return b
}
