package serve

import "sync/atomic"

// How many requests are answered at the same time; more get 429 and are asked to come again. They all
// come from the API servers of the cluster, which share them out fairly among their clients.
const (
	maxRequests = 200
	// maxWatches are those that stay open: each costs some 50 kB.
	maxWatches = 1000
)

// inFlight counts the requests that are being answered.
type inFlight struct{ requests, watches atomic.Int64 }

// enter lets a request in, if there are not too many. leave must be called when it is done.
func (f *inFlight) enter(watch bool) (leave func(), ok bool) {
	count, limit := &f.requests, int64(maxRequests)
	if watch {
		count, limit = &f.watches, maxWatches
	}

	leave = func() { count.Add(-1) }
	if count.Add(1) > limit {
		leave()
		return nil, false
	}

	return leave, true
}
