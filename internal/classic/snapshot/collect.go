package snapshot

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve/requirement"
)

// entryCollector creates entries from bundles. It stores repeated strings and bundles only
// once.
type entryCollector struct {
	entries    []*resolution.Entry
	bundles    map[string]*resolution.Bundle // by package and name
	strings    map[string]string
	totalBytes int
}

// internString returns a shared copy of a string.
func (c *entryCollector) internString(text string) string {
	if known, ok := c.strings[text]; ok {
		return known
	}
	c.strings[text] = text
	c.totalBytes += len(text)
	return text
}

// packageNames returns the sorted names of packages that have bundles.
func (c *entryCollector) packageNames() []string {
	names := map[string]bool{}
	for _, e := range c.entries {
		names[e.Package] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// addBundle adds a bundle in a channel. Bundles with missing names or invalid properties are
// left out.
func (c *entryCollector) addBundle(b *registrypb.Bundle) {
	if b.GetCsvName() == "" || b.GetPackageName() == "" || b.GetChannelName() == "" {
		return
	}

	key := b.GetPackageName() + "/" + b.GetCsvName()
	shared := c.bundles[key]
	if shared == nil {
		properties, ok := c.parseProperties(b)
		if !ok {
			return
		}
		shared = &resolution.Bundle{
			Name: c.internString(b.GetCsvName()), Package: c.internString(b.GetPackageName()), Version: c.internString(b.GetVersion()), Image: c.internString(b.GetBundlePath()),
			Properties: properties, Deprecation: c.internString(b.GetDeprecation().GetMessage()),
		}
		c.bundles[key] = shared
	}

	e := &resolution.Entry{
		Bundle: shared, Channel: c.internString(b.GetChannelName()), Replaces: c.internString(b.GetReplaces()), SkipRange: c.internString(b.GetSkipRange()),
	}
	for _, name := range b.GetSkips() {
		e.Skips = append(e.Skips, c.internString(name))
	}

	c.entries = append(c.entries, e)
}

// parseProperties returns the properties of a bundle, with its requirements. A bundle without
// properties gets those of its APIs. It returns false if a property is invalid.
func (c *entryCollector) parseProperties(b *registrypb.Bundle) ([]fbc.Property, bool) {
	properties, ok := c.parseStatedProperties(b)
	if !ok {
		return nil, false
	}

	requirements, ok := parseRequirements(b)
	if !ok {
		return nil, false
	}
	if len(requirements) > 0 {
		properties = bundle.DistinctProperties(properties, requirements)
	}

	for _, p := range properties {
		c.totalBytes += len(p.Value)
	}

	return properties, true
}

func (c *entryCollector) parseStatedProperties(b *registrypb.Bundle) ([]fbc.Property, bool) {
	if len(b.GetProperties()) == 0 {
		properties, err := resolution.PropertiesFromAPIs(convertProtocolAPIs(b.GetProvidedApis()), nil)
		return properties, err == nil
	}

	var properties []fbc.Property
	for _, p := range b.GetProperties() {
		if !json.Valid([]byte(p.GetValue())) {
			return nil, false
		}
		properties = append(properties, fbc.Property{Type: c.internString(p.GetType()), Value: json.RawMessage(p.GetValue())})
	}

	return properties, true
}

// parseRequirements returns the properties of the dependencies of a bundle, or of its required
// APIs if it has no dependencies. Servers of SQLite catalogs do not repeat them as properties.
func parseRequirements(b *registrypb.Bundle) ([]fbc.Property, bool) {
	if len(b.GetDependencies()) == 0 {
		properties, err := resolution.PropertiesFromAPIs(nil, convertProtocolAPIs(b.GetRequiredApis()))
		return properties, err == nil
	}

	var properties []fbc.Property
	for _, d := range b.GetDependencies() {
		p, err := bundle.PropertyOfDependency(fbc.Property{Type: d.GetType(), Value: json.RawMessage(d.GetValue())})
		if err != nil || !json.Valid(p.Value) {
			return nil, false
		}
		if p.Type == requirement.PropertyLabel { // It has the name of what it requires.
			p.Type = requirement.PropertyLabelRequired
		}
		properties = append(properties, p)
	}

	return properties, true
}

// convertProtocolAPIs returns APIs of the protocol as a set.
func convertProtocolAPIs(all []*registrypb.GroupVersionKind) csvinfo.APIs {
	set := csvinfo.APIs{}
	for _, api := range all {
		set.Insert(schema.GroupVersionKind{Group: api.GetGroup(), Version: api.GetVersion(), Kind: api.GetKind()})
	}
	return set
}
