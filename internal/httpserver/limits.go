package httpserver

import (
	"net/http"
	"net/netip"
	"sync"
)

// Limits bound what clients may ask for at once. A client is an IP address. All fields are
// required.
type Limits struct {
	// Connections is how many may be open; more wait until others are closed.
	Connections int
	// ClientConnections is how many one client may have open; more are closed.
	ClientConnections int
	// Requests is how many are answered; more get 503 and are asked to come again.
	Requests int
	// ClientRequests is how many of one client are answered; more get 429 and are asked to
	// come again.
	ClientRequests int
}

// Or returns the limits with the fields that are not positive taken from defaults.
func (l Limits) Or(defaults Limits) Limits {
	return Limits{
		Connections:       positiveOr(l.Connections, defaults.Connections),
		ClientConnections: positiveOr(l.ClientConnections, defaults.ClientConnections),
		Requests:          positiveOr(l.Requests, defaults.Requests),
		ClientRequests:    positiveOr(l.ClientRequests, defaults.ClientRequests),
	}
}

func positiveOr(value, fallback int) int {
	if value > 0 {
		return value
	}
	return fallback
}

// Observer is called when connections and requests come, go and are refused, for metrics. A
// nil function is not called.
type Observer struct {
	// Connections is called with 1 and -1.
	Connections func(change float64)
	// Requests is called with 1 and -1.
	Requests func(change float64)
	// Refused is called with the limit that was reached: client-connections,
	// client-requests or requests.
	Refused func(limit string)
}

func call[T any](f func(T), value T) {
	if f != nil {
		f(value)
	}
}

// RetryAfterSeconds is the pause, in seconds, that clients are asked for when there are too
// many requests: most are answered within milliseconds.
const RetryAfterSeconds = "1"

// Gate counts the requests that are being answered. It is safe for concurrent use.
type Gate struct {
	limits   Limits
	observer Observer

	mu      sync.Mutex
	all     int
	clients map[netip.Addr]int
}

// NewGate returns a gate that nobody has entered.
func NewGate(limits Limits, observer Observer) *Gate {
	return &Gate{limits: limits, observer: observer, clients: map[netip.Addr]int{}}
}

// Enter admits a request. The leave function must be called when it is answered. When a
// limit is reached leave is nil, and status is the code to refuse the request with.
func (g *Gate) Enter(r *http.Request) (leave func(), status int) {
	client := clientOf(r.RemoteAddr)
	if status := g.enter(client); status != 0 {
		return nil, status
	}
	return func() { g.leave(client) }, 0
}

func (g *Gate) enter(client netip.Addr) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.clients[client] >= g.limits.ClientRequests:
		call(g.observer.Refused, "client-requests")
		return http.StatusTooManyRequests
	case g.all >= g.limits.Requests:
		call(g.observer.Refused, "requests")
		return http.StatusServiceUnavailable
	}

	g.all++
	g.clients[client]++
	call(g.observer.Requests, 1)

	return 0
}

func (g *Gate) leave(client netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.clients[client]--; g.clients[client] == 0 {
		delete(g.clients, client)
	}
	call(g.observer.Requests, -1)
}

// Limit returns a handler that passes requests on while the limits allow, and refuses the
// others.
func Limit(next http.Handler, limits Limits, observer Observer) http.Handler {
	gate := NewGate(limits, observer)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, status := gate.Enter(r)
		if status != 0 {
			w.Header().Set("Retry-After", RetryAfterSeconds)
			http.Error(w, TooManyRequests, status)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

// TooManyRequests is the text of an answer that refuses a request because of a limit.
const TooManyRequests = "too many requests are being answered: try again in " + RetryAfterSeconds + " second"

// clientOf returns the address of a client from that of a connection. What is no IP address
// counts as one client.
func clientOf(remote string) netip.Addr {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// HTTP1 returns the protocols of servers that speak HTTP/1.1 only: over HTTP/2 one
// connection can ask for hundreds of answers at once.
func HTTP1() *http.Protocols {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return protocols
}
