package fbc

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// TreeError is a node of the tree of all that is wrong with a catalog: a fault, or what
// the faults below it are about. It is printed as the users of opm know it:
//
//	invalid index:
//	└── invalid package "foo":
//	    ├── default channel must be set
//	    └── package must contain at least one channel
type TreeError struct {
	// Message of the node. Where the format names a text for a fault it is that text.
	Message string
	// At is where the blob stands that the fault is in, as far as that is known.
	At Place
	// Causes are the faults below.
	Causes []*TreeError
	// Err is the error that the message comes from, if there is one that somebody could
	// look for.
	Err error
	// alone tells that the fault, if it is the only one, stands without what it is about:
	// opm's users know it so.
	alone bool
	// blob names the blob of a fault that does not name it, for when it stands alone.
	blob string
	// placed is set when the message starts with the place.
	placed bool
}

// Error is the whole tree, a line for each node.
func (e *TreeError) Error() string { return e.text((*TreeError).message) }

// Located is the tree with the place of each fault behind it, where that is known.
func (e *TreeError) Located() string {
	return e.text(func(e *TreeError) string {
		switch at := e.At; {
		case len(e.Causes) > 0 || e.placed || at == Place{}:
			return e.Message
		case at.Document == 0:
			return fmt.Sprintf("%s [%s]", e.Message, at.File)
		default:
			return fmt.Sprintf("%s [%s, document %d, line %d]", e.Message, at.File, at.Document, at.Line)
		}
	})
}

// Leaves are the faults, without what they are about.
func (e *TreeError) Leaves() iter.Seq[*TreeError] {
	return func(yield func(*TreeError) bool) { e.leaves(yield, nil) }
}

func (e *TreeError) leaves(yield func(*TreeError) bool, above []*TreeError) bool {
	if e == nil || slices.Contains(above, e) {
		return true
	}
	if len(e.Causes) == 0 {
		return yield(e)
	}

	above = append(above, e)
	for _, cause := range e.Causes {
		if !cause.leaves(yield, above) {
			return false
		}
	}

	return true
}

// Unwrap returns the causes, and the error that the message comes from.
func (e *TreeError) Unwrap() []error {
	errs := make([]error, 0, len(e.Causes)+1)
	if e.Err != nil {
		errs = append(errs, e.Err)
	}

	for _, cause := range e.Causes {
		if cause != nil {
			errs = append(errs, cause)
		}
	}
	return errs
}

func (e *TreeError) message() string { return e.Message }

func (e *TreeError) text(message func(*TreeError) string) string {
	var b strings.Builder
	e.write(&b, message, "", "", nil)
	return strings.TrimSpace(b.String())
}

// write writes a node: its first line after one indentation, all others after another. A
// node that is below itself is not written again.
func (e *TreeError) write(b *strings.Builder, message func(*TreeError) string, first, others string, above []*TreeError) {
	if e == nil || slices.Contains(above, e) {
		return
	}

	b.WriteString(first)
	b.WriteString(strings.ReplaceAll(message(e), "\n", "\n"+others))
	if len(e.Causes) > 0 {
		b.WriteByte(':')
	}

	b.WriteByte('\n')
	above = append(above, e)
	for i, cause := range e.Causes {
		if i == len(e.Causes)-1 {
			cause.write(b, message, others+"└── ", others+"    ", above)
		} else {
			cause.write(b, message, others+"├── ", others+"│   ", above)
		}
	}
}

// add puts faults below a node.
func (e *TreeError) add(causes ...*TreeError) {
	for _, cause := range causes {
		if cause != nil {
			e.Causes = append(e.Causes, cause)
		}
	}
}

// about makes a node of the faults of something that has a name, or nil when there are
// none.
func about(what, name string, causes []*TreeError) *TreeError {
	if len(causes) == 0 {
		return nil
	}
	return &TreeError{Message: fmt.Sprintf("invalid %s %q", what, name), Causes: causes}
}

// whole returns a root, or nil when nothing is wrong, or the fault that stands alone.
func (e *TreeError) whole() error {
	if len(e.Causes) == 0 {
		return nil
	}

	var only *TreeError
	for fault := range e.Leaves() {
		if only != nil {
			return e
		}
		only = fault
	}

	if only != nil && only.alone {
		return only.withPlace()
	}

	return e
}

// withPlace returns a fault as it reads without the tree: with its place and its blob, if it
// does not name them.
func (e *TreeError) withPlace() *TreeError {
	if e.blob == "" {
		return e
	}
	message := e.At.Wrap(fmt.Errorf("%s: %s", e.blob, e.Message)).Error()
	return &TreeError{Message: message, At: e.At, Err: e.Err, alone: true, placed: true}
}

// plain makes a fault that can stand alone.
func plain(at Place, format string, args ...any) *TreeError {
	fault := leaf(at, format, args...)
	fault.alone = true
	return fault
}

// leaf makes a fault.
func leaf(at Place, format string, args ...any) *TreeError {
	return &TreeError{Message: fmt.Sprintf(format, args...), At: at}
}
