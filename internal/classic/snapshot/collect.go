package snapshot

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mainstay-dev/mainstay/internal/classic/csvinfo"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/classic/resolution"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// collector makes entries of bundles, and holds once what many of them say.
type collector struct {
	entries []*resolution.Entry
	bundles map[string]*resolution.Bundle // by package and name
	strings map[string]string
	bytes   int
}

func (c *collector) one(text string) string {
	if known, ok := c.strings[text]; ok {
		return known
	}
	c.strings[text] = text
	c.bytes += len(text)
	return text
}

// packages are the names of those that there are bundles of.
func (c *collector) packages() []string {
	names := map[string]bool{}
	for _, e := range c.entries {
		names[e.Package] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// add adds a bundle as it stands in a channel. One that says of itself what cannot be read is left out.
func (c *collector) add(b *registrypb.Bundle) {
	if b.GetCsvName() == "" || b.GetPackageName() == "" || b.GetChannelName() == "" {
		return
	}

	key := b.GetPackageName() + "/" + b.GetCsvName()
	shared := c.bundles[key]
	if shared == nil {
		properties, ok := c.properties(b)
		if !ok {
			return
		}
		shared = &resolution.Bundle{
			Name: c.one(b.GetCsvName()), Package: c.one(b.GetPackageName()), Version: c.one(b.GetVersion()), Image: c.one(b.GetBundlePath()),
			Properties: properties, Deprecation: c.one(b.GetDeprecation().GetMessage()),
		}
		c.bundles[key] = shared
	}

	e := &resolution.Entry{
		Bundle: shared, Channel: c.one(b.GetChannelName()), Replaces: c.one(b.GetReplaces()), SkipRange: c.one(b.GetSkipRange()),
	}
	for _, name := range b.GetSkips() {
		e.Skips = append(e.Skips, c.one(name))
	}

	c.entries = append(c.entries, e)
}

// properties returns those of a bundle, or what its APIs amount to when it has none.
func (c *collector) properties(b *registrypb.Bundle) ([]fbc.Property, bool) {
	if len(b.GetProperties()) == 0 {
		properties, err := resolution.FromAPIs(apis(b.GetProvidedApis()), apis(b.GetRequiredApis()))
		return properties, err == nil
	}

	var properties []fbc.Property
	for _, p := range b.GetProperties() {
		if !json.Valid([]byte(p.GetValue())) {
			return nil, false
		}
		properties = append(properties, fbc.Property{Type: c.one(p.GetType()), Value: json.RawMessage(p.GetValue())})
		c.bytes += len(p.GetValue())
	}

	return properties, true
}

func apis(all []*registrypb.GroupVersionKind) csvinfo.APIs {
	set := csvinfo.APIs{}
	for _, api := range all {
		set.Insert(schema.GroupVersionKind{Group: api.GetGroup(), Version: api.GetVersion(), Kind: api.GetKind()})
	}
	return set
}
