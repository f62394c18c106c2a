package catalogs

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// showOperation shows a current operation until the returned function is called.
func showOperation(p report.Progress, name, detail string) func() {
	report.OrQuiet(p).Parts([]report.Part{{Name: name, State: report.StateCurrent, Detail: detail}})
	return func() { report.OrQuiet(p).Parts(nil) }
}

// pushProgressStep is the number of bytes between two updates of a push: about ten updates
// a second on a fast connection.
const pushProgressStep = 1 << 20

// newPushReporter returns a function that shows the total progress of a push.
func newPushReporter(p report.Progress, ref string) func(image.Progress) {
	sent := map[string]int64{}
	var total, shown int64
	return func(part image.Progress) {
		total += part.Sent - sent[part.Digest]
		sent[part.Digest] = part.Sent
		if total-shown < pushProgressStep {
			return
		}

		shown = total
		report.OrQuiet(p).Parts([]report.Part{{Name: ref, State: report.StateCurrent, Detail: fmt.Sprintf("pushing, %d MiB sent", total>>20)}})
	}
}

// sharedProgress lets several goroutines report to one Progress. Each goroutine reports to
// its own lane.
type sharedProgress struct {
	mu     sync.Mutex
	target report.Progress
	lanes  []*progressLane
}

// progressLane is the Progress of one goroutine.
type progressLane struct {
	shared *sharedProgress
	parts  []report.Part
}

// addProgressLane returns a new lane. The returned function closes it.
func (l *sharedProgress) addProgressLane() (*progressLane, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	added := &progressLane{shared: l}
	l.lanes = append(l.lanes, added)

	return added, func() {
		added.Parts(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lanes = slices.DeleteFunc(l.lanes, func(o *progressLane) bool { return o == added })
	}
}

// Done reports a completed step.
func (l *progressLane) Done(message string) {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	report.OrQuiet(l.shared.target).Done(message)
}

// Warn reports a warning.
func (l *progressLane) Warn(message string) {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	report.OrQuiet(l.shared.target).Warn(message)
}

// Parts shows the parts of this lane together with those of the other lanes.
func (l *progressLane) Parts(parts []report.Part) {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	l.parts = slices.Clone(parts)
	var shown []report.Part
	for _, other := range l.shared.lanes {
		shown = append(shown, other.parts...)
	}

	report.OrQuiet(l.shared.target).Parts(shown)
}
