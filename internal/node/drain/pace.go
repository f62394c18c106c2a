package drain

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/node/pools"
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
	// blockedAfter is when the node reports evictions that are refused.
	blockedAfter = 15 * time.Second
)

// progress is how long a node is being drained for.
type progress struct {
	// desired is the request that it is about.
	desired string
	// begun is when the drain began, attempt when its present attempt did.
	begun, attempt time.Time
	// slow, failed: this was reported.
	slow, failed bool
	// reason is what the node reports as keeping the drain from ending; empty while that is
	// nothing.
	reason string
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

// explain sets the reason that the node reports to what a look found. Evictions that are refused
// count once the drain lasts for some seconds: budgets often allow them by then. Pods that have not
// ended count when an attempt has. Once there is a reason, every look renews it.
func (p *progress) explain(node string, refused, ended bool, now time.Time, why string) {
	since := now.Sub(p.begun)
	if p.reason == "" && !ended && (!refused || since < blockedAfter) {
		return
	}

	p.reason = fmt.Sprintf("Draining since %s: %s", p.begun.UTC().Format(time.RFC3339), why)
	if since >= failedAfter {
		p.reason = fmt.Sprintf("failed to drain node: %s after 1 hour. %s", node, p.reason)
	}
}

// paces remembers the drains that go on. After a restart of the program they begin a new attempt.
type paces struct {
	mu    sync.Mutex
	nodes map[string]*progress
}

// of returns the progress of a node for a request, a new one for a new request. A drain that an
// earlier run of the program began goes on from then.
func (p *paces) of(node *corev1.Node, desired string, now time.Time) *progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.nodes[node.Name]; known != nil && known.desired == desired {
		return known
	}

	fresh := &progress{desired: desired, begun: now, attempt: now}
	if started := pools.DrainStarted(node); !started.IsZero() && started.Before(now) {
		fresh.begun = started
	}

	p.nodes[node.Name] = fresh
	return fresh
}

// reasonOf returns what a node reports as keeping its drain from ending; empty while that is nothing.
func (p *paces) reasonOf(node string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.nodes[node]; known != nil {
		return known.reason
	}
	return ""
}

func (p *paces) forget(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, node)
}
