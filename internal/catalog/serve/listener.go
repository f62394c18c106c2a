package serve

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// corkingListener accepts connections that gather what TLS writes.
type corkingListener struct{ net.Listener }

// Accept implements net.Listener.
func (l corkingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &corkedConn{Conn: conn}, nil
}

// corkedConn is a connection below TLS that gathers what TLS writes, record by record of
// 16 KiB, while it is held: a system call for each costs as much as encrypting it.
type corkedConn struct {
	net.Conn

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
