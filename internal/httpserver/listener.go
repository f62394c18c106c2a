package httpserver

import (
	"net"
	"net/netip"
	"sync"
)

// limitedListener limits the open connections. Connections above the total limit wait to be accepted.
// Connections above the limit of a client are closed.
type limitedListener struct {
	net.Listener
	clientLimit int
	observer    Observer
	// slots contains an element for each open connection.
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	clients map[netip.Addr]int
}

// LimitListener returns a listener that limits the open connections of another listener.
func LimitListener(l net.Listener, limits Limits, observer Observer) net.Listener {
	return newLimitedListener(l, limits, observer)
}

func newLimitedListener(l net.Listener, limits Limits, observer Observer) *limitedListener {
	return &limitedListener{
		Listener: l, clientLimit: limits.ClientConnections, observer: observer,
		slots: make(chan struct{}, limits.Connections), closed: make(chan struct{}), clients: map[netip.Addr]int{},
	}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}

		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.slots
			return nil, err
		}

		client := parseClientAddress(conn.RemoteAddr().String())
		if l.admitConnection(client) {
			notifyObserver(l.observer.Connections, 1)
			return &limitedConn{Conn: conn, onClose: sync.OnceFunc(func() { l.releaseConnection(client) })}, nil
		}

		notifyObserver(l.observer.Refused, "client-connections")
		_ = conn.Close() // No data was sent.
		<-l.slots
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func (l *limitedListener) admitConnection(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[client] >= l.clientLimit {
		return false
	}
	l.clients[client]++
	return true
}

func (l *limitedListener) releaseConnection(client netip.Addr) {
	l.mu.Lock()
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
	l.mu.Unlock()
	notifyObserver(l.observer.Connections, -1)
	<-l.slots
}

// limitedConn is a connection that calls onClose when it is closed.
type limitedConn struct {
	net.Conn
	onClose func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.onClose()
	return err
}
