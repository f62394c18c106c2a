package rollout

import (
	"testing"
	"time"
)

func TestPaceSlowsDownWhatNeverEnds(t *testing.T) {
	p, now := newPace(), time.Unix(1000, 0)
	for i := range burst {
		if wait := p.next("busy", now); wait != 0 {
			t.Fatalf("pass %d waits %s", i, wait)
		}
	}
	if wait := p.next("busy", now); wait <= 0 || wait > sustained {
		t.Errorf("after the burst a pass waits %s", wait)
	}
	if wait := p.next("other", now); wait != 0 {
		t.Errorf("another revision waits %s", wait)
	}
	if wait := p.next("busy", now.Add(sustained)); wait != 0 {
		t.Errorf("after a pause a pass waits %s", wait)
	}
	p.forget("busy")
	if wait := p.next("busy", now); wait != 0 {
		t.Errorf("a forgotten revision waits %s", wait)
	}
}
