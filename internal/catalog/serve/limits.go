package serve

import (
	"net/http"
	"net/netip"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
)

// Limits bound what clients may ask for at once. A client is an IP address. A zero field
// means its default.
type Limits struct {
	// Connections is how many may be open; more wait until others are closed. Default 1000:
	// 40 MB at 40 KB for one that is idle.
	Connections int
	// ClientConnections is how many one client may have open; more are closed. Default 200:
	// a node whose pods all have its address.
	ClientConnections int
	// Requests is how many are answered; more get 503 and are asked to come again. Default
	// 256: 40 MB at 160 KB for one with a large body.
	Requests int
	// ClientRequests is how many of one client are answered; more get 429 and are asked to
	// come again. Default 64.
	ClientRequests int
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Connections, 1000)
	setDefault(&l.ClientConnections, 200)
	setDefault(&l.Requests, 256)
	setDefault(&l.ClientRequests, 64)
	return l
}

func setDefault(field *int, value int) {
	if *field <= 0 {
		*field = value
	}
}

// busySeconds is the pause, in seconds, that clients are asked for when there are too many
// requests: most are answered within milliseconds.
const busySeconds = "1"

// gate counts the requests that are being answered.
type gate struct {
	limits Limits

	mu      sync.Mutex
	all     int
	clients map[netip.Addr]int
}

func newGate(limits Limits) *gate {
	return &gate{limits: limits.withDefaults(), clients: map[netip.Addr]int{}}
}

// enter lets a request of a client in, or says with which code it is refused.
func (g *gate) enter(client netip.Addr) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.clients[client] >= g.limits.ClientRequests:
		metrics.Refused.WithLabelValues("client-requests").Inc()
		return http.StatusTooManyRequests
	case g.all >= g.limits.Requests:
		metrics.Refused.WithLabelValues("requests").Inc()
		return http.StatusServiceUnavailable
	}
	g.all++
	g.clients[client]++
	metrics.InFlight.Inc()
	return 0
}

func (g *gate) leave(client netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.clients[client]--; g.clients[client] == 0 {
		delete(g.clients, client)
	}
	metrics.InFlight.Dec()
}
