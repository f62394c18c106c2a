package httpserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

// patience is the timeout of every wait.
const patience = 30 * time.Second

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// A request in progress is completed after the server was stopped. Later requests are rejected.
func TestRequestsFinish(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	listener := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		_, _ = io.WriteString(w, "all of it")
	})}
	server.RegisterOnShutdown(func() { close(goOn) })
	done := make(chan error, 1)
	go func() { done <- httpserver.Run(ctx, server, listener, patience) }()
	go func() { <-began; stop() }()

	answer, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "all of it" {
		t.Errorf("got body %q (error %v), want the complete one", body, err)
	}
	if err := <-done; err != nil {
		t.Errorf("got unexpected error %v when the server ended", err)
	}
	if answer, err := http.Get("http://" + listener.Addr().String()); err == nil {
		_ = answer.Body.Close()
		t.Error("got a response after the end of the server, want none")
	}
}

// A request that exceeds the grace period is aborted.
func TestRequestsThatHang(t *testing.T) {
	began := make(chan struct{})
	listener := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	})}
	done := make(chan error, 1)
	go func() { done <- httpserver.Run(ctx, server, listener, time.Millisecond) }()
	go func() { <-began; stop() }()
	answer, err := http.Get("http://" + listener.Addr().String())
	if err == nil {
		_ = answer.Body.Close()
		t.Error("got a response to a request that does not end, want it aborted")
	}
	if err := <-done; err != nil {
		t.Errorf("got unexpected error %v when the server ended", err)
	}
}

func TestTLS(t *testing.T) {
	like := httptest.NewTLSServer(http.NotFoundHandler())
	defer like.Close()
	listener := listen(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	server := &http.Server{ReadHeaderTimeout: patience, TLSConfig: like.TLS.Clone(), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			t.Error("got a request without TLS, want TLS")
		}
	})}
	go func() { done <- httpserver.Run(ctx, server, listener, patience) }()
	answer, err := like.Client().Get("https://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}

	_ = answer.Body.Close()
	stop()
	if err := <-done; err != nil {
		t.Errorf("got unexpected error %v when the server ended", err)
	}
}

func TestAListenerThatFails(t *testing.T) {
	listener := listen(t)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := httpserver.Run(t.Context(), &http.Server{ReadHeaderTimeout: patience}, listener, patience); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got error %v, want %v", err, net.ErrClosed)
	}
}
