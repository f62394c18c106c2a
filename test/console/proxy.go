package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// proxy is the way from the console to the API server. Specs cut it.
type proxy struct {
	// address is where the console finds the API server, and control the URL that cuts the way.
	address, control string

	target   string
	listener net.Listener
	server   *httptest.Server

	mu          sync.Mutex
	isDown      bool
	connections map[net.Conn]bool
}

func startProxy(ctx context.Context, target string) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	p := &proxy{address: listener.Addr().String(), target: target, listener: listener, connections: map[net.Conn]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { p.setDown(true) })
	mux.HandleFunc("POST /up", func(http.ResponseWriter, *http.Request) { p.setDown(false) })
	p.server = httptest.NewServer(mux)
	p.control = p.server.URL
	go p.acceptConnections()
	return p, nil
}

func (p *proxy) acceptConnections() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // it is closed
		}
		go p.forwardConnection(conn)
	}
}

// forwardConnection copies the data of a connection in both directions, unless the way is cut.
func (p *proxy) forwardConnection(from net.Conn) {
	defer p.closeConnection(from)
	if !p.addConnection(from) {
		return
	}

	to, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.closeConnection(to)
	if !p.addConnection(to) {
		return
	}

	go func() {
		_, _ = io.Copy(to, from) // a connection that is cut is no error
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// addConnection remembers a connection. It returns false while the way is cut.
func (p *proxy) addConnection(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connections[conn] = true
	return !p.isDown
}

func (p *proxy) closeConnection(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, conn)
	_ = conn.Close()
}

// setDown cuts the way, with all connections, or opens it.
func (p *proxy) setDown(isDown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isDown = isDown
	if isDown {
		for conn := range p.connections {
			_ = conn.Close()
		}
	}
}

func (p *proxy) close() {
	p.server.Close()
	_ = p.listener.Close()
	p.setDown(true)
}
