package dependency

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Change is what is about to happen to one installed bundle.
type Change struct {
	// Before is the installed bundle; nil when there was none.
	Before *Bundle
	// After takes its place; nil when it is removed.
	After *Bundle
	// Others are the other installed bundles.
	Others []*Bundle
	// Serves reports whether the API server serves an API now. Nil means that it serves
	// none.
	Serves func(schema.GroupVersionKind) bool
}

// Break is a requirement that would no longer be met.
type Break struct {
	// Dependent is the bundle that has the requirement.
	Dependent *Bundle
	Requirement
}

// String says who would lose what.
func (b Break) String() string {
	return fmt.Sprintf("extension %q (bundle %q) needs %s", b.Dependent.Extension, b.Dependent.Name, b.Requirement)
}

// Breaks returns the requirements of the other bundles that are met now and would not be
// afterwards. A requirement that is not met now is not the change's fault, and one that
// cannot be read has not been promised anything.
//
// An API that the bundle provides goes with it, although the API server still serves it.
func (c *Change) Breaks() []Break {
	var breaks []Break
	for _, dependent := range c.Others {
		requirements, err := dependent.Requires()
		if err != nil {
			continue
		}
		for i := range requirements {
			r := &requirements[i]
			if c.met(dependent, r, c.Before, c.served) && !c.met(dependent, r, c.After, c.stillServed) {
				breaks = append(breaks, Break{Dependent: dependent, Requirement: *r})
			}
		}
	}

	return breaks
}

func (c *Change) served(gvk schema.GroupVersionKind) bool { return c.Serves != nil && c.Serves(gvk) }

func (c *Change) stillServed(gvk schema.GroupVersionKind) bool {
	lost := c.Before != nil && c.Before.Provides(gvk) && (c.After == nil || !c.After.Provides(gvk))
	return !lost && c.served(gvk)
}

func (c *Change) met(dependent *Bundle, r *Requirement, with *Bundle, served func(schema.GroupVersionKind) bool) bool {
	return r.formula.holds(func(leaf *formula, negated bool) bool {
		return with != nil && with.meets(leaf) || slices.ContainsFunc(c.Others, func(b *Bundle) bool {
			return (b != dependent || !negated) && b.meets(leaf)
		}) || leaf.op == opGVK && served(leaf.gvk)
	})
}

// BreaksError says that a change would break what others need.
type BreaksError struct {
	// Doing is the change in words, such as "removing it".
	Doing string
	// Breaks are the requirements. Never empty.
	Breaks []Break
	// Advice is what to do about it.
	Advice string
}

// Error names the dependents and the advice.
func (e *BreaksError) Error() string {
	var words []string
	for _, b := range e.Breaks {
		words = append(words, b.String())
	}
	return strings.TrimSuffix(fmt.Sprintf("%s would break others: %s. %s", e.Doing, list(words), e.Advice), ". ")
}
