package realnode

import (
	"fmt"
	"io"
	"net"
	"net/netip"
)

// apiServerProxy forwards connections from the node to the API server. The API server itself listens only on 127.0.0.1:
// on all addresses, it would be reachable from the machine's networks.
type apiServerProxy struct{ listener net.Listener }

func startAPIServerProxy(listen, to netip.AddrPort) (*apiServerProxy, error) {
	listener, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(listen))
	if err != nil {
		return nil, fmt.Errorf("listen for connections from the node to the API server: %w", err)
	}
	p := &apiServerProxy{listener: listener}
	go p.acceptConnections(to)
	return p, nil
}

func (p *apiServerProxy) acceptConnections(to netip.AddrPort) {
	for {
		connection, err := p.listener.Accept()
		if err != nil {
			return // Only close ends the listener.
		}
		go forwardConnection(connection, to)
	}
}

func (p *apiServerProxy) close() {
	if p != nil {
		_ = p.listener.Close()
	}
}

// forwardConnection copies data in both directions until both sides have closed.
func forwardConnection(from net.Conn, to netip.AddrPort) {
	defer from.Close()
	upstream, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return // The client gets a closed connection, as without the proxy.
	}
	defer upstream.Close() //nolint:errcheck // Both sides have sent all data.
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyAndCloseWrite(upstream, from)
	}()
	copyAndCloseWrite(from, upstream)
	<-done
}

func copyAndCloseWrite(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
