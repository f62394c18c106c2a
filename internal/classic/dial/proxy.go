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

// keepAlive finds out that the other side has gone without a word: after half a minute of
// silence it is asked six times. The kernel asks; the protocol's own pings are refused by
// servers of the field.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}

// maxProxyAnswer bounds what a proxy says to a request for a connection.
const maxProxyAnswer = 64 << 10

// Proxy says which HTTP proxy connections go through.
type Proxy struct {
	// URL is the proxy: http://HOST:PORT or https://HOST:PORT, with a login if it needs one.
	// Empty means none.
	URL string
	// Except lists what is reached without it, as NO_PROXY does: names of hosts with all
	// below them, addresses and networks, or * for everything.
	Except string
}

// ProxyFromEnvironment returns the proxy that the variables GRPC_PROXY and NO_PROXY name, in
// upper or in lower case.
func ProxyFromEnvironment(getenv func(string) string) Proxy {
	either := func(upper, lower string) string {
		if value := getenv(upper); value != "" {
			return value
		}
		return getenv(lower)
	}
	return Proxy{URL: either("GRPC_PROXY", "grpc_proxy"), Except: either("NO_PROXY", "no_proxy")}
}

// of returns the proxy for an address, nil for none.
func (p Proxy) of(address string) (*url.URL, error) {
	config := httpproxy.Config{HTTPSProxy: p.URL, NoProxy: p.Except}
	proxy, err := config.ProxyFunc()(&url.URL{Scheme: "https", Host: address})
	if err != nil {
		return nil, errors.New("GRPC_PROXY is no URL of a proxy") // It may hold a password.
	}
	if proxy != nil && proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil, fmt.Errorf("GRPC_PROXY: %q proxies are not known: name one by http or https", proxy.Scheme)
	}

	return proxy, nil
}

// dial connects to an address.
func (p Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	proxy, err := p.of(address)
	if err != nil {
		return nil, err
	}

	dialer := &net.Dialer{KeepAliveConfig: keepAlive}
	if proxy == nil {
		return dialer.DialContext(ctx, "tcp", address)
	}

	conn, err := dialer.DialContext(ctx, "tcp", hostPort(proxy))
	if err != nil {
		return nil, fmt.Errorf("reaching the proxy of GRPC_PROXY: %w", err)
	}

	through, err := connect(ctx, conn, proxy, address)
	if err != nil {
		_ = conn.Close() // It has failed already.
		return nil, fmt.Errorf("asking the proxy of GRPC_PROXY for a connection to %s: %w", address, err)
	}

	return through, nil
}

func hostPort(proxy *url.URL) string {
	if proxy.Port() != "" {
		return proxy.Host
	}

	port := "80"
	if proxy.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(proxy.Hostname(), port)
}

// connect asks a proxy for a connection to an address.
func connect(ctx context.Context, conn net.Conn, proxy *url.URL, address string) (net.Conn, error) {
	// A proxy that says nothing holds nobody up for longer than the context does.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) }) // Its failure shows at the next use.
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
		password, _ := user.Password() // None is an empty one.
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}

	reader := bufio.NewReader(&limited{Conn: conn, left: maxProxyAnswer})
	answer, err := http.ReadResponse(reader, request) //nolint:bodyclose // The answer to CONNECT has none: what follows is the connection itself.
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

	return &resumed{Conn: conn, ahead: ahead}, nil
}

// limited reads a bounded part of a connection.
type limited struct {
	net.Conn
	left int
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("its answer is too long")
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

// resumed is a connection of which something was read ahead.
type resumed struct {
	net.Conn
	ahead []byte
}

func (r *resumed) Read(b []byte) (int, error) {
	if len(r.ahead) > 0 {
		n := copy(b, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}
