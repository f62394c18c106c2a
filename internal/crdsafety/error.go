package crdsafety

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Validator is the name of a validator that reports violations. The names are part of the
// messages.
type Validator string

// The validators, in the order in which their violations are reported.
const (
	// NoScopeChange reports a changed scope: objects of one scope are invalid in the other.
	NoScopeChange Validator = "NoScopeChange"
	// NoStoredVersionRemoved reports removed versions with stored objects: these can be read
	// only while the CRD has the version.
	NoStoredVersionRemoved Validator = "NoStoredVersionRemoved"
	// NoExistingFieldRemoved reports removed fields: their values are lost at the next write
	// of an object.
	NoExistingFieldRemoved Validator = "NoExistingFieldRemoved"
	// ChangeValidator reports every other change.
	ChangeValidator Validator = "ChangeValidator"
)

var validators = []Validator{NoScopeChange, NoStoredVersionRemoved, NoExistingFieldRemoved, ChangeValidator}

const (
	// maxViolations limits the reported violations. The largest known CRDs have about 10,000
	// fields in all their versions.
	maxViolations = 10_000
	// maxTextBytes limits a quoted path, value or list.
	maxTextBytes = 1024
)

// Violation is a change that is not safe, or not known to be safe.
type Violation struct {
	// Validator is the validator that reports it.
	Validator Validator
	// Version is the changed version of the CRD. It is empty if the change does not belong to a
	// version.
	Version string
	// Field is the path of the field with the changed schema, from the root ^ of the object, such
	// as ^.spec.ports[*].name. Elements of lists and values of maps are [*]. It is empty if the
	// change does not belong to a field.
	Field string
	// Unknown means that the safety of the change could not be determined.
	Unknown bool
	// Message describes the change, with version and field.
	Message string
}

// String returns the violation as in the error: the validator and the change.
func (v *Violation) String() string {
	return fmt.Sprintf("%q validation failed: %s", string(v.Validator), v.Message)
}

// UnsafeError is all unsafe changes of a CRD. Its message has the name of the CRD and one line for
// each violation.
type UnsafeError struct {
	// Name is the name of the CRD.
	Name string
	// Violations are at least one, ordered by validator, version and field.
	Violations []Violation
}

// Error implements error.
func (e *UnsafeError) Error() string {
	lines := make([]string, len(e.Violations))
	for i := range e.Violations {
		lines[i] = e.Violations[i].String()
	}
	return fmt.Sprintf("CustomResourceDefinition %s failed upgrade safety validation. %s", e.Name, strings.Join(lines, "\n"))
}

// report collects violations.
type report struct {
	violations []Violation
}

// hasReachedLimit reports whether there are so many violations that the comparison ends.
func (r *report) hasReachedLimit() bool { return len(r.violations) > maxViolations }

func (r *report) add(v Violation) {
	if len(r.violations) == maxViolations {
		v = Violation{Validator: ChangeValidator, Unknown: true, Message: unknownChangeMessage("definition", fmt.Sprintf(
			"it has more than %d violations, and the rest was not compared", maxViolations))}
	}
	if !r.hasReachedLimit() {
		r.violations = append(r.violations, v)
	}
}

// toUnsafeError returns the violations in the order of their validators, or nil.
func (r *report) toUnsafeError(name string) error {
	if len(r.violations) == 0 {
		return nil
	}
	slices.SortStableFunc(r.violations, func(a, b Violation) int {
		return cmp.Compare(slices.Index(validators, a.Validator), slices.Index(validators, b.Validator))
	})
	return &UnsafeError{Name: name, Violations: r.violations}
}

func unknownChangeMessage(subject, change string) string {
	return subject + " has unknown change, refusing to determine that change is safe: " + change
}
