// Package protocol reads what a server negotiates at the start of a connection: the protocol, and the limits of HTTP/2.
//
// It is only for tests. No package of the product imports it.
package protocol

import (
	"crypto/tls"
	"io"
	"testing"

	"golang.org/x/net/http2"
)

// Negotiate returns the protocol that a TLS server chooses by ALPN for a client of HTTP/2 and HTTP/1.1: "h2",
// "http/1.1", or "" for none, which also means HTTP/1.1. It does not verify the certificate.
func Negotiate(t testing.TB, address string) string {
	t.Helper()
	connection := dialTLS(t, address)
	defer func() { _ = connection.Close() }() // A server that stops waits for it.
	return connection.ConnectionState().NegotiatedProtocol
}

// MaxConcurrentStreams returns the limit of concurrent requests on a connection that a TLS server declares. The test
// fails if the server does not choose HTTP/2, or declares no limit.
func MaxConcurrentStreams(t testing.TB, address string) uint32 {
	t.Helper()
	connection := dialTLS(t, address)
	defer func() { _ = connection.Close() }()
	if got := connection.ConnectionState().NegotiatedProtocol; got != http2.NextProtoTLS {
		t.Fatalf("%s: the server chose the protocol %q, want %q", address, got, http2.NextProtoTLS)
	}

	limit, isLimited := ReadSettings(t, connection).Value(http2.SettingMaxConcurrentStreams)
	if !isLimited {
		t.Fatalf("%s: the server does not limit concurrent requests", address)
	}
	return limit
}

// ReadSettings starts HTTP/2 on a connection, and returns the settings of the server.
func ReadSettings(t testing.TB, connection io.ReadWriter) *http2.SettingsFrame {
	t.Helper()
	if _, err := io.WriteString(connection, http2.ClientPreface); err != nil {
		t.Fatalf("starting HTTP/2: %v", err)
	}

	framer := http2.NewFramer(connection, connection)
	if err := framer.WriteSettings(); err != nil {
		t.Fatalf("sending settings: %v", err)
	}

	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatalf("reading the settings of the server: %v", err)
	}

	settings, ok := frame.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("the first frame of the server is %v, want settings", frame)
	}
	return settings
}

// dialTLS opens a connection as a client of HTTP/2 and HTTP/1.1.
func dialTLS(t testing.TB, address string) *tls.Conn {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{
		NextProtos:         []string{http2.NextProtoTLS, "http/1.1"},
		InsecureSkipVerify: true, // #nosec G402 -- only the protocol is read
	}}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("connecting to %s: %v", address, err)
	}
	return connection.(*tls.Conn)
}
