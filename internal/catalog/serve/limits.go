package serve

import (
	"github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/httpserver"
)

// Limits limit concurrent connections and requests. A field that is not positive means its default.
type Limits = httpserver.Limits

// defaultLimits allow 40 MB of memory for connections, at 40 KB for an idle one, and 40 MB for requests, at
// 160 KB for one with a large body. A client can be a node whose address is shared by all of its pods.
var defaultLimits = Limits{Connections: 1000, ClientConnections: 200, Requests: 256, ClientRequests: 64}

// observer records the metrics of the limits.
var observer = httpserver.Observer{
	Connections: metrics.Connections.Add,
	Requests:    metrics.InFlight.Add,
	Refused:     func(limit string) { metrics.Refused.WithLabelValues(limit).Inc() },
}
