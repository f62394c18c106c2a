package rollout

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// burst is how many passes over a revision may follow each other at once: a roll-out
	// of 20 phases needs some two for each.
	burst = 50
	// sustained is how often a revision is passed over after that.
	sustained = time.Second
	// thorough is how often the objects of a revision are read whatever the watches say.
	thorough = settled / 2
)

// pace says how often revisions are passed over.
//
// It slows down a revision whose objects change without end, since another controller
// writes what this one resets. Both would else write as fast as they can.
type pace struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	// read is when all objects of a revision were last read.
	read map[string]time.Time
}

func newPace() *pace {
	return &pace{limiters: map[string]*rate.Limiter{}, read: map[string]time.Time{}}
}

// isThorough reports whether it is time to read all objects of a revision, and records that
// this is done. After the clock was set back it is: how long ago the last time was is unknown.
func (p *pace) isThorough(set string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.read[set]
	if ok && !now.Before(last) && now.Before(last.Add(thorough)) {
		return false
	}

	p.read[set] = now
	return ok
}

// next says how long the next pass over a revision must wait; zero means that it
// begins now.
func (p *pace) next(set string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	limiter := p.limiters[set]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(sustained), burst)
		p.limiters[set] = limiter
	}

	reservation := limiter.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		reservation.CancelAt(now)
	}

	return delay
}

func (p *pace) forget(set string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.limiters, set)
	delete(p.read, set)
}
