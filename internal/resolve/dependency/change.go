package dependency

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

// Change is a planned update or removal of an installed bundle.
type Change struct {
	// Before is the installed bundle; nil when there is none.
	Before *Bundle
	// After replaces it; nil when it is removed.
	After *Bundle
	// Others are the other installed bundles.
	Others []*Bundle
	// Serves reports whether the API server serves an API now. Nil means that it serves
	// none.
	Serves func(schema.GroupVersionKind) bool
}

// Break is a requirement that would no longer be met.
type Break struct {
	// Dependent is the bundle with the requirement.
	Dependent *Bundle
	Requirement
}

// String names the dependent extension and the requirement.
func (b Break) String() string {
	return fmt.Sprintf("extension %q (bundle %q) needs %s", b.Dependent.Extension, b.Dependent.Name, b.Requirement)
}

// Breaks returns the requirements of the other bundles that are met before the change and
// not after it. It ignores requirements that are not met before the change, and bundles
// whose requirements cannot be parsed.
//
// An API that only the old bundle provides counts as lost, although the API server still
// serves it.
func (c *Change) Breaks() []Break {
	var breaks []Break
	for _, dependent := range c.Others {
		requirements, err := dependent.Requires()
		if err != nil {
			continue
		}
		for i := range requirements {
			r := &requirements[i]
			if c.isRequirementMet(dependent, r, c.Before, c.isServed) && !c.isRequirementMet(dependent, r, c.After, c.isStillServed) {
				breaks = append(breaks, Break{Dependent: dependent, Requirement: *r})
			}
		}
	}

	return breaks
}

func (c *Change) isServed(gvk schema.GroupVersionKind) bool { return c.Serves != nil && c.Serves(gvk) }

func (c *Change) isStillServed(gvk schema.GroupVersionKind) bool {
	lost := c.Before != nil && c.Before.Provides(gvk) && (c.After == nil || !c.After.Provides(gvk))
	return !lost && c.isServed(gvk)
}

func (c *Change) isRequirementMet(dependent *Bundle, r *Requirement, with *Bundle, served func(schema.GroupVersionKind) bool) bool {
	return r.formula.IsMetWith(func(leaf *requirement.Formula, negated bool) bool {
		return with != nil && with.meetsLeaf(leaf) || slices.ContainsFunc(c.Others, func(b *Bundle) bool {
			return (b != dependent || !negated) && b.meetsLeaf(leaf)
		}) || leaf.Operator == requirement.API && served(leaf.GVK)
	})
}

// BreaksError is the error for a change that would break requirements of other bundles.
type BreaksError struct {
	// Doing describes the change, such as "removing it".
	Doing string
	// Breaks are the requirements that would break. Never empty.
	Breaks []Break
	// Advice states what to do about it.
	Advice string
}

// Error names the dependents and the advice.
func (e *BreaksError) Error() string {
	var words []string
	for _, b := range e.Breaks {
		words = append(words, b.String())
	}
	return strings.TrimSuffix(fmt.Sprintf("%s would break others: %s. %s", e.Doing, joinSemicolons(words), e.Advice), ". ")
}
