package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// proxy forwards the connections of the console to the API server. Specs can interrupt it.
type proxy struct {
	// address is the address of the API server for the console, and control the URL that interrupts the connections.
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

// forwardConnection copies the data of a connection in both directions, unless the proxy is interrupted.
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
		_, _ = io.Copy(to, from) // An interrupted connection is not an error.
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

// addConnection records a connection. It returns false while the proxy is interrupted.
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

// setDown interrupts the proxy and closes all connections, or restores it.
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
