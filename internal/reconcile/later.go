package reconcile

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// passing is how long a status that will soon be another waits before it is written. What
// goes well is mostly over by then, and spares the API server all steps but the last; to a
// person who watches it is no time.
const passing = 500 * time.Millisecond

// Later remembers which statuses wait to be written. A reconciliation that finds another
// passing status meanwhile does not make the object wait longer. The zero value is ready
// for use.
type Later struct {
	// Clock tells the time. Nil means the real one.
	Clock clock.PassiveClock

	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// pause returns how long the status of an object still waits; zero means that it is to be
// written now. It is asked with each status: one that does not wait ends the waiting.
func (l *Later) pause(name types.NamespacedName, waits bool) time.Duration {
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

	left := since.Add(passing).Sub(now)
	if left <= 0 || left > passing { // the clock was set back
		delete(l.since, name)
		return 0
	}

	return left
}
