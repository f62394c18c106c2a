package httpserver

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestDisconnectedClientsAreNotTracked connects from many addresses and disconnects again.
func TestDisconnectedClientsAreNotTracked(t *testing.T) {
	g := NewGate(Limits{ClientRequests: 1, Requests: 1}, Observer{})
	l := newLimitedListener(nil, Limits{Connections: 1, ClientConnections: 1}, Observer{})
	for i := range 1000 {
		client := netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i % 256)})
		if code := g.admitRequest(client); code != 0 {
			t.Fatalf("client %d: got status %d, want the request admitted", i, code)
		}

		g.releaseRequest(client)
		l.slots <- struct{}{}
		if !l.admitConnection(client) {
			t.Fatalf("client %d: got its connection rejected, want it admitted", i)
		}

		l.releaseConnection(client)
	}

	if len(g.clients) != 0 || g.all != 0 || len(l.clients) != 0 || len(l.slots) != 0 {
		t.Errorf("got %d and %d tracked clients, %d counted requests and %d counted connections, want none", len(g.clients), len(l.clients), g.all, len(l.slots))
	}
}

func TestClientsAreAddresses(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:1234":          "10.0.0.1",
		"10.0.0.1:1":             "10.0.0.1",
		"[::ffff:10.0.0.1]:1234": "10.0.0.1",
		"[fe80::1%eth0]:1234":    "fe80::1%eth0",
		"pipe":                   "invalid IP",
	} {
		if got := parseClientAddress(remote).String(); got != want {
			t.Errorf("%s: got client %s, want %s", remote, got, want)
		}
	}
}

// TestLimit uses a handler that blocks until it is released.
func TestLimit(t *testing.T) {
	for name, test := range map[string]struct {
		limits Limits
		status int
		limit  string
	}{
		"of one client": {Limits{Requests: 10, ClientRequests: 1}, http.StatusTooManyRequests, "client-requests"},
		"of all":        {Limits{Requests: 1, ClientRequests: 10}, http.StatusServiceUnavailable, "requests"},
	} {
		t.Run(name, func(t *testing.T) {
			received, release := make(chan struct{}), make(chan struct{})
			var refused []string
			server := httptest.NewServer(Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				received <- struct{}{}
				<-release
			}), test.limits, Observer{Refused: func(limit string) { refused = append(refused, limit) }}))
			defer server.Close()
			get := func() *http.Response {
				resp, err := server.Client().Get(server.URL)
				if err != nil {
					t.Error(err)
					return &http.Response{Body: http.NoBody}
				}
				return resp
			}

			first := make(chan *http.Response)
			go func() { first <- get() }()
			<-received
			resp := get()
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != test.status || resp.Header.Get("Retry-After") != "1" || !strings.Contains(string(text), "try again in 1 second") {
				t.Errorf("got status %d with %q (error %v), want %d", resp.StatusCode, text, err, test.status)
			}
			if len(refused) != 1 || refused[0] != test.limit {
				t.Errorf("got rejections by %v, want %s", refused, test.limit)
			}

			close(release)
			resp = <-first
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("got status %d of the first request, want 200", resp.StatusCode)
			}
		})
	}
}

// TestConnectionsOfOneClientLeaveRoomForOthers opens as many connections of one client as possible.
func TestConnectionsOfOneClientLeaveRoomForOthers(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	refused := make(chan string, 10)
	l := LimitListener(inner, Limits{Connections: 10, ClientConnections: 2}, Observer{Refused: func(limit string) { refused <- limit }})
	defer l.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()

	dial := func(from string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}

	for range 3 {
		dial("127.0.0.1")
	}

	if limit := <-refused; limit != "client-connections" {
		t.Errorf("got a rejection by %s, want client-connections", limit)
	}

	dial("127.0.0.2")
	for range 3 {
		if err := (<-accepted).Close(); err != nil {
			t.Error(err)
		}
	}
}
