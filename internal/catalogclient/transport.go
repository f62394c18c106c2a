package catalogclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// dialTimeout is how long a connection may take to come about.
	dialTimeout = 10 * time.Second
	// idleTimeout is below the two minutes after which the server ends idle connections.
	idleTimeout = 90 * time.Second
)

// transport sends requests, directly or through a proxy. The authorities that it trusts
// can change while it is used.
type transport struct {
	roots   func(ctx context.Context) (*x509.CertPool, error)
	proxyOf func(*http.Request) (*url.URL, error)
	timeout time.Duration
	direct  *http.Transport

	mu sync.Mutex
	// proxied sends through proxies, to servers that the pool trusts.
	proxied *http.Transport
	pool    *x509.CertPool
}

func newTransport(opts Options) *transport {
	t := &transport{roots: opts.RootCAs, proxyOf: opts.Proxy, timeout: opts.Timeout}
	if t.proxyOf == nil {
		t.proxyOf = http.ProxyFromEnvironment
	}
	t.direct = t.make()
	t.direct.DialTLSContext = t.dialTLS
	return t
}

func (t *transport) make() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleTimeout,
		ResponseHeaderTimeout:  t.timeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    4,
		// Answers are decompressed here, as net/http does not know zstd.
		DisableCompression: true,
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := t.proxyOf(req)
	if err != nil {
		return nil, fmt.Errorf("choosing a proxy: %w", err)
	}
	if proxy == nil {
		return t.direct.RoundTrip(req)
	}

	through, err := t.through(req.Context())
	if err != nil {
		return nil, err
	}

	return through.RoundTrip(req)
}

// dialTLS connects with the authorities of the moment.
func (t *transport) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := t.config(ctx)
	if err != nil {
		return nil, err
	}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
	return dialer.DialContext(ctx, network, address)
}

func (t *transport) config(ctx context.Context) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.roots == nil {
		return config, nil
	}

	roots, err := t.roots(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the trusted authorities: %w", err)
	}

	config.RootCAs = roots
	return config, nil
}

// through returns what sends through a proxy. net/http connects to the server behind it by
// itself, with authorities that are given before: when they change, so does this.
func (t *transport) through(ctx context.Context) (*http.Transport, error) {
	config, err := t.config(ctx)
	if err != nil {
		return nil, err
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.proxied != nil && samePool(t.pool, config.RootCAs) {
		return t.proxied, nil
	}
	if t.proxied != nil {
		t.proxied.CloseIdleConnections()
	}

	t.pool, t.proxied = config.RootCAs, t.make()
	t.proxied.Proxy, t.proxied.TLSClientConfig = t.proxyOf, config
	return t.proxied, nil
}

func samePool(a, b *x509.CertPool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}
