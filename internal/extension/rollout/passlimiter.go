package rollout

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

const (
	// passBurst is how many reconciliations of a revision may follow each other immediately. A
	// rollout of 20 phases needs about two for each.
	passBurst = 50
	// passInterval is the minimum interval of the reconciliations of a revision after the burst.
	passInterval = time.Second
	// fullReadInterval is how often the objects of a revision are read regardless of the watches.
	fullReadInterval = stableResyncInterval / 2
)

// passLimiter limits the rate at which each revision is reconciled.
//
// It slows down a revision whose objects change without end, because another controller reverts
// the writes of this one. Otherwise both would write as fast as they can.
type passLimiter struct {
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
	// lastFullRead is when all objects of a revision were last read.
	lastFullRead map[string]time.Time
}

func newPassLimiter() *passLimiter {
	return &passLimiter{limiters: map[string]*rate.Limiter{}, lastFullRead: map[string]time.Time{}}
}

// claimFullRead returns true if all objects of a revision are due to be read, and records the
// read. The first call for a revision returns false and starts the interval. If the clock was set
// back, they are due, because the time since the last read is unknown.
func (p *passLimiter) claimFullRead(set string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.lastFullRead[set]
	if ok && !now.Before(last) && now.Before(last.Add(fullReadInterval)) {
		return false
	}

	p.lastFullRead[set] = now
	return ok
}

// reservePass returns how long the next reconciliation of a revision must wait. If it returns
// zero, the reconciliation is counted.
func (p *passLimiter) reservePass(set string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	limiter := p.limiters[set]
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(passInterval), passBurst)
		p.limiters[set] = limiter
	}

	reservation := limiter.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		reservation.CancelAt(now)
	}

	return delay
}

func (p *passLimiter) forget(set string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.limiters, set)
	delete(p.lastFullRead, set)
}

// passClient is a client that counts each read of a revision as a pass over it.
type passClient struct {
	*freshClient

	limiter *passLimiter
	clock   clock.PassiveClock
}

// Get reads a revision. It returns an error that waits if the pass must wait.
func (c *passClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if err := c.freshClient.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	if delay := c.limiter.reservePass(key.Name, c.clock.Now()); delay > 0 {
		return reconcile.Wait("", delay, errors.New("the passes follow each other too fast"))
	}
	return nil
}
