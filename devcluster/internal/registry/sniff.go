package registry

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// recordTypeHandshake is the first byte of every TLS connection, and the first of no HTTP method.
const recordTypeHandshake = 0x16

// sniffTimeout is how long a client may take to send its first byte.
const sniffTimeout = 10 * time.Second

// sniffer is a listener whose connections speak TLS or plain HTTP as their client begins. Container tools expect plain
// HTTP of localhost and TLS of any other host; one port for both lets an image keep one reference.
//
// A plain connection is taken from a loopback address only: on a network it could be read and changed on its way.
type sniffer struct {
	net.Listener
	config *tls.Config

	accepted chan net.Conn
	closed   chan struct{}
	close    sync.Once
}

func newSniffer(listener net.Listener, config *tls.Config) *sniffer {
	s := &sniffer{Listener: listener, config: config, accepted: make(chan net.Conn), closed: make(chan struct{})}
	go s.acceptAll()
	return s
}

// acceptAll looks at each connection apart: one that sends nothing holds up no other.
func (s *sniffer) acceptAll() {
	for {
		connection, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // Too many open files, as a rule; it passes.
			continue
		}
		go s.sniff(connection)
	}
}

func (s *sniffer) sniff(connection net.Conn) {
	connection, err := s.classify(connection)
	if err != nil {
		connection.Close()
		return
	}

	select {
	case s.accepted <- connection:
	case <-s.closed:
		connection.Close()
	}
}

// classify wraps a connection in what its first byte asks for. The connection that it returns is never nil.
func (s *sniffer) classify(connection net.Conn) (net.Conn, error) {
	if err := connection.SetReadDeadline(time.Now().Add(sniffTimeout)); err != nil {
		return connection, err
	}

	peeked := &peekedConn{Conn: connection, reader: bufio.NewReaderSize(connection, 16)}
	first, err := peeked.reader.Peek(1)
	if err != nil {
		return connection, err
	}
	if err := connection.SetReadDeadline(time.Time{}); err != nil {
		return connection, err
	}
	if first[0] == recordTypeHandshake {
		return tls.Server(peeked, s.config), nil
	}
	if !isLoopback(connection.RemoteAddr()) {
		return connection, fmt.Errorf("plain HTTP from %s, which is no loopback address", connection.RemoteAddr())
	}

	return peeked, nil
}

func isLoopback(address net.Addr) bool {
	host, err := netip.ParseAddrPort(address.String())
	return err == nil && host.Addr().Unmap().IsLoopback()
}

// Accept returns the next connection whose kind is known.
func (s *sniffer) Accept() (net.Conn, error) {
	select {
	case connection := <-s.accepted:
		return connection, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close stops listening.
func (s *sniffer) Close() error {
	s.close.Do(func() { close(s.closed) })
	return s.Listener.Close()
}

// peekedConn is a connection of which the first bytes were read ahead.
type peekedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *peekedConn) Read(into []byte) (int, error) { return c.reader.Read(into) }
