package requirement

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// Provider is a bundle that may meet requirements. It is safe for concurrent use.
type Provider struct {
	pkg        string
	version    semver.Version
	properties []fbc.Property
	apis       []schema.GroupVersionKind

	viewOnce sync.Once
	view     []any // the properties in the form that rules read
}

// NewProvider returns the provider for a bundle of a package with the given properties.
func NewProvider(pkg string, version semver.Version, properties []fbc.Property) *Provider {
	p := &Provider{pkg: pkg, version: version, properties: properties}
	for _, property := range properties {
		var value bundle.GVKProperty
		if property.Type != fbc.PropertyGVK || json.Unmarshal(property.Value, &value) != nil {
			continue
		}
		if gvk := (schema.GroupVersionKind{Group: value.Group, Version: value.Version, Kind: value.Kind}); !slices.Contains(p.apis, gvk) {
			p.apis = append(p.apis, gvk)
		}
	}

	return p
}

// APIs returns the APIs that the bundle provides, without duplicates.
func (p *Provider) APIs() []schema.GroupVersionKind { return p.apis }

// Provides reports whether the bundle provides an API.
func (p *Provider) Provides(gvk schema.GroupVersionKind) bool { return slices.Contains(p.apis, gvk) }

// Meets reports whether the bundle meets a leaf of a formula. A rule that fails is not met: a
// property may have another form than the rule expects, or its evaluation may cost too much.
func (p *Provider) Meets(leaf *Formula) bool {
	switch leaf.Operator {
	case API:
		return p.Provides(leaf.GVK)
	case Package:
		return p.pkg == leaf.Name && (leaf.includes == nil || leaf.includes(p.version))
	case Label:
		return p.hasLabel(leaf.Name)
	case Rule:
		result, _, err := leaf.program.Eval(map[string]any{"properties": p.ruleView()})
		return err == nil && result == types.True
	default:
		return false
	}
}

// hasLabel reports whether the bundle has a label.
func (p *Provider) hasLabel(label string) bool {
	return slices.ContainsFunc(p.properties, func(property fbc.Property) bool {
		var value labelValue
		return property.Type == PropertyLabel && json.Unmarshal(property.Value, &value) == nil && value.Label == label
	})
}

// ruleView returns the properties in the form that rules read. It is built on first use.
func (p *Provider) ruleView() []any {
	p.viewOnce.Do(func() {
		p.view = make([]any, 0, len(p.properties))
		for _, property := range p.properties {
			var value any
			if json.Unmarshal(property.Value, &value) == nil {
				p.view = append(p.view, map[string]any{"type": property.Type, "value": value})
			}
		}
	})
	return p.view
}
