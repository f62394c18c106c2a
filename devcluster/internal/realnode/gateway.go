package realnode

import (
	"fmt"
	"io"
	"net"
	"net/netip"
)

// gateway hands connections from the node on to the API server, which listens on 127.0.0.1 alone: bound to every address,
// it would be open to the machine's networks.
type gateway struct{ listener net.Listener }

func openGateway(listen, to netip.AddrPort) (*gateway, error) {
	listener, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(listen))
	if err != nil {
		return nil, fmt.Errorf("listen for the node's connections to the API server: %w", err)
	}
	g := &gateway{listener: listener}
	go g.serve(to)
	return g, nil
}

func (g *gateway) serve(to netip.AddrPort) {
	for {
		connection, err := g.listener.Accept()
		if err != nil {
			return // Closed: nothing else ends a listener.
		}
		go forward(connection, to)
	}
}

func (g *gateway) close() {
	if g != nil {
		_ = g.listener.Close()
	}
}

// forward copies both ways until both sides have said all.
func forward(from net.Conn, to netip.AddrPort) {
	defer from.Close()
	upstream, err := net.DialTCP("tcp4", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		return // The client sees a closed connection, as it would without us.
	}
	defer upstream.Close() //nolint:errcheck // Both sides have said all.
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyAndClose(upstream, from)
	}()
	copyAndClose(from, upstream)
	<-done
}

func copyAndClose(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
