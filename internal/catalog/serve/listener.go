package serve

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
)

// limitedListener bounds the open connections. Beyond the limit of all, new ones wait to be
// accepted; beyond that of one client they are closed.
type limitedListener struct {
	net.Listener
	clientLimit int
	// free has an element for each connection that may be opened yet.
	free   chan struct{}
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	clients map[netip.Addr]int
}

func limitListener(l net.Listener, limits Limits) *limitedListener {
	return &limitedListener{
		Listener: l, clientLimit: limits.ClientConnections,
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
			metrics.Connections.Inc()
			return &corkedConn{Conn: conn, onClose: sync.OnceFunc(func() { l.leave(client) })}, nil
		}
		metrics.Refused.WithLabelValues("client-connections").Inc()
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
	metrics.Connections.Dec()
	<-l.free
}

// clientOf gives the address of a client from that of a connection. What is no IP address
// counts as one client.
func clientOf(remote string) netip.Addr {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// corkedConn is a connection below TLS that gathers what TLS writes, record by record of
// 16 KiB, while it is held: a system call for each costs as much as encrypting it.
type corkedConn struct {
	net.Conn
	onClose func()

	mu     sync.Mutex
	held   bool
	buffer *[corkBytes]byte
	used   int
}

// corkBytes is a chunk of a body and what TLS adds to its records.
const corkBytes = chunkBytes + 1<<10

var corks = sync.Pool{New: func() any { return new([corkBytes]byte) }}

// hold begins to gather.
func (c *corkedConn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		c.held = true
		c.buffer = corks.Get().(*[corkBytes]byte)
	}
}

func (c *corkedConn) isHeld() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// release sends what was gathered, and gathers no more.
func (c *corkedConn) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		return nil
	}
	err := c.flush()
	c.held = false
	corks.Put(c.buffer)
	c.buffer = nil
	return err
}

func (c *corkedConn) flush() error {
	if c.used == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.buffer[:c.used])
	c.used = 0
	return err
}

// Write implements net.Conn.
func (c *corkedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held {
		return c.Conn.Write(p)
	}
	if c.used+len(p) > len(c.buffer) {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > len(c.buffer) {
		return c.Conn.Write(p)
	}
	c.used += copy(c.buffer[c.used:], p)
	return len(p), nil
}

// Close implements net.Conn.
func (c *corkedConn) Close() error {
	err := c.Conn.Close()
	if c.onClose != nil {
		c.onClose()
	}
	return err
}

type corkKey struct{}

// withCork remembers the connection below TLS for its requests.
func withCork(ctx context.Context, conn net.Conn) context.Context {
	encrypted, ok := conn.(*tls.Conn)
	if !ok {
		return ctx
	}
	cork, ok := encrypted.NetConn().(*corkedConn)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, corkKey{}, cork)
}

func corkOf(ctx context.Context) *corkedConn {
	cork, _ := ctx.Value(corkKey{}).(*corkedConn)
	return cork
}
