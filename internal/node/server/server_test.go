package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
	"github.com/mainstay-dev/mainstay/internal/node/config"
	"github.com/mainstay-dev/mainstay/internal/testing/protocol"
	"github.com/mainstay-dev/mainstay/internal/testing/rawhttp"
)

// rendered returns the rendered configuration of a pool with the given parts.
func rendered(t *testing.T, pool, parts string) *mcfgv1.MachineConfig {
	t.Helper()
	source := &mcfgv1.MachineConfig{}
	source.Spec.Config.Raw = []byte(`{"ignition":{"version":"3.2.0"},` + parts + `}`)
	r, err := config.Render(pool, config.Base{}, []*mcfgv1.MachineConfig{source})
	if err != nil {
		t.Fatal(err)
	}

	return &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: r.Name}, Spec: r.Spec}
}

// cluster returns a client of a cluster with five pools, and the name of the configuration of the pool worker. The pool new has
// no configuration, the configuration of the pool gone does not exist, that of luks needs version 3.2, and that of changed does
// not match its name.
func cluster(t *testing.T) (c client.WithWatch, worker string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := mcfgv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	plain, luks := rendered(t, "worker", `"storage":{"files":[{"path":"/etc/a","contents":{"source":"data:,a"}}]}`), rendered(t, "luks", `"storage":{"luks":[{"name":"a"}]}`)
	changed := rendered(t, "changed", `"storage":{"files":[{"path":"/etc/b"}]}`)
	changed.Spec.KernelArguments = []string{"init=/bin/sh"}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(plain, luks, changed)
	for pool, name := range map[string]string{"worker": plain.Name, "new": "", "gone": "rendered-gone-1", "luks": luks.Name, "changed": changed.Name} {
		p := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: pool}}
		p.Spec.Configuration.Name = name
		b = b.WithObjects(p)
	}

	return b.Build(), plain.Name
}

func TestAnswers(t *testing.T) {
	c, worker := cluster(t)
	const ignition = "application/vnd.coreos.ignition+json"
	cases := map[string]struct {
		method, path, accept string
		status               int
		has                  string
	}{
		"a machine":            {"GET", "/config/worker", ignition + ";version=3.4.0, */*;q=0.1", 200, `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/a"`},
		"a later version":      {"GET", "/config/worker", ignition + ";version=3.7.0", 200, `{"ignition":{"version":"3.5.0"}`},
		"an older version":     {"GET", "/config/worker", ignition + "; version=2.2.0, " + ignition + ";version=3.0.0", 200, `{"ignition":{"version":"3.0.0"}`},
		"any type":             {"GET", "/config/worker", "*/*", 200, `{"ignition":{"version":"3.0.0"}`},
		"no Accept header":     {"GET", "/config/luks", "", 200, `{"ignition":{"version":"3.2.0"}`},
		"HEAD":                 {"HEAD", "/config/worker", "", 200, ""},
		"of specification 2":   {"GET", "/config/worker", ignition + "; version=2.2.0, " + ignition + "; version=1; q=0.5, */*; q=0.1", 406, "reads Ignition configurations of version"},
		"too old":              {"GET", "/config/luks", ignition + ";version=3.1.0", 406, "up to version 3.1.0, and this one needs 3.2.0"},
		"an unknown pool":      {"GET", "/config/other", "", 404, "no pool with this name"},
		"a way out":            {"GET", "/config/..%2f..%2fworker", "", 404, "no pool with this name"},
		"nothing rendered":     {"GET", "/config/new", "", 503, "no rendered configuration yet"},
		"not there yet":        {"GET", "/config/gone", "", 503, "does not exist yet"},
		"one that was changed": {"GET", "/config/changed", "", 500, "see the log of machine-config-server"},
		"writing":              {"POST", "/config/worker", "", 405, ""},
		"another path":         {"GET", "/", "", 404, ""},
		"a probe":              {"GET", "/healthz", "", 204, ""},
		"a short probe":        {"HEAD", "/healthz", "", 204, ""},
		"a wrong probe":        {"DELETE", "/healthz", "", 405, ""},
	}

	h := newHandler(c, logr.Discard(), "", make(chan struct{}, 1))
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(x.method, x.path, nil)
			r.Header.Set("Accept", x.accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != x.status || !strings.Contains(w.Body.String(), x.has) {
				t.Errorf("got %d %s, want %d with %s", w.Code, w.Body, x.status, x.has)
			}
			if retry := w.Header().Get("Retry-After"); (retry != "") != (x.status == 503) {
				t.Errorf("got Retry-After %q with status %d, want one only with status 503", retry, x.status)
			}
			if x.status == 200 && (w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Content-Length") == "") {
				t.Errorf("got headers %v, want application/json with a length", w.Header())
			}
		})
	}

	// The configuration contains the files of the pool and the annotations: no token and no password.
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/config/worker", nil))
	var got config.Ignition
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}

	files := map[string]string{}
	for _, f := range got.Storage.Files {
		content, err := f.Content()
		if err != nil {
			t.Fatal(err)
		}
		files[f.Path] = string(content)
	}

	annotations := files[config.AnnotationsFile]
	delete(files, config.AnnotationsFile)
	if name, err := config.FirstBootName([]byte(annotations)); err != nil || name != worker || len(files) != 1 || files["/etc/a"] != "a" || len(got.Passwd.Users) > 0 {
		t.Errorf("got files %v and annotations %s (error %v), want /etc/a and the configuration %s", files, annotations, err, worker)
	}
}

// An error of the API server is not reported as a missing pool, and its text is only logged.
func TestUnreadable(t *testing.T) {
	c, _ := cluster(t)
	broken := interceptor.NewClient(c, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("internal words")
	}})
	w := httptest.NewRecorder()
	newHandler(broken, logr.Discard(), "", make(chan struct{}, 1)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/config/worker", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "internal words") {
		t.Errorf("got %d %s, want 500 without the text of the error", w.Code, w.Body)
	}
}

// Requests wait while the maximum number of responses is rendered, until their clients disconnect.
func TestAnswersAreLimited(t *testing.T) {
	c, _ := cluster(t)
	full := make(chan struct{}, 1)
	full <- struct{}{}
	h := newHandler(c, logr.Discard(), "", full)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/config/worker", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", w.Code)
	}

	<-full
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/config/worker", nil))
		if w.Code != http.StatusOK {
			t.Errorf("got status %d below the limit, want 200", w.Code)
		}
	}
}

// Both addresses serve the configuration. The current kubeconfig is served only over TLS.
func TestServe(t *testing.T) {
	c, _ := cluster(t)
	authority, err := certificate.NewAuthority("test", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	pair, err := authority.Issue([]string{"127.0.0.1"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	at := map[string]string{}
	listening := make(chan struct{}, 2)
	s := &server{reader: c, log: logr.Discard(), Options: Options{
		Address: "127.0.0.1:0", PlainAddress: "127.0.0.1:0", Kubeconfig: kubeconfig,
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.TLS(), nil },
		Listening: func(scheme string, address net.Addr) {
			at[scheme] = scheme + "://" + address.String()
			listening <- struct{}{}
		},
	}}

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	<-listening
	<-listening
	if got := protocol.Negotiate(t, strings.TrimPrefix(at["https"], "https://")); got != "" {
		t.Errorf("the server chose the protocol %q, want none, which is HTTP/1.1", got)
	}

	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	get := func(scheme string) (int, string) {
		t.Helper()
		resp, err := (&http.Client{Transport: transport}).Get(at[scheme] + "/config/worker")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}

		return resp.StatusCode, string(body)
	}
	if status, _ := get("https"); status != http.StatusInternalServerError {
		t.Errorf("without the kubeconfig: got status %d, want 500", status)
	}

	for content, encoded := range map[string]string{"one": "b25l", "two": "dHdv"} {
		if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, body := get("https"); status != http.StatusOK || !strings.Contains(body, `{"path":"/etc/kubernetes/kubeconfig","overwrite":true,"contents":{"source":"data:;base64,`+encoded+`"},"mode":384}`) {
			t.Errorf("over TLS: got %d %s, want 200 with the kubeconfig", status, body)
		}
		if status, body := get("http"); status != http.StatusOK || strings.Contains(body, "kubeconfig") {
			t.Errorf("without TLS: got %d %s, want 200 without the kubeconfig", status, body)
		}
	}

	if err := os.WriteFile(kubeconfig, make([]byte, maxKubeconfigSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _ := get("https"); status != http.StatusInternalServerError {
		t.Errorf("with a kubeconfig that is too large: got status %d, want 500", status)
	}

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with error %v, want none", err)
	}
}

// TestClientsAreLimited has a client that keeps its connections open, and one that sends a request.
func TestClientsAreLimited(t *testing.T) {
	c, _ := cluster(t)
	address := make(chan net.Addr, 1)
	s := &server{reader: c, log: logr.Discard(), Options: Options{
		PlainAddress: "127.0.0.1:0", Listening: func(_ string, a net.Addr) { address <- a },
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	at := (<-address).String()

	// The connection is closed after one response.
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || !strings.Contains(string(text), "Connection: close") {
		t.Errorf("got %q (error %v), want a response with Connection: close", text, err)
	}

	// A client opens more connections than it may.
	rawhttp.ExpectConnectionLimit(t, at, "/config/worker", limits.ClientConnections)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with error %v, want none", err)
	}
}

// TestRequestsOfAClientAreLimited has a client whose requests wait for the API server, and which sends one more.
func TestRequestsOfAClientAreLimited(t *testing.T) {
	before := limits
	limits = httpserver.Limits{Connections: 10, ClientConnections: 10, Requests: 10, ClientRequests: 2}
	defer func() { limits = before }()
	c, _ := cluster(t)
	entered, goOn := make(chan struct{}), make(chan struct{})
	blocking := interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		select {
		case entered <- struct{}{}:
			<-goOn
		case <-goOn:
		}
		return c.Get(ctx, key, object, options...)
	}})
	address := make(chan net.Addr, 1)
	s := &server{reader: blocking, log: logr.Discard(), Options: Options{
		PlainAddress: "127.0.0.1:0", Listening: func(_ string, a net.Addr) { address <- a },
	}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	at := "http://" + (<-address).String() + "/config/worker"
	type answer struct {
		status     int
		retryAfter string
	}
	get := func(from byte) answer {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}
		resp, err := (&http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}).Get(at)
		if err != nil {
			t.Error(err)
			return answer{}
		}
		defer resp.Body.Close()
		return answer{resp.StatusCode, resp.Header.Get("Retry-After")}
	}

	answers, beyond := make(chan answer, 3), make(chan answer, 1)
	for _, from := range []byte{1, 1, 2} {
		go func() { answers <- get(from) }()
		<-entered
	}

	go func() { beyond <- get(1) }()
	select {
	case got := <-beyond:
		if want := (answer{http.StatusTooManyRequests, httpserver.RetryAfterSeconds}); got != want {
			t.Errorf("beyond the limit: got %+v, want %+v", got, want)
		}
	case <-entered:
		t.Error("a request beyond the limit is served, want it rejected")
	}

	close(goOn)
	for range 3 {
		if got, want := <-answers, (answer{status: http.StatusOK}); got != want {
			t.Errorf("within the limit: got %+v, want %+v", got, want)
		}
	}

	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the server ended with error %v, want none", err)
	}
}

// An address that is in use ends the program.
func TestTaken(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := &server{log: logr.Discard(), Options: Options{PlainAddress: taken.Addr().String()}}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listening for new machines") {
		t.Errorf("got error %v, want one of listening for new machines", err)
	}
}

func FuzzVersionOf(f *testing.F) {
	f.Add("application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1")
	f.Add("application/vnd.coreos.ignition+json; version=2.2.0")
	f.Add(",;=\"")
	f.Fuzz(func(t *testing.T, header string) {
		if len(header) > maxHeaderBytes {
			t.Skip("the input exceeds the size that this test covers")
		}
		if minor, err := acceptedVersion([]string{header}); err == nil && (minor < config.UnknownVersion || minor > 999) {
			t.Errorf("%q: got version %d, want at most 999 or unknown", header, minor)
		}
	})
}
