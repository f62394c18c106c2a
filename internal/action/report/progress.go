package report

// State is how far a part of an operation has come.
type State string

// States of a part.
const (
	// StateDone: nothing is left to do.
	StateDone State = "done"
	// StateCurrent: it is being done, or waits for what its detail says.
	StateCurrent State = "current"
	// StateWaiting: it has not begun, because parts before it are not done.
	StateWaiting State = "waiting"
	// StateFailed: an attempt failed for what its detail says. It may be tried again.
	StateFailed State = "failed"
)

// Part is a part of an operation, as a person sees it.
type Part struct {
	// Name of the part, unique among those shown together.
	Name string
	// State of the part.
	State State
	// Detail says what the part waits for, or what it came to. It may be empty.
	Detail string
}

// Progress is told how an operation goes. Its methods are called from the goroutine
// that runs the operation.
type Progress interface {
	// Done reports something that has been done, as a sentence without a full stop.
	Done(message string)
	// Warn reports something that a person should know though it stops nothing.
	Warn(message string)
	// Parts shows all parts of what is awaited. It is called at every look, also when
	// nothing changed since the last.
	Parts(parts []Part)
}

// Quiet is a Progress that nobody looks at.
type Quiet struct{}

// Done does nothing.
func (Quiet) Done(string) {}

// Warn does nothing.
func (Quiet) Warn(string) {}

// Parts does nothing.
func (Quiet) Parts([]Part) {}

// OrQuiet returns the progress, or one that nobody looks at when it is nil.
func OrQuiet(p Progress) Progress {
	if p == nil {
		return Quiet{}
	}
	return p
}
