package crdsafety

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validator names what found a violation. The names are part of the messages.
type Validator string

// The validators, in the order in which their violations are reported.
const (
	// NoScopeChange: objects of one scope are not objects of the other.
	NoScopeChange Validator = "NoScopeChange"
	// NoStoredVersionRemoved: objects stored in a version can be read only while the
	// definition has that version.
	NoStoredVersionRemoved Validator = "NoStoredVersionRemoved"
	// NoExistingFieldRemoved: what the schema does not name any more is lost at the next
	// write of an object.
	NoExistingFieldRemoved Validator = "NoExistingFieldRemoved"
	// ChangeValidator judges every other change.
	ChangeValidator Validator = "ChangeValidator"
)

var validators = []Validator{NoScopeChange, NoStoredVersionRemoved, NoExistingFieldRemoved, ChangeValidator}

const (
	// maxViolations bounds what is reported. The largest definitions known to us have
	// some 10,000 fields in all their versions.
	maxViolations = 10_000
	// maxText is how many bytes of a path, of a value or of a list are quoted.
	maxText = 1024
)

// Violation is one change that is not safe, or not known to be.
type Violation struct {
	// Validator is what found it.
	Validator Validator
	// Version is the version of the definition that changed; empty when the change is
	// not one of a version.
	Version string
	// Field is the path of the field whose schema changed, from the root ^ of the object,
	// such as ^.spec.ports[*].name. Elements of lists and values of maps are [*]. Empty
	// when the change is not one of a field.
	Field string
	// Unknown tells that the change could not be judged.
	Unknown bool
	// Message says what changed, with version and field.
	Message string
}

// String is the violation as it stands in the error: what found it, and what changed.
func (v *Violation) String() string {
	return fmt.Sprintf("%q validation failed: %s", string(v.Validator), v.Message)
}

// UnsafeError is every change of a definition that is not safe. Its message names the
// definition and has one line for each.
type UnsafeError struct {
	// Name is the name of the definition.
	Name string
	// Violations are at least one, ordered by validator, version and field.
	Violations []Violation
}

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

// full tells that so much was found that the comparison ends.
func (r *report) full() bool { return len(r.violations) > maxViolations }

func (r *report) add(v Violation) {
	if len(r.violations) == maxViolations {
		v = Violation{Validator: ChangeValidator, Unknown: true, Message: unknownChange("definition", fmt.Sprintf(
			"it has more than %d violations, and the rest was not compared", maxViolations))}
	}
	if !r.full() {
		r.violations = append(r.violations, v)
	}
}

// err returns the violations in the order of their validators, and each validator's as
// they were found.
func (r *report) err(name string) error {
	if len(r.violations) == 0 {
		return nil
	}
	slices.SortStableFunc(r.violations, func(a, b Violation) int {
		return cmp.Compare(slices.Index(validators, a.Validator), slices.Index(validators, b.Validator))
	})
	return &UnsafeError{Name: name, Violations: r.violations}
}

func unknownChange(subject, change string) string {
	return subject + " has unknown change, refusing to determine that change is safe: " + change
}

// shorten bounds a text that comes from outside.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}
