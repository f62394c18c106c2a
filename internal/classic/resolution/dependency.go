package resolution

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

// propertyDeprecated is the type of a property that only OLM Classic knows.
const propertyDeprecated = "olm.deprecated"

// dependency is a requirement of a bundle. One bundle must meet all parts of it.
type dependency struct {
	// key identifies the dependency. Equal dependencies have equal keys.
	key string
	// text describes the dependency. It completes the sentence "requires an operator ...".
	text    string
	formula *requirement.Formula
}

// isDependency reports whether a property of the type is a requirement.
func isDependency(propertyType string) bool {
	switch propertyType {
	case fbc.PropertyGVKRequired, fbc.PropertyPackageRequired, fbc.PropertyConstraint, requirement.PropertyLabelRequired:
		return true
	default:
		return false
	}
}

// parseDependency returns the dependency of a property.
func parseDependency(p fbc.Property) (*dependency, error) {
	formula, err := requirement.Decode(p)
	if err != nil {
		return nil, err
	}
	return &dependency{key: p.Type + "\x00" + string(p.Value), text: describeFormula(formula), formula: formula}, nil
}

// describeFormula returns the text of a formula with its failure message.
func describeFormula(f *requirement.Formula) string {
	text := ""
	switch f.Operator {
	case requirement.API:
		text = describeGVK(f.GVK)
	case requirement.Package:
		text = "with package: " + f.Name
		if f.Text != "" {
			text += " and with version in range: " + f.Text
		}
	case requirement.Label:
		text = "with label: " + f.Name
	case requirement.Rule:
		return fmt.Sprintf("with constraint: %q and message: %q", f.Text, f.Message)
	case requirement.All:
		text = "all of: " + describeParts(f)
	case requirement.Any:
		text = "any of: " + describeParts(f)
	case requirement.Not:
		text = "none of: " + describeParts(f)
	}

	if f.Message != "" {
		text += fmt.Sprintf(" and message: %q", f.Message)
	}
	return text
}

func describeGVK(gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("providing an API with group: %s, version: %s, kind: %s", gvk.Group, gvk.Version, gvk.Kind)
}

func describeParts(f *requirement.Formula) string {
	texts := make([]string, len(f.Parts))
	for i := range f.Parts {
		texts[i] = describeFormula(&f.Parts[i])
	}
	return strings.Join(texts, "; ")
}
