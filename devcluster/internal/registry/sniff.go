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

// recordTypeHandshake is the first byte of every TLS connection. No HTTP method begins with it.
const recordTypeHandshake = 0x16

// sniffTimeout is how long a client may take to send its first byte.
const sniffTimeout = 10 * time.Second

// sniffer is a listener for TLS and plain HTTP on one port. The first byte from the client selects the protocol.
// Container tools expect plain HTTP from localhost and TLS from any other host; with one port for both, an image keeps
// one reference.
//
// Plain connections are accepted only from loopback addresses, because they could be read and changed on a network.
type sniffer struct {
	net.Listener
	config *tls.Config

	accepted  chan net.Conn
	closed    chan struct{}
	closeOnce sync.Once
}

func newSniffer(listener net.Listener, config *tls.Config) *sniffer {
	s := &sniffer{Listener: listener, config: config, accepted: make(chan net.Conn), closed: make(chan struct{})}
	go s.acceptConnections()
	return s
}

// acceptConnections handles each connection in its own goroutine, so that one that sends nothing does not block the
// others.
func (s *sniffer) acceptConnections() {
	for {
		connection, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // Usually too many open files, which is temporary.
			continue
		}
		go s.sniffConnection(connection)
	}
}

// sniffConnection passes a connection to Accept once its protocol is known, and closes it on an error.
func (s *sniffer) sniffConnection(connection net.Conn) {
	connection, err := s.detectProtocol(connection)
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

// detectProtocol wraps a connection for the protocol that its first byte selects. The returned connection is never nil.
func (s *sniffer) detectProtocol(connection net.Conn) (net.Conn, error) {
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
		return connection, fmt.Errorf("plain HTTP from %s, which is not a loopback address", connection.RemoteAddr())
	}

	return peeked, nil
}

func isLoopback(address net.Addr) bool {
	host, err := netip.ParseAddrPort(address.String())
	return err == nil && host.Addr().Unmap().IsLoopback()
}

// Accept returns the next connection whose protocol is known.
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
	s.closeOnce.Do(func() { close(s.closed) })
	return s.Listener.Close()
}

// peekedConn is a connection whose first bytes were read ahead.
type peekedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *peekedConn) Read(into []byte) (int, error) { return c.reader.Read(into) }
