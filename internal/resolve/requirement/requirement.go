// Package requirement decodes what bundles require of each other, and evaluates it. The
// properties olm.gvk.required, olm.package.required, olm.label.required and olm.constraint
// become formulas; a Provider is a bundle that may meet them.
//
// OLM v1 and OLM Classic share this model. They differ in how they evaluate a formula: in
// OLM Classic one bundle must meet the whole formula (MetBy), in OLM v1 different bundles may
// meet its leaves (IsMetWith). They also differ in the words of their messages, which are not
// part of this package.
package requirement

import (
	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Operator is the kind of a formula.
type Operator int

// The operators of leaves come before those of formulas with parts.
const (
	// API is met by a bundle that provides an API.
	API Operator = iota
	// Package is met by a bundle of a package, in a range of versions.
	Package
	// Label is met by a bundle that has a label. Only OLM Classic requires labels.
	Label
	// Rule is met by a bundle for which a CEL rule is true.
	Rule
	// All is met if all parts are met.
	All
	// Any is met if one of the parts is met.
	Any
	// Not is met if none of the parts is met.
	Not
)

// Formula is a requirement, or a part of one.
type Formula struct {
	Operator Operator
	// Message is the failure message of a constraint, or "".
	Message string
	// GVK is the API of an API leaf.
	GVK schema.GroupVersionKind
	// Name is the name of a package or a label.
	Name string
	// Text is the range of versions of a package, or a CEL rule.
	Text string
	// Parts are the parts of All, Any and Not. There is at least one.
	Parts []Formula

	includes semver.Range
	program  cel.Program
}

// IsLeaf reports whether the formula has no parts.
func (f *Formula) IsLeaf() bool { return f.Operator < All }

// VisitLeaves calls visit for each leaf. The argument negated is true for a leaf that must not
// be met.
func (f *Formula) VisitLeaves(visit func(leaf *Formula, negated bool)) { f.walkLeaves(visit, false) }

func (f *Formula) walkLeaves(visit func(*Formula, bool), negated bool) {
	if f.IsLeaf() {
		visit(f, negated)
	}
	for i := range f.Parts {
		f.Parts[i].walkLeaves(visit, negated != (f.Operator == Not))
	}
}

// HasNegation reports whether an additional bundle can make the formula false.
func (f *Formula) HasNegation() bool {
	for i := range f.Parts {
		if f.Operator == Not || f.Parts[i].HasNegation() {
			return true
		}
	}
	return false
}

// IsMetWith evaluates the formula. The function met reports whether a leaf is met; its argument
// negated is true for a leaf that must not be met.
func (f *Formula) IsMetWith(met func(leaf *Formula, negated bool) bool) bool {
	return f.evaluate(met, false)
}

func (f *Formula) evaluate(met func(*Formula, bool) bool, negated bool) bool {
	switch f.Operator {
	case All:
		for i := range f.Parts {
			if !f.Parts[i].evaluate(met, negated) {
				return false
			}
		}
		return true
	case Any:
		for i := range f.Parts {
			if f.Parts[i].evaluate(met, negated) {
				return true
			}
		}
		return false
	case Not:
		for i := range f.Parts {
			if f.Parts[i].evaluate(met, !negated) {
				return false
			}
		}
		return true
	default:
		return met(f, negated)
	}
}

// MetBy reports whether one bundle meets every part of the formula by itself.
func (f *Formula) MetBy(p *Provider) bool {
	return f.evaluate(func(leaf *Formula, _ bool) bool { return p.Meets(leaf) }, false)
}
