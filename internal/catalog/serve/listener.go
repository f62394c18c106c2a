package serve

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// corkingListener accepts connections that can batch the writes of TLS.
type corkingListener struct{ net.Listener }

// Accept implements net.Listener.
func (l corkingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &corkedConn{Conn: conn}, nil
}

// corkedConn is a connection below TLS that batches the records of TLS while gathering is enabled. A
// system call for each record of 16 KiB costs as much as encrypting the record.
type corkedConn struct {
	net.Conn

	mu        sync.Mutex
	gathering bool
	buffer    *[corkBufferSize]byte
	used      int
	// err is the error of a flush. The records of the buffer are lost then, and a later one, such as the alert that closes
	// TLS, would reach the client as a corrupt record.
	err error
}

// corkBufferSize is the size of a chunk of a body with the overhead of its TLS records.
const corkBufferSize = chunkSize + 1<<10

var corkBufferPool = sync.Pool{New: func() any { return new([corkBufferSize]byte) }}

// startGathering starts to batch writes.
func (c *corkedConn) startGathering() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gathering {
		c.gathering = true
		c.buffer = corkBufferPool.Get().(*[corkBufferSize]byte)
	}
}

func (c *corkedConn) isGathering() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gathering
}

// stopGathering flushes the buffer and stops batching.
func (c *corkedConn) stopGathering() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gathering {
		return nil
	}

	err := c.flushBuffer()
	c.gathering = false
	corkBufferPool.Put(c.buffer)
	c.buffer = nil

	return err
}

func (c *corkedConn) flushBuffer() error {
	if c.used == 0 {
		return nil
	}
	_, c.err = c.Conn.Write(c.buffer[:c.used])
	c.used = 0
	return c.err
}

// Write implements net.Conn.
func (c *corkedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return 0, c.err
	case !c.gathering:
		return c.Conn.Write(p)
	}

	if c.used+len(p) > len(c.buffer) {
		if err := c.flushBuffer(); err != nil {
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

// contextWithCork adds the connection below TLS to the context of its requests.
func contextWithCork(ctx context.Context, conn net.Conn) context.Context {
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

func corkFromContext(ctx context.Context) *corkedConn {
	cork, _ := ctx.Value(corkKey{}).(*corkedConn)
	return cork
}
