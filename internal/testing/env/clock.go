package env

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// JumpingClock is the real clock, set forward or back. Its times have no monotonic part, as after the machine was
// suspended or a time server has corrected the clock. Timers and tickers are those of the real clock.
type JumpingClock struct {
	clock.RealClock

	offset atomic.Int64
}

// JumpTo sets the clock to an offset from the real one.
func (c *JumpingClock) JumpTo(offset time.Duration) { c.offset.Store(int64(offset)) }

// Now implements clock.PassiveClock.
func (c *JumpingClock) Now() time.Time {
	return time.Now().Add(time.Duration(c.offset.Load())).Round(0)
}

// Since implements clock.PassiveClock.
func (c *JumpingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
