// Package rawhttp sends bytes to HTTP servers that no HTTP client sends, or sends and reads them slowly.
//
// It is only for tests. No package of the product imports it.
package rawhttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

// ExpectResponse sends a request to the server at an address, and reads one response. The test fails if the response
// has another status, or if another response follows one that announces the end of the connection. ExpectResponse
// reports whether the server keeps the connection open.
func ExpectResponse(t testing.TB, address, request string, wantStatus int) (keepsAlive bool) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, request) }() // The server may close the connection first.

	responses := bufio.NewReader(conn)
	resp, err := http.ReadResponse(responses, nil)
	if err != nil {
		t.Fatalf("got no response (%v), want status %d", err, wantStatus)
	}
	defer resp.Body.Close()
	if resp.StatusCode != wantStatus {
		t.Errorf("got status %d, want %d", resp.StatusCode, wantStatus)
	}

	// The server may reset the connection if it has not read all of a request that it rejects.
	if _, err := io.Copy(io.Discard, resp.Body); err != nil && resp.StatusCode < http.StatusBadRequest {
		t.Errorf("the body of the response: %v", err)
	}
	if !resp.Close {
		return true
	}
	if more, err := http.ReadResponse(responses, nil); err == nil {
		_ = more.Body.Close()
		t.Errorf("got a second response with status %d", more.StatusCode)
	}

	return false
}

// ExpectConnectionLimit opens as many connections to the server at an address as one client may have. The test fails if
// the server then serves another connection of this client, or does not answer a GET request of another client.
func ExpectConnectionLimit(t testing.TB, address, path string, limit int) {
	t.Helper()
	for range limit {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}

	more, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	if n, err := more.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes were read from a connection beyond the limit", n)
	}

	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("another client got status %d, want 200", resp.StatusCode)
	}
}

// Listener accepts connections in memory. They have no buffers, so that a client which does not read blocks the
// server. In a bubble of testing/synctest, a connection that the server leaves open is a deadlock, which fails the test.
type Listener struct {
	connections chan net.Conn
	closed      chan struct{}
}

// NewListener returns a listener without connections.
func NewListener() *Listener {
	return &Listener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.connections:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	close(l.closed)
	return nil
}

// Addr implements net.Listener.
func (*Listener) Addr() net.Addr { return &net.TCPAddr{} }

// Dial returns a connection to the server of the listener.
func (l *Listener) Dial() net.Conn {
	client, accepted := net.Pipe()
	l.connections <- accepted
	return client
}

// ExpectDisconnect connects, sends bytes, reads a number of bytes, and then neither completes the request nor reads on.
// It returns when the server has closed the connection.
func (l *Listener) ExpectDisconnect(t testing.TB, send string, read int) {
	t.Helper()
	conn := l.Dial()
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, read)); err != nil {
		t.Fatal(err)
	}

	// A write ends when the server has closed the connection.
	for {
		if _, err := conn.Write([]byte("a")); errors.Is(err, io.ErrClosedPipe) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Serve runs a server over a listener until stop is called. The test fails if the server ends with an error.
func Serve(t testing.TB, server *http.Server, listener net.Listener, grace time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- httpserver.Run(ctx, server, listener, grace) }()

	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	}
}
