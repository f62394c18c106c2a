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

// requirement is one thing that a bundle needs another to be. Every part of it is met by the same
// bundle.
type requirement struct {
	// key is the same for requirements that say the same.
	key string
	// text says what is needed, in words that follow "requires an operator".
	text string
	// api is the API that is needed, when that is all.
	api *schema.GroupVersionKind
	// pkg is the package that is needed, when what else is needed is a version of it.
	pkg string

	metBy func(*Bundle) bool
}

func isRequirement(propertyType string) bool {
	return dependency.IsRequirement(propertyType) || propertyType == propertyLabelRequired
}

func parseRequirement(p fbc.Property) (*requirement, error) {
	r := &requirement{key: p.Type + "\x00" + string(p.Value)}
	if p.Type == propertyLabelRequired {
		return r, r.parseLabel(p.Value)
	}

	parsed, err := dependency.Parse([]fbc.Property{p})
	if err != nil {
		return nil, err
	}

	r.metBy = func(b *Bundle) bool { return parsed[0].MetBy(b.facts) }
	text, err := r.describe(p.Type, p.Value)
	if err != nil {
		return nil, fmt.Errorf("property %q: %w", p.Type, err)
	}

	r.text = text
	return r, nil
}

func (r *requirement) parseLabel(raw json.RawMessage) error {
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
	r.metBy = func(b *Bundle) bool { return b.hasLabel(value.Label) }
	return nil
}

// described is what the text of a requirement is made of. Whether it is right was found out before.
type described struct {
	FailureMessage string              `json:"failureMessage"`
	GVK            *bundle.GVKProperty `json:"gvk"`
	Package        json.RawMessage     `json:"package"`
	CEL            *struct {
		Rule string `json:"rule"`
	} `json:"cel"`
	All *parts `json:"all"`
	Any *parts `json:"any"`
	Not *parts `json:"not"`
}

type parts struct {
	Constraints []described `json:"constraints"`
}

// describe returns the text, and notes what a catalog can be searched by.
func (r *requirement) describe(propertyType string, raw json.RawMessage) (string, error) {
	switch propertyType {
	case fbc.PropertyGVKRequired:
		var gvk bundle.GVKProperty
		if err := json.Unmarshal(raw, &gvk); err != nil {
			return "", err
		}
		r.api = kindOf(&gvk)
		return gvkText(&gvk), nil
	case fbc.PropertyPackageRequired:
		text, name, err := packageText(raw)
		r.pkg = name
		return text, err
	}

	var d described
	if err := json.Unmarshal(raw, &d); err != nil {
		return "", err
	}
	if d.GVK != nil {
		r.api = kindOf(d.GVK)
	}

	if len(d.Package) > 0 {
		_, name, err := packageText(d.Package)
		if err != nil {
			return "", err
		}
		r.pkg = name
	}

	return d.text()
}

func kindOf(gvk *bundle.GVKProperty) *schema.GroupVersionKind {
	return &schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

func gvkText(gvk *bundle.GVKProperty) string {
	return fmt.Sprintf("providing an API with group: %s, version: %s, kind: %s", gvk.Group, gvk.Version, gvk.Kind)
}

func packageText(raw json.RawMessage) (text, name string, err error) {
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

func (d *described) text() (string, error) {
	text, err := d.bareText()
	if err == nil && d.FailureMessage != "" && d.CEL == nil {
		text += fmt.Sprintf(" and message: %q", d.FailureMessage)
	}
	return text, err
}

func (d *described) bareText() (string, error) {
	switch {
	case d.GVK != nil:
		return gvkText(d.GVK), nil
	case len(d.Package) > 0:
		text, _, err := packageText(d.Package)
		return text, err
	case d.CEL != nil:
		return fmt.Sprintf("with constraint: %q and message: %q", d.CEL.Rule, d.FailureMessage), nil
	case d.All != nil:
		return d.All.text("all of: ")
	case d.Any != nil:
		return d.Any.text("any of: ")
	default:
		return d.Not.text("none of: ")
	}
}

func (p *parts) text(words string) (string, error) {
	texts := make([]string, len(p.Constraints))
	for i := range p.Constraints {
		var err error
		if texts[i], err = p.Constraints[i].text(); err != nil {
			return "", err
		}
	}

	return words + strings.Join(texts, "; "), nil
}
