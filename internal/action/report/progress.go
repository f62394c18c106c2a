package report

// State is the state of a part of an operation.
type State string

// States of a part.
const (
	// StateDone means that the part is completed.
	StateDone State = "done"
	// StateCurrent means that the part is in progress, or is waiting for what its detail
	// says.
	StateCurrent State = "current"
	// StateWaiting means that the part has not started because earlier parts are not
	// completed.
	StateWaiting State = "waiting"
	// StateFailed means that an attempt failed with the reason in its detail. It may be
	// retried.
	StateFailed State = "failed"
)

// Part is a part of an operation for display.
type Part struct {
	// Name is the name of the part. It is unique among the displayed parts.
	Name string `json:"name"`
	// State is the state of the part.
	State State `json:"state"`
	// Detail says what the part is waiting for, or its result. It may be empty.
	Detail string `json:"detail,omitempty"`
}

// Progress receives reports of an operation. Its methods are called from the goroutine that
// runs the operation.
type Progress interface {
	// Done reports a completed step as a sentence without a full stop.
	Done(message string)
	// Warn reports a warning that does not stop the operation.
	Warn(message string)
	// Parts shows all parts of an operation. It is called at every poll, even if nothing
	// has changed.
	Parts(parts []Part)
}

// Quiet is a Progress that discards all reports.
type Quiet struct{}

// Done does nothing.
func (Quiet) Done(string) {}

// Warn does nothing.
func (Quiet) Warn(string) {}

// Parts does nothing.
func (Quiet) Parts([]Part) {}

// OrQuiet returns the progress, or Quiet if it is nil.
func OrQuiet(p Progress) Progress {
	if p == nil {
		return Quiet{}
	}
	return p
}
