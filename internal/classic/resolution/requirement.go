package resolution

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/dependency"
)

// requirement is a requirement of a bundle for another bundle. One bundle must meet all parts
// of it.
type requirement struct {
	// key identifies the requirement. Equal requirements have equal keys.
	key string
	// text describes the requirement. It completes the sentence "requires an operator ...".
	text string
	// api is the required API, if the requirement consists of one API only.
	api *schema.GroupVersionKind
	// pkg is the required package, if the requirement restricts the package.
	pkg string

	isMetBy func(*Bundle) bool
}

// isRequirement reports whether a property of the type is a requirement.
func isRequirement(propertyType string) bool {
	return dependency.IsRequirement(propertyType) || propertyType == propertyLabelRequired
}

// parseRequirement returns the requirement of a property.
func parseRequirement(p fbc.Property) (*requirement, error) {
	r := &requirement{key: p.Type + "\x00" + string(p.Value)}
	if p.Type == propertyLabelRequired {
		return r, r.parseLabelProperty(p.Value)
	}

	parsed, err := dependency.Parse([]fbc.Property{p})
	if err != nil {
		return nil, err
	}

	r.isMetBy = func(b *Bundle) bool { return parsed[0].MetBy(b.facts) }
	text, err := r.describeProperty(p.Type, p.Value)
	if err != nil {
		return nil, fmt.Errorf("property %q: %w", p.Type, err)
	}

	r.text = text
	return r, nil
}

// parseLabelProperty sets the requirement of an olm.label.required property.
func (r *requirement) parseLabelProperty(raw json.RawMessage) error {
	var value struct {
		Label string `json:"label"`
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return fmt.Errorf("property %q: %w", propertyLabelRequired, err)
	}
	if value.Label == "" {
		return fmt.Errorf("property %q: %w", propertyLabelRequired, errors.New("label is not set"))
	}

	r.text = "with label: " + value.Label
	r.isMetBy = func(b *Bundle) bool { return b.hasLabel(value.Label) }
	return nil
}

// constraintDescription has the fields of a constraint that its text is made of. The constraint
// was validated before.
type constraintDescription struct {
	FailureMessage string              `json:"failureMessage"`
	GVK            *bundle.GVKProperty `json:"gvk"`
	Package        json.RawMessage     `json:"package"`
	CEL            *struct {
		Rule string `json:"rule"`
	} `json:"cel"`
	All *constraintList `json:"all"`
	Any *constraintList `json:"any"`
	Not *constraintList `json:"not"`
}

type constraintList struct {
	Constraints []constraintDescription `json:"constraints"`
}

// describeProperty returns the text of a requirement. It also sets api and pkg, by which a
// catalog is searched.
func (r *requirement) describeProperty(propertyType string, raw json.RawMessage) (string, error) {
	switch propertyType {
	case fbc.PropertyGVKRequired:
		var gvk bundle.GVKProperty
		if err := json.Unmarshal(raw, &gvk); err != nil {
			return "", err
		}
		r.api = newRequiredGVK(&gvk)
		return describeGVK(&gvk), nil
	case fbc.PropertyPackageRequired:
		text, name, err := describePackage(raw)
		r.pkg = name
		return text, err
	}

	var d constraintDescription
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", err
	}
	if d.GVK != nil {
		r.api = newRequiredGVK(d.GVK)
	}

	if len(d.Package) > 0 {
		_, name, err := describePackage(d.Package)
		if err != nil {
			return "", err
		}
		r.pkg = name
	}

	return d.formatDescription()
}

// newRequiredGVK converts the value of a GVK property.
func newRequiredGVK(gvk *bundle.GVKProperty) *schema.GroupVersionKind {
	return &schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

func describeGVK(gvk *bundle.GVKProperty) string {
	return fmt.Sprintf("providing an API with group: %s, version: %s, kind: %s", gvk.Group, gvk.Version, gvk.Kind)
}

// describePackage returns the text of a package requirement and the name of the package.
func describePackage(raw json.RawMessage) (text, name string, err error) {
	var value struct{ PackageName, Name, VersionRange string }
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", "", err
	}
	if value.PackageName == "" {
		value.PackageName = value.Name
	}

	text = "with package: " + value.PackageName
	if value.VersionRange != "" {
		text += " and with version in range: " + value.VersionRange
	}

	return text, value.PackageName, nil
}

// formatDescription returns the text of a constraint with its failure message.
func (d *constraintDescription) formatDescription() (string, error) {
	text, err := d.formatConstraint()
	if err == nil && d.FailureMessage != "" && d.CEL == nil {
		text += fmt.Sprintf(" and message: %q", d.FailureMessage)
	}
	return text, err
}

func (d *constraintDescription) formatConstraint() (string, error) {
	switch {
	case d.GVK != nil:
		return describeGVK(d.GVK), nil
	case len(d.Package) > 0:
		text, _, err := describePackage(d.Package)
		return text, err
	case d.CEL != nil:
		return fmt.Sprintf("with constraint: %q and message: %q", d.CEL.Rule, d.FailureMessage), nil
	case d.All != nil:
		return d.All.formatConstraints("all of: ")
	case d.Any != nil:
		return d.Any.formatConstraints("any of: ")
	default:
		return d.Not.formatConstraints("none of: ")
	}
}

func (p *constraintList) formatConstraints(words string) (string, error) {
	texts := make([]string, len(p.Constraints))
	for i := range p.Constraints {
		var err error
		if texts[i], err = p.Constraints[i].formatDescription(); err != nil {
			return "", err
		}
	}

	return words + strings.Join(texts, "; "), nil
}
