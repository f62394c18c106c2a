package packageserver

import (
	"testing"
	"time"
)

// Packages stay up to date until the interval has passed or the state of the catalog changes.
func TestRemainingValidity(t *testing.T) {
	now := time.Unix(10_000, 0)
	reading := catalogReading{readAt: now.Add(-time.Minute), state: catalogState{uid: "a", generation: 1}}
	for name, c := range map[string]struct {
		state    catalogState
		interval time.Duration
		want     time.Duration
	}{
		"up to date":          {reading.state, time.Hour, 59 * time.Minute},
		"the interval passed": {reading.state, time.Second, -59 * time.Second},
		"the catalog changed": {catalogState{uid: "a", generation: 2}, time.Hour, 0},
	} {
		if got := reading.remainingValidity(c.state, c.interval, now); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}
