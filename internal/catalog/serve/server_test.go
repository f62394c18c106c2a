package serve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/mainstay-dev/mainstay/internal/catalog/serve"
	"github.com/mainstay-dev/mainstay/internal/testing/protocol"
)

// selfSigned returns a self-signed certificate with a serial number.
func selfSigned(t *testing.T, serial int64) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}

	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestServer(t *testing.T) {
	var current atomic.Pointer[tls.Certificate]
	current.Store(selfSigned(t, 1))
	entered, finish := make(chan struct{}), make(chan struct{})
	server := &serve.Server{
		Address: "127.0.0.1:0", Log: logr.Discard(),
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil },
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(entered)
				<-finish
			}
			_, _ = io.WriteString(w, "done")
		}),
	}
	if server.NeedLeaderElection() {
		t.Error("the server requires leader election, want it to run on each replica")
	}
	if server.Ready(nil) == nil {
		t.Error("got a ready server before it listens, want it not to be ready")
	}

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Start(ctx) }()
	for server.ListenAddress() == nil {
		select {
		case err := <-stopped:
			t.Fatal(err)
		default:
		}
	}

	if err := server.Ready(nil); err != nil {
		t.Error(err)
	}

	// A connection of HTTP/2 would have hundreds of concurrent requests, before the limits of the server.
	if got := protocol.Negotiate(t, server.ListenAddress().String()); got != "http/1.1" {
		t.Errorf("the server chose the protocol %q, want http/1.1", got)
	}

	get := func(path string) (string, int64, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // #nosec G402 -- the test checks the certificate itself
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+server.ListenAddress().String()+path, nil)
		if err != nil {
			return "", 0, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", 0, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), resp.TLS.PeerCertificates[0].SerialNumber.Int64(), err
	}

	for serial := int64(1); serial <= 2; serial++ {
		current.Store(selfSigned(t, serial))
		if _, got, err := get("/"); err != nil || got != serial {
			t.Errorf("got certificate %d (error %v), want the current one, %d", got, err, serial)
		}
	}

	slow := make(chan string, 1)
	go func() {
		text, _, err := get("/slow")
		if err != nil {
			text = err.Error()
		}
		slow <- text
	}()

	<-entered
	cancel()
	close(finish)
	if text := <-slow; text != "done" {
		t.Errorf("got body %q of a request that was running at shutdown, want done", text)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stopping: %v", err)
	}
	if server.Ready(nil) == nil {
		t.Error("got a ready server after it has stopped, want it not to be ready")
	}
}
