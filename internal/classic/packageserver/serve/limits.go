package serve

import "sync/atomic"

// Limits of concurrent requests. Further requests get 429 Too Many Requests. All requests come
// from the API servers of the cluster, which share the capacity fairly among their clients.
const (
	maxInFlightRequests = 200
	// maxInFlightWatches limits watches, which stay open and cost about 50 kB each.
	maxInFlightWatches = 1000
)

// inFlightLimiter limits the requests that are in flight.
type inFlightLimiter struct{ requests, watches atomic.Int64 }

// acquire admits a request, or returns false if too many are in flight. release must be called
// when the request is done.
func (f *inFlightLimiter) acquire(watch bool) (release func(), ok bool) {
	count, limit := &f.requests, int64(maxInFlightRequests)
	if watch {
		count, limit = &f.watches, maxInFlightWatches
	}

	release = func() { count.Add(-1) }
	if count.Add(1) > limit {
		release()
		return nil, false
	}

	return release, true
}
