package requirement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/bundle/constraint"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/versionrange"
)

// Types of properties that only OLM Classic knows.
const (
	PropertyLabel         = "olm.label"
	PropertyLabelRequired = "olm.label.required"
)

const (
	// maxBytes limits the size of a requirement. The bundle format specifies it for
	// olm.constraint.
	maxBytes = 64 << 10
	// maxDepth limits the nesting of constraints. Real constraints have two levels.
	maxDepth = 16
	// maxQuotedBytes limits how much of a rule or a range a message quotes, with the three bytes of an ellipsis.
	maxQuotedBytes = 123
)

// Decode returns the formula of a property that states a requirement. It returns an error for
// a requirement that it does not understand, because a requirement that is ignored would be
// violated.
func Decode(p fbc.Property) (*Formula, error) {
	f, err := decodeProperty(p)
	if err != nil {
		return nil, fmt.Errorf("property %q: %w", p.Type, err)
	}
	return &f, nil
}

func decodeProperty(p fbc.Property) (Formula, error) {
	if len(p.Value) > maxBytes {
		return Formula{}, fmt.Errorf("it has %d bytes: at most %d are allowed", len(p.Value), maxBytes)
	}

	switch p.Type {
	case fbc.PropertyGVKRequired:
		return decodeAPI(p.Value)
	case fbc.PropertyPackageRequired:
		return decodePackage(p.Value)
	case PropertyLabelRequired:
		return decodeLabel(p.Value)
	case fbc.PropertyConstraint:
		return decodeConstraint(p.Value, 0)
	default:
		return Formula{}, errors.New("it states no requirement")
	}
}

func decodeAPI(raw json.RawMessage) (Formula, error) {
	var value bundle.GVKProperty
	if err := json.Unmarshal(raw, &value); err != nil {
		return Formula{}, err
	}
	// The core group has no name, and no bundle provides it.
	if value.Version == "" || value.Kind == "" {
		return Formula{}, errors.New("an API needs a group, a version and a kind")
	}
	return Formula{Operator: API, GVK: schema.GroupVersionKind{Group: value.Group, Version: value.Version, Kind: value.Kind}}, nil
}

// decodePackage decodes a package name and a version range. The documentation of
// olm.constraint names the field "name", that of olm.package.required "packageName".
// Both are accepted in both.
func decodePackage(raw json.RawMessage) (Formula, error) {
	var value struct{ PackageName, Name, VersionRange string }
	if err := json.Unmarshal(raw, &value); err != nil {
		return Formula{}, err
	}

	f := Formula{Operator: Package, Name: value.PackageName, Text: value.VersionRange}
	if f.Name == "" {
		f.Name = value.Name
	}
	if f.Name == "" {
		return Formula{}, errors.New("packageName is not set")
	}
	if f.Text == "" {
		return f, nil
	}

	var err error
	if f.includes, err = versionrange.Parse(f.Text); err != nil {
		return Formula{}, fmt.Errorf("versionRange %q: %w", TruncateText(f.Text), err)
	}

	return f, nil
}

func decodeLabel(raw json.RawMessage) (Formula, error) {
	var value labelValue
	if err := json.Unmarshal(raw, &value); err != nil {
		return Formula{}, err
	}
	if value.Label == "" {
		return Formula{}, errors.New("label is not set")
	}
	return Formula{Operator: Label, Name: value.Label}, nil
}

// labelValue is the value of the properties olm.label and olm.label.required.
type labelValue struct {
	Label string `json:"label"`
}

// constraintValue is the value of an olm.constraint property, or an element of all, any
// or not.
type constraintValue struct {
	FailureMessage string          `json:"failureMessage"`
	GVK            json.RawMessage `json:"gvk"`
	Package        json.RawMessage `json:"package"`
	CEL            *struct {
		Rule string `json:"rule"`
	} `json:"cel"`
	All *compoundConstraint `json:"all"`
	Any *compoundConstraint `json:"any"`
	Not *compoundConstraint `json:"not"`
}

type compoundConstraint struct {
	Constraints []json.RawMessage `json:"constraints"`
}

func decodeConstraint(raw json.RawMessage, depth int) (Formula, error) {
	if depth == maxDepth {
		return Formula{}, fmt.Errorf("constraints are nested deeper than %d levels", maxDepth)
	}

	var value constraintValue
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // An unknown constraint cannot be enforced.
	if err := decoder.Decode(&value); err != nil {
		return Formula{}, err
	}

	var kinds []func() (Formula, error)
	add := func(isSet bool, decode func() (Formula, error)) {
		if isSet {
			kinds = append(kinds, decode)
		}
	}
	add(len(value.GVK) > 0, func() (Formula, error) { return decodeAPI(value.GVK) })
	add(len(value.Package) > 0, func() (Formula, error) { return decodePackage(value.Package) })
	add(value.CEL != nil, func() (Formula, error) { return decodeRule(value.CEL.Rule) })
	add(value.All != nil, func() (Formula, error) { return decodeCompound(All, value.All, depth) })
	add(value.Any != nil, func() (Formula, error) { return decodeCompound(Any, value.Any, depth) })
	add(value.Not != nil, func() (Formula, error) { return decodeCompound(Not, value.Not, depth) })
	if len(kinds) != 1 {
		return Formula{}, fmt.Errorf("a constraint has one of gvk, package, cel, all, any and not: this one has %d of them", len(kinds))
	}

	f, err := kinds[0]()
	f.Message = value.FailureMessage
	return f, err
}

func decodeRule(text string) (Formula, error) {
	program, err := constraint.Compile(text)
	if err != nil {
		return Formula{}, fmt.Errorf("cel: %w", err)
	}
	return Formula{Operator: Rule, Text: text, program: program}, nil
}

func decodeCompound(operator Operator, c *compoundConstraint, depth int) (Formula, error) {
	f := Formula{Operator: operator}
	for i, raw := range c.Constraints {
		part, err := decodeConstraint(raw, depth+1)
		if err != nil {
			return Formula{}, fmt.Errorf("constraint %d: %w", i, err)
		}
		f.Parts = append(f.Parts, part)
	}

	if len(f.Parts) == 0 {
		return Formula{}, errors.New("all, any and not need at least one constraint")
	}
	return f, nil
}

// TruncateText returns a rule or a range, shortened for a message.
func TruncateText(text string) string { return excerpt.Start(text, maxQuotedBytes) }
