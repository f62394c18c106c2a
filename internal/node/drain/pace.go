package drain

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// Intervals and timeouts of a drain.
const (
	// attemptTimeout is the timeout of one attempt.
	attemptTimeout = 90 * time.Second
	// checkInterval is the interval at which pods are listed during an attempt.
	checkInterval = 5 * time.Second
	// initialCheckInterval is the same during the first seconds, in which most pods terminate.
	initialCheckInterval = 500 * time.Millisecond
	initialCheckPeriod   = 5 * time.Second
	// attemptRetryInterval is between attempts, and longPause once the drain has taken longer than
	// slowAfter.
	attemptRetryInterval   = time.Minute
	slowDrainRetryInterval = 5 * time.Minute
	slowAfter              = 10 * time.Minute
	// failedAfter is the time after which a drain is reported as failed. It is still retried.
	failedAfter = time.Hour
	// blockedAfter is the time after which the node reports refused evictions.
	blockedAfter = 15 * time.Second
)

// drainProgress is the progress of the drain of one node.
type drainProgress struct {
	// desired is the request of the daemon.
	desired string
	// begun is when the drain began, attempt when its present attempt did.
	begun, attempt time.Time
	// slow and failed are true once the drain was reported as such.
	slow, failed bool
	// reason is what blocks the drain, as the node reports it; empty for nothing.
	reason string
}

// nextCheck returns when to list the pods again. ended says that the attempt is over and did not drain the node.
func (p *drainProgress) nextCheck(now time.Time) (pause time.Duration, ended bool) {
	since := now.Sub(p.attempt)
	if since < attemptTimeout {
		if since < initialCheckPeriod {
			return initialCheckInterval, false
		}
		return min(checkInterval, attemptTimeout-since), false
	}

	if now.Sub(p.begun) >= slowAfter {
		return slowDrainRetryInterval, true
	}
	return attemptRetryInterval, true
}

// updateReason updates what the node reports as blocking its drain. Refused evictions count after blockedAfter, because
// budgets often allow them by then. Pods that are still terminating count once an attempt has ended. An existing reason
// is always updated.
func (p *drainProgress) updateReason(node string, refused, ended bool, now time.Time, why string) {
	since := now.Sub(p.begun)
	if p.reason == "" && !ended && (!refused || since < blockedAfter) {
		return
	}

	p.reason = fmt.Sprintf("Draining since %s: %s", p.begun.UTC().Format(time.RFC3339), why)
	if since >= failedAfter {
		p.reason = fmt.Sprintf("failed to drain node: %s after 1 hour. %s", node, p.reason)
	}
}

// drainTracker holds the progress of all drains. After a restart of the program, each drain begins a new attempt.
type drainTracker struct {
	mu    sync.Mutex
	nodes map[string]drainProgress
}

// progressOf returns the progress of a node for a request; a new one for a new request. A drain that an earlier process
// began keeps its start time.
func (p *drainTracker) progressOf(node *corev1.Node, desired string, now time.Time) drainProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.nodes[node.Name]; ok && known.desired == desired {
		if known.attempt.Sub(now) > slowDrainRetryInterval { // The clock was set back.
			known.begun = now
			known.attempt = now
		}
		return known
	}

	fresh := drainProgress{desired: desired, begun: now, attempt: now}
	if started := pools.DrainStarted(node); !started.IsZero() && started.Before(now) {
		fresh.begun = started
	}

	return fresh
}

func (p *drainTracker) setProgress(node string, progress drainProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[node] = progress
}

// reasonOf returns what blocks the drain of a node, as the node reports it; empty for nothing.
func (p *drainTracker) reasonOf(node string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes[node].reason
}

func (p *drainTracker) forgetNode(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, node)
}
