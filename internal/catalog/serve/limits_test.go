package serve_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
)

// blocking is a content source that blocks until it is released.
type blocking struct {
	*catalogstore.Store
	received, release chan struct{}
}

func (b blocking) Content(name string) (*catalogstore.Content, error) {
	b.received <- struct{}{}
	<-b.release
	return b.Store.Content(name)
}

func TestRequestsAreLimited(t *testing.T) {
	for name, test := range map[string]struct {
		limits serve.Limits
		code   int
		reason string
	}{
		"of one client": {serve.Limits{ClientRequests: 2}, http.StatusTooManyRequests, "limit=client-requests"},
		"of all":        {serve.Limits{Requests: 2}, http.StatusServiceUnavailable, "limit=requests"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			b := blocking{s.store, make(chan struct{}), make(chan struct{})}
			s.start(t, serve.NewHandler(b, test.limits, logr.Discard()), serve.Limits{})
			path := "/catalogs/small/api/v1/all"
			codes := make(chan int)
			for range 2 {
				go func() {
					resp, err := s.Client().Get(s.URL + path)
					if err != nil {
						codes <- 0
						return
					}
					defer resp.Body.Close()
					codes <- resp.StatusCode
				}()
				<-b.received
			}

			before := value(t, "mainstay_catalog_http_refused_total", test.reason)
			resp := s.sendRequest(t, "GET", path)
			if resp.StatusCode != test.code || resp.Header.Get("Retry-After") != "1" || !strings.Contains(responseBody(t, resp), "try again in 1 second") {
				t.Errorf("status is %d with the headers %v, want %d", resp.StatusCode, resp.Header, test.code)
			}
			if got := value(t, "mainstay_catalog_http_refused_total", test.reason) - before; got != 1 {
				t.Errorf("got %v counted rejected requests, want 1", got)
			}

			close(b.release)
			for range 2 {
				if code := <-codes; code != http.StatusOK {
					t.Errorf("got status %d for a request within the limit, want 200", code)
				}
			}

			go func() { <-b.received }()
			if resp := s.sendRequest(t, "GET", path); resp.StatusCode != http.StatusOK {
				t.Errorf("got status %d after the other requests have ended, want 200", resp.StatusCode)
			}
		})
	}
}

// dial opens a connection, and reports whether it is served.
func (s *fixture) dial(t *testing.T) (net.Conn, error) {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

func TestConnectionsOfAClientAreLimited(t *testing.T) {
	s := newFixture(t)
	s.start(t, serve.NewHandler(s.store, serve.Limits{}, logr.Discard()), serve.Limits{ClientConnections: 2})
	var open []net.Conn
	for range 2 {
		conn, err := s.dial(t)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}

	if _, err := s.dial(t); err == nil {
		t.Error("got a third connection served, want it rejected")
	}

	_ = open[0].Close()
	// The server detects with a short delay that the connection is closed.
	for _, err := s.dial(t); err != nil; _, err = s.dial(t) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestConnectionsOfAllAreLimited(t *testing.T) {
	s := newFixture(t)
	s.start(t, serve.NewHandler(s.store, serve.Limits{}, logr.Discard()), serve.Limits{Connections: 1})
	first, err := s.dial(t)
	if err != nil {
		t.Fatal(err)
	}

	second := make(chan error, 1)
	go func() {
		_, err := s.dial(t)
		second <- err
	}()
	// The first connection is served while the second one waits.
	_, _ = io.WriteString(first, "GET /catalogs/small/api/v1/all HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(first), nil)
	if err != nil {
		t.Fatal(err)
	}

	_ = resp.Body.Close()
	select {
	case err := <-second:
		t.Errorf("got a second connection accepted or rejected (%v) while the first is open, want it to wait", err)
	default:
	}

	_ = first.Close()
	if err := <-second; err != nil {
		t.Errorf("the second connection: got error %v, want none", err)
	}
}

// TestHeadersAreLimited sends a request whose header exceeds the limit.
func TestHeadersAreLimited(t *testing.T) {
	s := newFixture(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/catalogs/small/api/v1/all", nil)
	if err != nil {
		t.Fatal(err)
	}

	req.Header.Set("X", strings.Repeat("x", 64<<10))
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status is %d, want 431", resp.StatusCode)
	}
}

// slowReader reads a body in small pieces, and does not finish before the given time.
func slowReader(t *testing.T, s *fixture, path string, until time.Time) (int64, error) {
	t.Helper()
	conn, err := s.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x\r\nAccept-Encoding: identity\r\n\r\n"); err != nil {
		t.Fatal(err)
	}

	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	read := int64(0)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for buffer := make([]byte, 64<<10); ; {
		n, err := resp.Body.Read(buffer)
		read += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return read, nil
		case err != nil:
			return read, err
		case time.Now().Before(until):
			// The client is slow, but does not stall.
			<-tick.C
		}
	}
}

// TestASlowReaderIsServedToTheEnd reads a body for longer than all timeouts of the server, but never exceeds the
// timeout for a chunk.
func TestASlowReaderIsServedToTheEnd(t *testing.T) {
	// A busy machine can delay the test by a second.
	const limit = 2 * time.Second
	s := newFixture(t)
	// The body is larger than the buffers of two connections.
	text := strings.Repeat(huge, 12)
	s.put(t, "huge", text)
	s.Server = serve.NewTestServer(serve.NewHandlerWithStall(s.store, limit), serve.Limits{})
	s.Config.ReadTimeout, s.Config.ReadHeaderTimeout, s.Config.IdleTimeout = limit, limit, limit
	s.StartTLS()
	t.Cleanup(s.Close)
	read, err := slowReader(t, s, "/catalogs/huge/api/v1/all", time.Now().Add(limit+limit/2))
	if err != nil || read != int64(len(text)) {
		t.Errorf("got %d bytes (error %v), want %d", read, err, len(text))
	}
}

// TestAReaderThatStallsIsCutOff opens a connection that reads nothing.
func TestAReaderThatStallsIsCutOff(t *testing.T) {
	s := newFixture(t)
	s.put(t, "huge", strings.Repeat(huge, 12))
	s.start(t, serve.NewHandlerWithStall(s.store, 20*time.Millisecond), serve.Limits{})
	conn, err := s.dial(t)
	if err != nil {
		t.Fatal(err)
	}

	before := value(t, "mainstay_catalog_http_requests_total", "endpoint=all method=GET code=200")
	if _, err := io.WriteString(conn, "GET /catalogs/huge/api/v1/all HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}

	// The request ends although nothing is read.
	for value(t, "mainstay_catalog_http_requests_total", "endpoint=all method=GET code=200") == before {
		if t.Context().Err() != nil {
			t.Fatal("the request has not ended, want it to end after the timeout")
		}
	}

	if _, err := io.Copy(io.Discard, conn); err == nil {
		t.Error("got a complete body, want a connection that ended early")
	}
}

// TestTimeoutEndsTheConnection checks that the client sees an unexpected end of the connection if a response exceeds its
// timeout, and not a corrupt TLS record.
func TestTimeoutEndsTheConnection(t *testing.T) {
	s := newFixture(t)
	s.start(t, serve.NewHandlerWithStall(s.store, -time.Second), serve.Limits{})
	conn, err := s.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /catalogs/small/api/v1/all HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}

	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v and error %v, want an unexpected end", response, err)
	}
}

// deadlineRecorder records the last write deadline of a response.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

// SetWriteDeadline makes http.ResponseController use the recorder.
func (r *deadlineRecorder) SetWriteDeadline(deadline time.Time) error {
	r.deadline = deadline
	return nil
}

// TestEachResponseHasItsOwnWriteDeadline checks that the chunk timeout of a response does not end a later response of the
// same connection. Each response has its own timeout, even one without a body.
func TestEachResponseHasItsOwnWriteDeadline(t *testing.T) {
	s := newFixture(t)
	handler := serve.NewHandlerWithStall(s.store, time.Hour)
	for header, want := range map[string]int{"": http.StatusOK, "*": http.StatusNotModified} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/catalogs/small/api/v1/all", nil)
		if header != "" {
			request.Header.Set("If-None-Match", header)
		}
		response := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}

		earliest := time.Now().Add(time.Hour)
		handler.ServeHTTP(response, request)
		latest := time.Now().Add(time.Hour)
		if response.Code != want || response.deadline.Before(earliest) || response.deadline.After(latest) {
			t.Errorf("If-None-Match %q: got status %d and deadline %v, want %d and a deadline between %v and %v", header, response.Code, response.deadline, want, earliest, latest)
		}
	}
}
