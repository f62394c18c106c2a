package version

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/mainstay-dev/mainstay/internal/cluster/worker"
)

// Important changes are relayed at once; progress is delayed and then relayed.
func TestEventRelay(t *testing.T) {
	var status atomic.Pointer[worker.Status]
	status.Store(&worker.Status{})
	progress, out := make(chan struct{}), make(chan event.GenericEvent)
	clock := clocktesting.NewFakeClock(start.Time)
	r := &eventRelay{status: func() worker.Status { return *status.Load() }, progress: progress, out: out, clock: clock}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	expectRelayed := func(what string) {
		t.Helper()
		select {
		case <-out:
		case <-time.After(time.Minute):
			t.Fatalf("got no event for %s, want it relayed", what)
		}
	}

	for i, next := range []worker.Status{
		{Generation: 1}, {Generation: 1, Reconciling: true}, {Generation: 1, Reconciling: true, Failure: errors.New("x")}, {Generation: 2},
		{Generation: 2, Done: 1}, {Generation: 2, Done: 2},
	} {
		status.Store(&next)
		progress <- struct{}{}
		expectRelayed("change " + string(rune('0'+i)))
	}

	progress <- struct{}{} // The burst is used up.
	progress <- struct{}{} // One event is already pending.
	select {
	case <-out:
		t.Error("got progress relayed beyond the limit, want it delayed")
	default:
	}

	if !clock.HasWaiters() {
		t.Fatal("got no pending event, want a delayed one")
	}

	clock.Step(minProgressInterval)
	expectRelayed("the delayed progress")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
