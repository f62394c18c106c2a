package rollout

import (
	"testing"
	"time"
)

func TestPaceSlowsDownWhatNeverEnds(t *testing.T) {
	p, now := newPassLimiter(), time.Unix(1000, 0)
	for i := range passBurst {
		if wait := p.reservePass("busy", now); wait != 0 {
			t.Fatalf("pass %d: got a delay of %s", i, wait)
		}
	}

	if wait := p.reservePass("busy", now); wait <= 0 || wait > passInterval {
		t.Errorf("after the burst: got a delay of %s", wait)
	}
	if wait := p.reservePass("other", now); wait != 0 {
		t.Errorf("another revision: got a delay of %s", wait)
	}
	if wait := p.reservePass("busy", now.Add(passInterval)); wait != 0 {
		t.Errorf("after a pause: got a delay of %s", wait)
	}

	p.forget("busy")
	if wait := p.reservePass("busy", now); wait != 0 {
		t.Errorf("a forgotten revision: got a delay of %s", wait)
	}
}

func TestPaceIsThoroughAgainAfterAWhile(t *testing.T) {
	p, now := newPassLimiter(), time.Unix(1_000_000, 0)
	for i, tc := range []struct {
		at   time.Duration
		want bool
	}{
		{at: 0, want: false}, // the first pass always reads everything
		{at: fullReadInterval - 1, want: false},
		{at: fullReadInterval, want: true},
		{at: fullReadInterval + 1, want: false},
		{at: -time.Hour, want: true}, // the clock was set back
		{at: -time.Hour + 1, want: false},
		{at: 100 * time.Hour, want: true},
	} {
		if got := p.claimFullRead("set", now.Add(tc.at)); got != tc.want {
			t.Errorf("pass %d, at %s: got %t, want %t", i, tc.at, got, tc.want)
		}
	}
}
