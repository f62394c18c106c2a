// Package dependency resolves the dependencies between bundles. It finds the requirements of a
// bundle that a cluster does not meet, and chooses bundles to install for them. If there is no
// solution it explains why. It also finds the requirements that a change of an installed bundle
// would break.
//
// The package is pure: the caller passes the installed bundles, the APIs that the API
// server serves, and the catalogs. Package resolve above it chooses the bundle of a
// requested package. Package requirement decodes requirements, and package solve chooses.
package dependency

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

// maxRequirements limits the number of requirements of one bundle.
const maxRequirements = 256

// Requirement is one dependency of a bundle. All requirements of a bundle must be met;
// each may be met by a different bundle.
type Requirement struct {
	// Property is the type of the property that declares the requirement.
	Property string

	formula *requirement.Formula
	text    string
	key     string
}

// Key returns a key that is equal for equal requirements.
func (r Requirement) Key() string { return r.key }

// Packages returns the names of the packages that the requirement asks for.
func (r Requirement) Packages() []string {
	var names []string
	r.formula.VisitLeaves(func(leaf *requirement.Formula, negated bool) {
		if leaf.Operator == requirement.Package && !negated {
			names = append(names, leaf.Name)
		}
	})
	return names
}

// Anywhere reports whether packages that the requirement does not name can meet it.
func (r Requirement) Anywhere() bool {
	anywhere := false
	r.formula.VisitLeaves(func(leaf *requirement.Formula, negated bool) {
		anywhere = anywhere || leaf.Operator != requirement.Package && !negated
	})
	return anywhere
}

// Range returns the version range that the requirement states for a package; empty when
// it states none.
func (r Requirement) Range(pkg string) string {
	text := ""
	r.formula.VisitLeaves(func(leaf *requirement.Formula, negated bool) {
		if leaf.Operator == requirement.Package && leaf.Name == pkg && !negated && text == "" {
			text = leaf.Text
		}
	})
	return text
}

// String describes the requirement in words that follow "needs".
func (r Requirement) String() string { return r.text }

// describeFormula returns a formula in words.
func describeFormula(f *requirement.Formula) string {
	switch f.Operator {
	case requirement.API:
		return "the API " + formatGVK(f.GVK)
	case requirement.Package:
		if f.Text == "" {
			return fmt.Sprintf("package %q", f.Name)
		}
		return fmt.Sprintf("package %q in version %q", f.Name, requirement.TruncateText(f.Text))
	case requirement.Rule:
		return fmt.Sprintf("a bundle for which the rule %q holds", requirement.TruncateText(f.Text))
	case requirement.Any:
		return "one of (" + describeParts(f) + ")"
	case requirement.Not:
		return "the absence of (" + describeParts(f) + ")"
	default:
		return "all of (" + describeParts(f) + ")"
	}
}

func describeParts(f *requirement.Formula) string {
	var words []string
	for i := range f.Parts {
		words = append(words, describeFormula(&f.Parts[i]))
	}
	return joinSemicolons(words)
}

func formatGVK(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("%s of %s", gvk.Kind, gvk.GroupVersion())
}

// IsRequirement reports whether a property of this type states a requirement.
func IsRequirement(propertyType string) bool {
	return propertyType == fbc.PropertyGVKRequired || propertyType == fbc.PropertyPackageRequired || propertyType == fbc.PropertyConstraint
}

// Parse returns the requirements in the properties of a bundle, without duplicates. It
// returns an error for a requirement that it does not understand, because a requirement
// that is ignored would be violated.
func Parse(properties []fbc.Property) ([]Requirement, error) {
	var requirements []Requirement
	seen := map[string]bool{}
	for _, p := range properties {
		if !IsRequirement(p.Type) {
			continue
		}

		f, err := requirement.Decode(p)
		if err != nil {
			return nil, err
		}

		text := describeFormula(f)
		if f.Message != "" {
			text += fmt.Sprintf(" (%s)", requirement.TruncateText(f.Message))
		}

		key := p.Type + "\x00" + string(p.Value)
		if seen[key] {
			continue
		}

		seen[key] = true
		if requirements = append(requirements, Requirement{Property: p.Type, formula: f, text: text, key: key}); len(requirements) > maxRequirements {
			return nil, fmt.Errorf("the bundle has more than %d requirements", maxRequirements)
		}
	}

	return requirements, nil
}
