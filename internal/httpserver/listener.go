package httpserver

import (
	"net"
	"net/netip"
	"sync"
)

// limitedListener bounds the open connections. Beyond the limit of all, new ones wait to be
// accepted; beyond that of one client they are closed.
type limitedListener struct {
	net.Listener
	clientLimit int
	observer    Observer
	// free has an element for each connection that is open.
	free   chan struct{}
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	clients map[netip.Addr]int
}

// LimitListener returns a listener that bounds the open connections of another one, of all
// clients and of each.
func LimitListener(l net.Listener, limits Limits, observer Observer) net.Listener {
	return limitListener(l, limits, observer)
}

func limitListener(l net.Listener, limits Limits, observer Observer) *limitedListener {
	return &limitedListener{
		Listener: l, clientLimit: limits.ClientConnections, observer: observer,
		free: make(chan struct{}, limits.Connections), closed: make(chan struct{}), clients: map[netip.Addr]int{},
	}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		select {
		case l.free <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}

		conn, err := l.Listener.Accept()
		if err != nil {
			<-l.free
			return nil, err
		}

		client := clientOf(conn.RemoteAddr().String())
		if l.admit(client) {
			call(l.observer.Connections, 1)
			return &limitedConn{Conn: conn, onClose: sync.OnceFunc(func() { l.leave(client) })}, nil
		}

		call(l.observer.Refused, "client-connections")
		_ = conn.Close() // Nothing was sent.
		<-l.free
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func (l *limitedListener) admit(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[client] >= l.clientLimit {
		return false
	}
	l.clients[client]++
	return true
}

func (l *limitedListener) leave(client netip.Addr) {
	l.mu.Lock()
	if l.clients[client]--; l.clients[client] == 0 {
		delete(l.clients, client)
	}
	l.mu.Unlock()
	call(l.observer.Connections, -1)
	<-l.free
}

// limitedConn is a connection that counts until it is closed.
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
