package classic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// Package is a package of the catalog.
type Package struct {
	Name     string
	Default  string
	Channels []*Channel
	// Bundles are the bundles, the oldest version first.
	Bundles []*Bundle
}

// Channel is a channel of a package.
type Channel struct {
	Name    string
	Entries []ChannelEntry
}

// ChannelEntry is a bundle in a channel with its upgrade edges.
type ChannelEntry struct {
	Name, Replaces, SkipRange string
	Skips                     []string
}

// Bundle is a bundle of a package.
type Bundle struct {
	// Name is the name of its ClusterServiceVersion.
	Name    string
	Version *semver.Version
	// InstallModes are the supported install modes.
	InstallModes []v1alpha1.InstallModeType
	// Provides and Requires are the APIs that it owns and depends on.
	Provides, Requires []API
}

// API is a kind of a group.
type API struct{ Group, Version, Kind string }

// readPackages returns the packages of a file-based catalog in JSON, sorted by name.
func readPackages(r io.Reader) ([]*Package, error) {
	packages := map[string]*Package{}
	ensure := func(name string) *Package {
		if packages[name] == nil {
			packages[name] = &Package{Name: name}
		}
		return packages[name]
	}

	for decoder := json.NewDecoder(r); ; {
		var blob catalogBlob
		if err := decoder.Decode(&blob); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}

		switch blob.Schema {
		case "olm.package":
			ensure(blob.Name).Default = blob.DefaultChannel
		case "olm.channel":
			p := ensure(blob.Package)
			p.Channels = append(p.Channels, &Channel{Name: blob.Name, Entries: blob.Entries})
		case "olm.bundle":
			b, err := blob.readBundle()
			if err != nil {
				return nil, err
			}
			p := ensure(blob.Package)
			p.Bundles = append(p.Bundles, b)
		}
	}

	var sorted []*Package
	for _, p := range packages {
		slices.SortFunc(p.Bundles, func(a, b *Bundle) int { return a.Version.Compare(b.Version) })
		sorted = append(sorted, p)
	}
	slices.SortFunc(sorted, func(a, b *Package) int { return strings.Compare(a.Name, b.Name) })
	return sorted, nil
}

// catalogBlob has the fields of all schemas.
type catalogBlob struct {
	Schema, Name, Package, DefaultChannel string

	Entries    []ChannelEntry
	Properties []struct {
		Type  string
		Value json.RawMessage
	}
}

// readBundle returns the bundle of a blob of schema olm.bundle.
func (blob *catalogBlob) readBundle() (*Bundle, error) {
	b := &Bundle{Name: blob.Name}
	for _, property := range blob.Properties {
		var value struct {
			API
			InstallModes []v1alpha1.InstallMode
		}
		if err := json.Unmarshal(property.Value, &value); err != nil {
			continue // Other properties are not objects.
		}

		switch property.Type {
		case "olm.package":
			version, err := semver.NewVersion(value.Version)
			if err != nil {
				return nil, fmt.Errorf("the version of bundle %s: %w", blob.Name, err)
			}
			b.Version = version
		case "olm.gvk":
			b.Provides = append(b.Provides, value.API)
		case "olm.gvk.required":
			b.Requires = append(b.Requires, value.API)
		case "olm.csv.metadata":
			for _, mode := range value.InstallModes {
				if mode.Supported {
					b.InstallModes = append(b.InstallModes, mode.Type)
				}
			}
		}
	}

	if b.Version == nil {
		return nil, fmt.Errorf("bundle %s has no version", blob.Name)
	}
	return b, nil
}

// Bundle returns the bundle with a name, or nil.
func (p *Package) Bundle(name string) *Bundle {
	for _, b := range p.Bundles {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// ChannelOf returns a channel with a bundle: the default channel if that has it, or nil.
func (p *Package) ChannelOf(bundle string) *Channel {
	var found *Channel
	for _, channel := range p.Channels {
		if channel.findEntry(bundle) != nil && (found == nil || channel.Name == p.Default) {
			found = channel
		}
	}
	return found
}

// HasDependencies reports whether a bundle depends on APIs of other packages.
func (p *Package) HasDependencies() bool {
	return slices.ContainsFunc(p.Bundles, func(b *Bundle) bool { return len(b.Requires) > 0 })
}

// apiGroups returns the groups of the APIs that the bundles provide and require.
func (p *Package) apiGroups() map[string]bool {
	groups := map[string]bool{}
	for _, b := range p.Bundles {
		for _, api := range slices.Concat(b.Provides, b.Requires) {
			groups[api.Group] = true
		}
	}
	return groups
}

func (c *Channel) findEntry(name string) *ChannelEntry {
	at := slices.IndexFunc(c.Entries, func(e ChannelEntry) bool { return e.Name == name })
	if at < 0 {
		return nil
	}
	return &c.Entries[at]
}

// Chain returns the names of the bundles from the oldest to the head of the channel, along the
// bundles that they replace. It returns nil if the channel has no head.
func (c *Channel) Chain() []string {
	replaced := map[string]bool{}
	for _, e := range c.Entries {
		replaced[e.Replaces] = true
		for _, skipped := range e.Skips {
			replaced[skipped] = true
		}
	}

	var chain []string
	for _, e := range c.Entries {
		if !replaced[e.Name] {
			chain = append(chain, e.Name)
			break
		}
	}

	for len(chain) > 0 && len(chain) < len(c.Entries) {
		oldest := c.findEntry(chain[len(chain)-1])
		if c.findEntry(oldest.Replaces) == nil {
			break
		}
		chain = append(chain, oldest.Replaces)
	}

	slices.Reverse(chain)
	return chain
}

// HasEdge reports whether a channel of the package has an upgrade edge between two bundles.
func (p *Package) HasEdge(channel *Channel, from, to string) bool {
	entry, installed := channel.findEntry(to), p.Bundle(from)
	switch {
	case entry == nil:
		return false
	case entry.Replaces == from || slices.Contains(entry.Skips, from):
		return true
	case entry.SkipRange == "" || installed == nil:
		return false
	}

	skipped, err := semver.NewConstraint(entry.SkipRange)
	return err == nil && skipped.Check(installed.Version)
}

// WatchNamespaces returns the namespaces that an operator in a namespace watches in an install mode;
// none means all namespaces.
func WatchNamespaces(mode v1alpha1.InstallModeType, namespace string) []string {
	switch mode {
	case v1alpha1.InstallModeTypeOwnNamespace:
		return []string{namespace}
	case v1alpha1.InstallModeTypeSingleNamespace:
		return []string{namespace + "-watched"}
	case v1alpha1.InstallModeTypeMultiNamespace:
		return []string{namespace + "-watched", namespace + "-watched-too"}
	default:
		return nil
	}
}
