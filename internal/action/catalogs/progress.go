package catalogs

import (
	"fmt"
	"slices"
	"sync"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/image"
)

// begin shows a part of an operation until the returned function is called.
func begin(p report.Progress, name, detail string) func() {
	report.OrQuiet(p).Parts([]report.Part{{Name: name, State: report.StateCurrent, Detail: detail}})
	return func() { report.OrQuiet(p).Parts(nil) }
}

// pushStep is how many bytes go by until a push is shown anew: on a fast line some ten
// times a second.
const pushStep = 1 << 20

// pushing shows how far a push has come.
func pushing(p report.Progress, ref string) func(image.Progress) {
	sent := map[string]int64{}
	var total, shown int64
	return func(part image.Progress) {
		total += part.Sent - sent[part.Digest]
		sent[part.Digest] = part.Sent
		if total-shown < pushStep {
			return
		}

		shown = total
		report.OrQuiet(p).Parts([]report.Part{{Name: ref, State: report.StateCurrent, Detail: fmt.Sprintf("pushing, %d MiB sent", total>>20)}})
	}
}

// lanes lets several goroutines report to one Progress: each shows parts of its own.
type lanes struct {
	mu   sync.Mutex
	to   report.Progress
	open []*lane
}

// lane is what one of the goroutines reports to.
type lane struct {
	all   *lanes
	parts []report.Part
}

// add returns a new lane. The returned function ends it.
func (l *lanes) add() (*lane, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	added := &lane{all: l}
	l.open = append(l.open, added)

	return added, func() {
		added.Parts(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = slices.DeleteFunc(l.open, func(o *lane) bool { return o == added })
	}
}

// Done reports something that has been done.
func (l *lane) Done(message string) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	report.OrQuiet(l.all.to).Done(message)
}

// Warn reports something that a person should know.
func (l *lane) Warn(message string) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	report.OrQuiet(l.all.to).Warn(message)
}

// Parts shows the parts of this lane among those of the others.
func (l *lane) Parts(parts []report.Part) {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.parts = slices.Clone(parts)
	var shown []report.Part
	for _, other := range l.all.open {
		shown = append(shown, other.parts...)
	}

	report.OrQuiet(l.all.to).Parts(shown)
}
