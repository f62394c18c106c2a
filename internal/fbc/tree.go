package fbc

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// TreeError is a node of the tree of all faults of a catalog: a fault, or the subject of the
// faults below it. It is printed in the format of opm:
//
//	invalid index:
//	└── invalid package "foo":
//	    ├── default channel must be set
//	    └── package must contain at least one channel
type TreeError struct {
	// Message is the text of the node. Where opm has a fixed text for a fault, Message is that
	// text.
	Message string
	// At is the position of the blob with the fault, if it is known.
	At Place
	// Causes are the faults below the node.
	Causes []*TreeError
	// Err is the underlying error, for use with errors.Is and errors.As. It may be nil.
	Err error
	// standalone is set if the fault is printed without its parents when it is the only one, as
	// opm does.
	standalone bool
	// blobName describes the blob of a schema fault, whose message does not name it.
	blobName string
	// hasPlace is set if the message starts with the position.
	hasPlace bool
}

// Error returns the whole tree, one line for each node.
func (e *TreeError) Error() string {
	var b strings.Builder
	e.writeTreeNode(&b, "", "", nil)
	return strings.TrimSpace(b.String())
}

// Leaves returns the faults without their parents.
func (e *TreeError) Leaves() iter.Seq[*TreeError] {
	return func(yield func(*TreeError) bool) { e.visitLeaves(yield, nil) }
}

func (e *TreeError) visitLeaves(yield func(*TreeError) bool, above []*TreeError) bool {
	if e == nil || slices.Contains(above, e) {
		return true
	}
	if len(e.Causes) == 0 {
		return yield(e)
	}

	above = append(above, e)
	for _, cause := range e.Causes {
		if !cause.visitLeaves(yield, above) {
			return false
		}
	}

	return true
}

// Unwrap returns the causes and the underlying error.
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

// writeTreeNode writes a node. Its first line is indented by first, all other lines by others. A
// node that is its own ancestor is not written again.
func (e *TreeError) writeTreeNode(b *strings.Builder, first, others string, above []*TreeError) {
	if e == nil || slices.Contains(above, e) {
		return
	}

	b.WriteString(first)
	b.WriteString(strings.ReplaceAll(e.Message, "\n", "\n"+others))
	if len(e.Causes) > 0 {
		b.WriteByte(':')
	}

	b.WriteByte('\n')
	above = append(above, e)
	for i, cause := range e.Causes {
		if i == len(e.Causes)-1 {
			cause.writeTreeNode(b, others+"└── ", others+"    ", above)
		} else {
			cause.writeTreeNode(b, others+"├── ", others+"│   ", above)
		}
	}
}

// addCauses adds faults below the node and ignores nil.
func (e *TreeError) addCauses(causes ...*TreeError) {
	for _, cause := range causes {
		if cause != nil {
			e.Causes = append(e.Causes, cause)
		}
	}
}

// newParentFault returns a node for the faults of a named object, or nil if there are none.
func newParentFault(what, name string, causes []*TreeError) *TreeError {
	if len(causes) == 0 {
		return nil
	}
	return &TreeError{Message: fmt.Sprintf("invalid %s %q", what, name), Causes: causes}
}

// errorOrNil returns the root, nil if there are no faults, or the only fault if it is standalone.
func (e *TreeError) errorOrNil() error {
	if len(e.Causes) == 0 {
		return nil
	}

	leaves := slices.Collect(e.Leaves())
	for _, fault := range leaves {
		fault.addPlaceAndBlob()
	}

	if len(leaves) == 1 && leaves[0].standalone {
		return leaves[0]
	}

	return e
}

// addPlaceAndBlob puts the position and the blob in front of the message of a schema fault. The
// field's opm stops at the first one, and has no text for it that names the blob.
func (e *TreeError) addPlaceAndBlob() {
	if e.blobName == "" || e.hasPlace {
		return
	}
	e.Message = e.At.Wrap(fmt.Errorf("%s: %s", e.blobName, e.Message)).Error()
	e.hasPlace = true
}

// newStandaloneFaultf returns a fault that is printed without its parents when it is the only
// one.
func newStandaloneFaultf(at Place, format string, args ...any) *TreeError {
	fault := newFaultf(at, format, args...)
	fault.standalone = true
	return fault
}

func newFaultf(at Place, format string, args ...any) *TreeError {
	return &TreeError{Message: fmt.Sprintf(format, args...), At: at}
}
