package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// transientStatusDelay is how long the write of a transient status is delayed. Most transient
// states are over by then, which saves the API server every write but the last. A person does not
// notice the delay.
const transientStatusDelay = 500 * time.Millisecond

// StatusDelays tracks the statuses whose write is delayed. Another transient status of the same object
// does not extend the delay. The zero value is ready for use.
type StatusDelays struct {
	// Clock returns the time. Nil means the real clock.
	Clock clock.PassiveClock

	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// updateDelay returns how long the write of an object's status is still delayed. Zero means that
// it is written now. It must be called for every status: with waits false it ends the delay.
func (l *StatusDelays) updateDelay(name types.NamespacedName, waits bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !waits {
		delete(l.since, name)
		return 0
	}
	if l.Clock == nil {
		l.Clock = clock.RealClock{}
	}
	if l.since == nil {
		l.since = map[types.NamespacedName]time.Time{}
	}

	now := l.Clock.Now()
	since, ok := l.since[name]
	if !ok {
		since = now
		l.since[name] = now
	}

	left := since.Add(transientStatusDelay).Sub(now)
	if left <= 0 || left > transientStatusDelay { // the clock was set back
		delete(l.since, name)
		return 0
	}

	return left
}
