package serve

import (
	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

// Limits bound what clients may ask for at once. A field that is not positive means its
// default.
type Limits = httpserver.Limits

// defaultLimits are 40 MB of connections at 40 KB for one that is idle, and 40 MB of requests
// at 160 KB for one with a large body. A client may be a node whose pods all have its address.
var defaultLimits = Limits{Connections: 1000, ClientConnections: 200, Requests: 256, ClientRequests: 64}

// observer counts what the limits do.
var observer = httpserver.Observer{
	Connections: metrics.Connections.Add,
	Requests:    metrics.InFlight.Add,
	Refused:     func(limit string) { metrics.Refused.WithLabelValues(limit).Inc() },
}
