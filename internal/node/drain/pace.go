package drain

import (
	"sync"
	"time"
)

// The times of a drain.
const (
	// attemptTime is how long one attempt lasts: pods are given that long to go.
	attemptTime = 90 * time.Second
	// look is how often pods are looked at during an attempt.
	look = 5 * time.Second
	// quick is how often they are looked at in the first seconds: most pods end at once.
	quick     = 500 * time.Millisecond
	quickTime = 5 * time.Second
	// shortPause is between attempts, and longPause once the drain has taken longer than
	// slowAfter.
	shortPause = time.Minute
	longPause  = 5 * time.Minute
	slowAfter  = 10 * time.Minute
	// failedAfter is when a drain is reported as failed. It is tried on.
	failedAfter = time.Hour
)

// progress is how long a node is being drained for.
type progress struct {
	// desired is the request that it is about.
	desired string
	// begun is when the drain began, attempt when its present attempt did.
	begun, attempt time.Time
	// slow, failed: this was reported.
	slow, failed bool
}

// next says when to look again, after a look at which pods were left. ended says that the attempt
// is over and has not drained the node.
func (p *progress) next(now time.Time) (pause time.Duration, ended bool) {
	since := now.Sub(p.attempt)
	if since < attemptTime {
		if since < quickTime {
			return quick, false
		}
		return min(look, attemptTime-since), false
	}
	if now.Sub(p.begun) >= slowAfter {
		return longPause, true
	}
	return shortPause, true
}

// paces remembers the drains that go on. They begin anew when the program does.
type paces struct {
	mu    sync.Mutex
	nodes map[string]*progress
}

// of gives the progress of a node for a request, a new one for a new request.
func (p *paces) of(node, desired string, now time.Time) *progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.nodes[node]; known != nil && known.desired == desired {
		return known
	}
	fresh := &progress{desired: desired, begun: now, attempt: now}
	p.nodes[node] = fresh
	return fresh
}

func (p *paces) forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, node)
}
