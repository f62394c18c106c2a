package httpserver

import (
	"net/http"
	"net/netip"
	"sync"
)

// Limits limit concurrent connections and requests. A client is identified by its IP address. All fields are
// required.
type Limits struct {
	// Connections is the maximum number of open connections. Further connections wait until others are
	// closed.
	Connections int
	// ClientConnections is the maximum number of open connections of a client. Further connections are
	// closed.
	ClientConnections int
	// Requests is the maximum number of concurrent requests. Further requests get status 503 with
	// Retry-After.
	Requests int
	// ClientRequests is the maximum number of concurrent requests of a client. Further requests get
	// status 429 with Retry-After.
	ClientRequests int
}

// WithDefaults returns the limits, in which fields that are not positive are replaced by defaults.
func (l Limits) WithDefaults(defaults Limits) Limits {
	return Limits{
		Connections:       positiveOrDefault(l.Connections, defaults.Connections),
		ClientConnections: positiveOrDefault(l.ClientConnections, defaults.ClientConnections),
		Requests:          positiveOrDefault(l.Requests, defaults.Requests),
		ClientRequests:    positiveOrDefault(l.ClientRequests, defaults.ClientRequests),
	}
}

func positiveOrDefault(value, fallback int) int {
	if value > 0 {
		return value
	}
	return fallback
}

// Observer contains callbacks for metrics of connections and requests. Functions can be nil.
type Observer struct {
	// Connections is called with the change of the number of connections, 1 or -1.
	Connections func(change float64)
	// Requests is called with the change of the number of requests, 1 or -1.
	Requests func(change float64)
	// Refused is called with the name of the limit that was reached: client-connections,
	// client-requests or requests.
	Refused func(limit string)
}

func notifyObserver[T any](f func(T), value T) {
	if f != nil {
		f(value)
	}
}

// RetryAfterSeconds is the value of Retry-After if a request limit is reached, in seconds. Most requests take
// milliseconds.
const RetryAfterSeconds = "1"

// Gate limits concurrent requests. It is safe for concurrent use.
type Gate struct {
	limits   Limits
	observer Observer

	mu      sync.Mutex
	all     int
	clients map[netip.Addr]int
}

// NewGate returns a gate without requests.
func NewGate(limits Limits, observer Observer) *Gate {
	return &Gate{limits: limits, observer: observer, clients: map[netip.Addr]int{}}
}

// Enter admits a request. The caller must call leave when the request is complete. If a limit is reached,
// leave is nil and status is the HTTP status code for the rejection.
func (g *Gate) Enter(r *http.Request) (leave func(), status int) {
	client := parseClientAddress(r.RemoteAddr)
	if status := g.admitRequest(client); status != 0 {
		return nil, status
	}
	return func() { g.releaseRequest(client) }, 0
}

func (g *Gate) admitRequest(client netip.Addr) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.clients[client] >= g.limits.ClientRequests:
		notifyObserver(g.observer.Refused, "client-requests")
		return http.StatusTooManyRequests
	case g.all >= g.limits.Requests:
		notifyObserver(g.observer.Refused, "requests")
		return http.StatusServiceUnavailable
	}

	g.all++
	g.clients[client]++
	notifyObserver(g.observer.Requests, 1)

	return 0
}

func (g *Gate) releaseRequest(client netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.clients[client]--; g.clients[client] == 0 {
		delete(g.clients, client)
	}
	notifyObserver(g.observer.Requests, -1)
}

// Limit returns a handler that passes requests to next within the limits, and rejects other requests.
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

// TooManyRequests is the response text for a request that is rejected because of a limit.
const TooManyRequests = "too many requests: try again in " + RetryAfterSeconds + " second"

// parseClientAddress returns the client address of a connection. All remote addresses that are not IP addresses
// count as one client.
func parseClientAddress(remote string) netip.Addr {
	address, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return address.Addr().Unmap()
}

// HTTP1Protocols returns the protocols for servers without HTTP/2, in which a single connection can have hundreds of
// concurrent requests.
func HTTP1Protocols() *http.Protocols {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return protocols
}
