package clusteroperator

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// window is how many of the last passes are judged.
const window = 10

// Syncs counts how the passes of a component's reconcilers end. A reporter tells by it whether
// the component works. The zero value is ready, and a nil one counts nothing.
type Syncs struct {
	mutex  sync.Mutex
	recent []bool // the last passes, the oldest first, true for those that succeeded
	tally  tally
	wake   chan event.GenericEvent
}

// tally is what was counted.
type tally struct {
	// passes and successes since the program began; passes stop counting at window.
	passes, successes int
	// lately is how many of the last passes succeeded.
	lately int
}

// Seen counts one pass. Call it at the end of every one, with the error by which the program
// could not do its work; what it found out and only a person can put right is none: nil.
func (s *Syncs) Seen(err error) {
	if s == nil {
		return
	}

	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.tally
	if len(s.recent) == window {
		s.recent = slices.Delete(s.recent, 0, 1)
	}

	s.recent = append(s.recent, err == nil)
	s.tally.passes = min(s.tally.passes+1, window)
	if err == nil {
		s.tally.successes = min(s.tally.successes+1, window)
	}

	s.tally.lately = 0
	for _, ok := range s.recent {
		if ok {
			s.tally.lately++
		}
	}

	isNews := s.tally.passes != before.passes || s.tally.successes != before.successes || (s.tally.lately > 0) != (before.lately > 0)
	if !isNews {
		return
	}

	select {
	case s.channel() <- event.GenericEvent{Object: &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "syncs"}}}:
	default: // A reporter that is yet to look will see this too.
	}
}

// news gets an event whenever what was counted may change the report.
func (s *Syncs) news() <-chan event.GenericEvent {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.channel()
}

// channel returns the channel of news. The caller holds the mutex.
func (s *Syncs) channel() chan event.GenericEvent {
	if s.wake == nil {
		s.wake = make(chan event.GenericEvent, 1)
	}
	return s.wake
}

func (s *Syncs) counted() tally {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.tally
}
