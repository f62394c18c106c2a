package dial

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// keepAliveConfig detects peers that have gone without closing the connection: after 30 s of
// silence the kernel probes six times. gRPC pings are not used, because upstream servers refuse
// them.
var keepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

// maxProxyResponseBytes limits the response of a proxy to a CONNECT request.
const maxProxyResponseBytes = 64 << 10

// Proxy configures the HTTP proxy for connections.
type Proxy struct {
	// URL is the proxy: http://HOST:PORT or https://HOST:PORT, with credentials if required.
	// Empty means none.
	URL string
	// Except lists destinations that are reached directly, in the format of NO_PROXY: domains
	// including their subdomains, IP addresses and CIDR ranges, or * for all.
	Except string
}

// ProxyFromEnvironment returns the proxy in the variables GRPC_PROXY and NO_PROXY, in upper or
// lower case.
func ProxyFromEnvironment(getenv func(string) string) Proxy {
	either := func(upper, lower string) string {
		if value := getenv(upper); value != "" {
			return value
		}
		return getenv(lower)
	}
	return Proxy{URL: either("GRPC_PROXY", "grpc_proxy"), Except: either("NO_PROXY", "no_proxy")}
}

// proxyForAddress returns the proxy for an address, or nil for none.
func (p Proxy) proxyForAddress(address string) (*url.URL, error) {
	config := httpproxy.Config{HTTPSProxy: p.URL, NoProxy: p.Except}
	proxy, err := config.ProxyFunc()(&url.URL{Scheme: "https", Host: address})
	if err != nil {
		return nil, errors.New("GRPC_PROXY is not a valid proxy URL") // The URL may contain a password.
	}
	if proxy != nil && proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil, fmt.Errorf("GRPC_PROXY: unsupported scheme %q: use http or https", proxy.Scheme)
	}

	return proxy, nil
}

// dialContext connects to an address, through the proxy if there is one.
func (p Proxy) dialContext(ctx context.Context, address string) (net.Conn, error) {
	proxy, err := p.proxyForAddress(address)
	if err != nil {
		return nil, err
	}

	dialer := &net.Dialer{KeepAliveConfig: keepAliveConfig}
	if proxy == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}

	conn, err := dialer.DialContext(ctx, "tcp", proxyAddress(proxy))
	if err != nil {
		return nil, fmt.Errorf("connecting to the proxy of GRPC_PROXY: %w", err)
	}

	through, err := connectThroughProxy(ctx, conn, proxy, address)
	if err != nil {
		_ = conn.Close() // The connection has failed.
		return nil, fmt.Errorf("asking the proxy of GRPC_PROXY for a connection to %s: %w", address, err)
	}

	return through, nil
}

// proxyAddress returns the host:port of a proxy.
func proxyAddress(proxy *url.URL) string {
	if proxy.Port() != "" {
		return proxy.Host
	}

	port := "80"
	if proxy.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// connectThroughProxy asks a proxy for a connection to an address.
func connectThroughProxy(ctx context.Context, conn net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	// The deadline ends reads and writes when the context ends.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) }) // An error shows up at the next use.
	defer stop()
	if proxy.Scheme == "https" {
		secured := tls.Client(conn, &tls.Config{ServerName: proxy.Hostname(), MinVersion: tls.VersionTLS12})
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secured
	}

	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Host: address}, Host: address, Header: http.Header{}}
	if user := proxy.User; user != nil {
		password, _ := user.Password() // A missing password is empty.
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}

	reader := bufio.NewReader(&limitedConn{Conn: conn, remaining: maxProxyResponseBytes})
	answer, err := http.ReadResponse(reader, request) //nolint:bodyclose // The response to CONNECT has no body: the connection follows.
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", answer.Status)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}

	ahead, err := reader.Peek(reader.Buffered())
	if err != nil {
		return nil, err
	}

	return &bufferedConn{Conn: conn, buffered: ahead}, nil
}

// limitedConn limits the bytes that are read from a connection.
type limitedConn struct {
	net.Conn
	remaining int
}

func (l *limitedConn) Read(b []byte) (int, error) {
	if l.remaining <= 0 {
		return 0, errors.New("its response is too long")
	}
	n, err := l.Conn.Read(b[:min(len(b), l.remaining)])
	l.remaining -= n
	return n, err
}

// bufferedConn is a connection with bytes that were read ahead.
type bufferedConn struct {
	net.Conn
	buffered []byte
}

func (r *bufferedConn) Read(b []byte) (int, error) {
	if len(r.buffered) > 0 {
		n := copy(b, r.buffered)
		r.buffered = r.buffered[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}
