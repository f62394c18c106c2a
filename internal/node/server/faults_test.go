package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/rawhttp"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// startServer runs a server without TLS until the test ends, and returns its address.
func startServer(t *testing.T, reader client.Reader) string {
	t.Helper()
	listening, ended := make(chan string, 1), make(chan error, 1)
	s := &server{reader: reader, log: logr.Discard(), Options: Options{
		PlainAddress: "127.0.0.1:0", Listening: func(_ string, address net.Addr) { listening <- address.String() },
	}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with error %v, want none", err)
		}
	})

	select {
	case address := <-listening:
		return address
	case err := <-ended:
		ended <- err
		t.Fatalf("the server ended before it listened: %v", err)
		return ""
	}
}

// readConfig requests the configuration of a pool.
func readConfig(t *testing.T, address, pool string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/config/" + pool)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}

	return resp.StatusCode, string(data)
}

// TestServerRestarts kills the API server while machines request configurations. They get the last known ones
// meanwhile, and later ones afterwards. A server that starts meanwhile ends with an error, and is not ready.
func TestServerRestarts(t *testing.T) {
	f := env.NewFixture(t, mcfgv1.AddToScheme)
	first := rendered(t, "joining", `"storage":{"files":[{"path":"/etc/first","contents":{"source":"data:,a"}}]}`)
	second := rendered(t, "joining", `"storage":{"files":[{"path":"/etc/second","contents":{"source":"data:,b"}}]}`)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "joining"}}
	pool.Spec.MachineConfigSelector = &metav1.LabelSelector{}
	pool.Spec.NodeSelector = &metav1.LabelSelector{}
	pool.Spec.Configuration.Name = first.Name
	f.CreateAll(first, second, pool)

	listening := make(chan string, 1)
	options := Options{PlainAddress: "127.0.0.1:0", Listening: func(_ string, address net.Addr) { listening <- address.String() }}
	setUp := func(mgr ctrl.Manager) error { return Setup(t.Context(), mgr, options) }
	f.StartManager(env.Manager{Roles: "config/machine-config/server_role.yaml", Setup: setUp})
	address := <-listening
	expectFile := func(when, path string) {
		t.Helper()
		if status, body := readConfig(t, address, "joining"); status != http.StatusOK || !strings.Contains(body, path) {
			t.Errorf("%s: got %d %s, want a configuration with %s", when, status, body, path)
		}
	}
	expectFile("before", "/etc/first")

	env.RestartServer(t, func() {
		expectFile("without the API server", "/etc/first")
		const want = "machine-config-server"
		if _, err := env.NewManager(env.Start(t), ctrl.Options{Scheme: f.Scheme()}, setUp); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a server that starts without the API server: got %v, want an error with %q", err, want)
		}
	})

	expectFile("after the restart", "/etc/first")
	f.Eventually("the pool gets another configuration", func() error {
		if err := f.Get(t.Context(), client.ObjectKeyFromObject(pool), pool); err != nil {
			return err
		}
		pool.Spec.Configuration.Name = second.Name
		return f.Update(t.Context(), pool)
	})
	f.Eventually("machines get the new configuration", func() error {
		if status, body := readConfig(t, address, "joining"); status != http.StatusOK || !strings.Contains(body, "/etc/second") {
			return fmt.Errorf("got %d %s", status, body)
		}
		return nil
	})
}

// TestHostileRequests sends bytes that no machine sends. Each connection is closed after at most one response, and another
// machine is served afterwards.
func TestHostileRequests(t *testing.T) {
	c, _ := cluster(t)
	address := startServer(t, c)
	const host = " HTTP/1.1\r\nHost: x\r\n"
	for name, test := range map[string]struct {
		request string
		status  int
	}{
		"no request":                 {"\r\n\r\n", 400},
		"bytes that are no text":     {"\x00\xff\xfe\r\n\r\n", 400},
		"a TLS handshake":            {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n", 400},
		"no host":                    {"GET /config/worker HTTP/1.1\r\n\r\n", 400},
		"two hosts":                  {"GET /config/worker" + host + "Host: y\r\n\r\n", 400},
		"an unknown version":         {"GET /config/worker HTTP/7.0\r\nHost: x\r\n\r\n", 505},
		"HTTP/2 without TLS":         {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
		"a long path":                {"GET /config/" + strings.Repeat("a", 64<<10) + host + "\r\n", 431},
		"a long header":              {"GET /config/worker" + host + "Accept: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", 431},
		"many headers":               {"GET /config/worker" + host + strings.Repeat("A: b\r\n", 64<<10) + "\r\n", 431},
		"a header that is continued": {"GET /config/worker" + host + "A: b\r\n c\r\n\r\n", 200},
		"a name that is no name":     {"GET /config/%00%ff%0a" + host + "\r\n", 404},
		"a name with a slash":        {"GET /config/a%2fb" + host + "\r\n", 404},
		"a path out of the folder":   {"GET /config/../../etc/passwd" + host + "\r\n", 307},
		"an escape that is none":     {"GET /config/%zz" + host + "\r\n", 400},
		"an endless body":            {"GET /config/worker" + host + "Content-Length: 9000000000000000000\r\n\r\n" + strings.Repeat("a", 64<<10), 200},
		"two lengths":                {"GET /config/worker" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"a hidden second request":    {"GET /config/worker" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /config/luks" + host + "\r\n", 200},
		"many requests at once":      {strings.Repeat("GET /config/worker"+host+"\r\n", 100), 200},
		"a tunnel":                   {"CONNECT internal:443 HTTP/1.1\r\nHost: internal:443\r\n\r\n", 404},
		"a proxy request":            {"GET http://internal/config/worker" + host + "\r\n", 200},
		"an upgrade":                 {"GET /config/worker" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			if rawhttp.ExpectResponse(t, address, test.request, test.status) {
				t.Error("got an open connection after a response, want it closed")
			}
			if status, _ := readConfig(t, address, "worker"); status != http.StatusOK {
				t.Errorf("another machine: got status %d, want 200", status)
			}
		})
	}
}

// serveInMemory runs the HTTP server over a listener in memory until stop is called.
func serveInMemory(t *testing.T, reader client.Reader) (l *rawhttp.Listener, stop func()) {
	t.Helper()
	s := &server{log: logr.Discard()}
	handler := httpserver.Limit(newHandler(reader, logr.Discard(), "", make(chan struct{}, maxConcurrentRenders)), limits, httpserver.Observer{})
	l = rawhttp.NewListener()
	return l, rawhttp.Serve(t, s.httpServer(handler), l, shutdownTimeout)
}

// The server closes the connections of clients that are too slow. The clock is that of the test: a connection that the
// server leaves open is a deadlock, which fails the test.
func TestSlowClients(t *testing.T) {
	const request = "GET /config/worker HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, test := range map[string]struct {
		send string
		read int // the number of bytes that the client reads
	}{
		"a client that sends nothing":         {},
		"a client that sends half a line":     {send: "GET /config"},
		"a client that sends half a header":   {send: "GET /config/worker HTTP/1.1\r\nHost: x\r\nAccept: a"},
		"a client that does not read":         {send: request},
		"a client that reads half a response": {send: request, read: 100},
		"a client whose body does not come":   {send: "GET /config/worker HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\na", read: 100},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := cluster(t)
			synctest.Test(t, func(t *testing.T) {
				l, stop := serveInMemory(t, c)
				defer stop()
				l.ExpectDisconnect(t, test.send, test.read)
			})
		})
	}
}

// TestSlowClientsShareMemory has clients that do not read a large configuration. The memory that they hold does not grow with
// their number.
func TestSlowClientsShareMemory(t *testing.T) {
	const size, clients = 1 << 20, 100
	c, _ := cluster(t)
	large := rendered(t, "large", `"storage":{"files":[{"path":"/etc/large","contents":{"source":"data:,`+strings.Repeat("a", size)+`"}}]}`)
	pool := &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
	pool.Spec.Configuration.Name = large.Name
	for _, object := range []client.Object{large, pool} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}

	synctest.Test(t, func(t *testing.T) {
		l, stop := serveInMemory(t, c)
		before := measureHeap()
		var open []net.Conn
		for range clients {
			conn := l.Dial()
			open = append(open, conn)
			if _, err := io.WriteString(conn, "GET /config/large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}

		synctest.Wait()
		if held := measureHeap() - before; held > 20*size {
			t.Errorf("%d clients that do not read hold %d MiB, want at most 20", clients, held>>20)
		}
		for _, conn := range open {
			_ = conn.Close()
		}
		stop()
	})
}

// measureHeap returns the number of bytes of the heap that are in use.
func measureHeap() int {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// A client that does not complete the TLS handshake is disconnected, and others are served meanwhile.
func TestSlowHandshake(t *testing.T) {
	c, _ := cluster(t)
	synctest.Test(t, func(t *testing.T) {
		s := &server{log: logr.Discard()}
		l := rawhttp.NewListener()
		handler := newHandler(c, logr.Discard(), "", make(chan struct{}, maxConcurrentRenders))
		secured := tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return nil, errors.New("there is no certificate")
		}})
		defer rawhttp.Serve(t, s.httpServer(handler), secured, shutdownTimeout)()
		conn := l.Dial()
		if _, err := conn.Write([]byte{0x16, 0x03, 0x01}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("got %v, want a closed connection", err)
		}
	})
}
