package clusteroperator

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// maxRecentSyncs is how many of the latest syncs are evaluated.
const maxRecentSyncs = 10

// Syncs counts the results of a component's reconciliations, from which a reporter derives its
// health. The zero value is ready for use, and a nil one counts nothing.
type Syncs struct {
	mutex   sync.Mutex
	recent  []bool // the latest syncs, oldest first; true for success
	tally   syncCounts
	changes chan event.GenericEvent
}

// syncCounts are the counts of syncs.
type syncCounts struct {
	// passes and successes are counted since the program started, up to maxRecentSyncs.
	passes, successes int
	// recentSuccesses is how many of the latest syncs succeeded.
	recentSuccesses int
}

// Record counts one sync. It must be called at the end of each, with the error that kept the
// program from its work. Errors that only a user can fix count as nil.
func (s *Syncs) Record(err error) {
	if s == nil {
		return
	}

	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.tally
	if len(s.recent) == maxRecentSyncs {
		s.recent = slices.Delete(s.recent, 0, 1)
	}

	s.recent = append(s.recent, err == nil)
	s.tally.passes = min(s.tally.passes+1, maxRecentSyncs)
	if err == nil {
		s.tally.successes = min(s.tally.successes+1, maxRecentSyncs)
	}

	s.tally.recentSuccesses = 0
	for _, ok := range s.recent {
		if ok {
			s.tally.recentSuccesses++
		}
	}

	isChanged := s.tally.passes != before.passes || s.tally.successes != before.successes || (s.tally.recentSuccesses > 0) != (before.recentSuccesses > 0)
	if !isChanged {
		return
	}

	select {
	case s.changeChannel() <- event.GenericEvent{Object: &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "syncs"}}}:
	default: // The pending event covers this change.
	}
}

// changeEvents returns a channel with an event whenever a change of the counts may change the
// report.
func (s *Syncs) changeEvents() <-chan event.GenericEvent {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.changeChannel()
}

// changeChannel returns the channel of events. The caller must hold the mutex.
func (s *Syncs) changeChannel() chan event.GenericEvent {
	if s.changes == nil {
		s.changes = make(chan event.GenericEvent, 1)
	}
	return s.changes
}

func (s *Syncs) currentCounts() syncCounts {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.tally
}
