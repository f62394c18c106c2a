package reconcile

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// maxNoteBytes is the maximum length of an event's note. The API server rejects longer ones.
const maxNoteBytes = 1024

// Event is an event to record.
type Event struct {
	// Regarding is the object that the event is about. Nil means the object that is reconciled.
	Regarding runtime.Object
	// Related is another object that the event is about; it may be nil.
	Related runtime.Object
	// Warning is true for an event of type Warning, false for one of type Normal.
	Warning bool
	// Reason is why the action was taken, in upper camel case.
	Reason string
	// Action is what was done, in upper camel case.
	Action string
	// Note is the text for people. A note that is too long is truncated.
	Note string
}

// Record records an event about an object.
func Record(recorder events.EventRecorder, obj runtime.Object, e Event) {
	if e.Regarding != nil {
		obj = e.Regarding
	}
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}

	recorder.Eventf(obj, e.Related, kind, e.Reason, e.Action, "%s", excerpt.Start(e.Note, maxNoteBytes))
}

// recordEvents records the events of a pass about an object.
func recordEvents(recorder events.EventRecorder, obj runtime.Object, list []Event) {
	for _, e := range list {
		Record(recorder, obj, e)
	}
}
