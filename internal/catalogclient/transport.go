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
	// dialTimeout is the timeout for connecting, and for the TLS handshake.
	dialTimeout = 10 * time.Second
	// idleConnectionTimeout is below the two minutes after which the server closes idle
	// connections.
	idleConnectionTimeout = 90 * time.Second
)

// transport sends requests, directly or through a proxy. Its certificate authorities can change
// during use.
type transport struct {
	rootCAs  func(ctx context.Context) (*x509.CertPool, error)
	proxyFor func(*http.Request) (*url.URL, error)
	timeout  time.Duration
	direct   *http.Transport

	mu sync.Mutex
	// proxied sends requests through proxies, to servers that pool trusts.
	proxied *http.Transport
	pool    *x509.CertPool
}

func newTransport(opts Options) *transport {
	t := &transport{rootCAs: opts.RootCAs, proxyFor: opts.Proxy, timeout: opts.Timeout}
	if t.proxyFor == nil {
		t.proxyFor = http.ProxyFromEnvironment
	}
	t.direct = t.newHTTPTransport()
	t.direct.DialTLSContext = t.dialWithTLS
	return t
}

func (t *transport) newHTTPTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		IdleConnTimeout:        idleConnectionTimeout,
		ResponseHeaderTimeout:  t.timeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    4,
		// This package decompresses responses, as net/http does not support zstd.
		DisableCompression: true,
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := t.proxyFor(req)
	if err != nil {
		return nil, fmt.Errorf("choosing a proxy: %w", err)
	}
	if proxy == nil {
		return t.direct.RoundTrip(req)
	}

	through, err := t.proxiedTransport(req.Context())
	if err != nil {
		return nil, err
	}

	return through.RoundTrip(req)
}

// dialWithTLS connects with the current certificate authorities.
func (t *transport) dialWithTLS(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := t.newTLSConfig(ctx)
	if err != nil {
		return nil, err
	}
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: config}
	return dialer.DialContext(ctx, network, address)
}

func (t *transport) newTLSConfig(ctx context.Context) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.rootCAs == nil {
		return config, nil
	}

	roots, err := t.rootCAs(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the trusted certificate authorities: %w", err)
	}

	config.RootCAs = roots
	return config, nil
}

// proxiedTransport returns the transport for requests through a proxy. There, net/http does the
// TLS handshake itself with fixed authorities, so the transport is replaced when they change.
func (t *transport) proxiedTransport(ctx context.Context) (*http.Transport, error) {
	config, err := t.newTLSConfig(ctx)
	if err != nil {
		return nil, err
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if t.proxied != nil && equalCertPools(t.pool, config.RootCAs) {
		return t.proxied, nil
	}
	if t.proxied != nil {
		t.proxied.CloseIdleConnections()
	}

	t.pool, t.proxied = config.RootCAs, t.newHTTPTransport()
	t.proxied.Proxy, t.proxied.TLSClientConfig = t.proxyFor, config
	return t.proxied, nil
}

func equalCertPools(a, b *x509.CertPool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}
