package registry

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// startSniffingServer serves "hello" behind a sniffer. It returns the address and a client that trusts the certificate.
func startSniffingServer(t *testing.T) (address string, client *http.Client) {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // For its certificate, and the client that trusts it.
	t.Cleanup(certified.Close)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	server := &http.Server{
		Handler: http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(response, "hello")
		}),
	}
	go func() {
		_ = server.Serve(newSniffer(listener, &tls.Config{Certificates: certified.TLS.Certificates}))
	}()
	t.Cleanup(func() { _ = server.Close() })

	return listener.Addr().String(), certified.Client()
}

func TestHTTPAndTLSOnOnePort(t *testing.T) {
	address, client := startSniffingServer(t)
	silent, err := net.Dial("tcp4", address) // Must not block the other connections.
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, scheme := range []string{"http", "https", "http"} {
		response, err := client.Get(scheme + "://" + address)
		if err != nil {
			t.Fatalf("%s: %v", scheme, err)
		}

		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(body) != "hello" {
			t.Errorf("%s: got %q and error %v, want hello", scheme, body, err)
		}
	}
}

// remoteConn is a connection with the given remote address.
type remoteConn struct {
	net.Conn
	from string
}

func (c remoteConn) RemoteAddr() net.Addr {
	address, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		panic(err)
	}
	return address
}

func TestPlainHTTPOnlyFromLoopback(t *testing.T) {
	const plain, handshake = "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01"
	for _, test := range []struct {
		name, from, sent string
		refused          string
		tls              bool
	}{
		{"plain from loopback", "127.0.0.1:4000", plain, "", false},
		{"plain from loopback, IPv6", "[::1]:4000", plain, "", false},
		{"plain from loopback in the IPv6 form of IPv4", "[::ffff:127.0.0.1]:4000", plain, "", false},
		{"plain from a network", "10.201.0.5:4000", plain, "not a loopback address", false},
		{"TLS from a network", "10.201.0.5:4000", handshake, "", true},
		{"TLS from loopback", "127.0.0.1:4000", handshake, "", true},
		{"nothing", "127.0.0.1:4000", "", "EOF", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = io.WriteString(theirs, test.sent)
				theirs.Close()
			}()
			t.Cleanup(func() { ours.Close() })
			connection, err := new(sniffer).detectProtocol(remoteConn{ours, test.from})
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("got error %v, want one about %q", err, test.refused)
				}
				return
			}

			if err != nil {
				t.Fatal(err)
			}
			if _, isTLS := connection.(*tls.Conn); isTLS != test.tls {
				t.Errorf("got TLS %t, want %t", isTLS, test.tls)
			}
			if test.tls {
				return
			}
			if got, err := io.ReadAll(connection); err != nil || string(got) != test.sent {
				t.Errorf("got %q and error %v, want %q", got, err, test.sent)
			}
		})
	}
}
