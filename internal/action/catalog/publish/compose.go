package publish

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/versionrange"
)

// Composition is a catalog that is composed from bundles.
type Composition struct {
	// Packages are sorted by name.
	Packages []fbc.Package
	// Channels are sorted by package and name. Their entries are sorted by version, the
	// lowest first.
	Channels []fbc.Channel
	// Bundles are sorted by package and version.
	Bundles []fbc.Bundle
	// Warnings describe what was added or changed to make the catalog valid.
	Warnings []string
}

// catalogMember is a bundle of the catalog and its blob.
type catalogMember struct {
	bundle *bundle.Bundle
	blob   fbc.Bundle
}

func (m catalogMember) bundleName() string { return m.bundle.Name() }

// composeCatalog composes a catalog from bundles. Each package gets the channels that its
// bundles name, with the upgrade edges that their CSVs state. Edges to other bundles are
// kept. A channel with several heads, which is not valid, is linked in version order. A
// warning names the heads that had no successor.
//
// It returns an error if two bundles of a package have the same name or version, or if a
// bundle has no channel.
func composeCatalog(members []catalogMember) (*Composition, error) {
	packages := map[string][]catalogMember{}
	for _, m := range members {
		packages[m.bundle.Package] = append(packages[m.bundle.Package], m)
	}

	c := &Composition{}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if err := c.addPackage(name, packages[name]); err != nil {
			return nil, fmt.Errorf("package %q: %w", name, err)
		}
	}

	return c, nil
}

// addPackage adds a package with its channels and bundles.
func (c *Composition) addPackage(name string, members []catalogMember) error {
	slices.SortStableFunc(members, compareMemberVersions)
	if err := requireUniqueMembers(members); err != nil {
		return err
	}

	channels := map[string][]catalogMember{}
	for _, m := range members {
		names, err := memberChannels(m.bundle)
		if err != nil {
			return err
		}
		for _, channel := range names {
			channels[channel] = append(channels[channel], m)
		}
		c.Bundles = append(c.Bundles, m.blob)
	}

	c.Packages = append(c.Packages, c.newPackageBlob(name, members, channels))
	for _, channel := range slices.Sorted(maps.Keys(channels)) {
		entries, err := c.newChannelEntries(name, channel, channels[channel])
		if err != nil {
			return fmt.Errorf("channel %q: %w", channel, err)
		}
		c.Channels = append(c.Channels, fbc.Channel{Schema: fbc.SchemaChannel, Package: name, Name: channel, Entries: entries})
	}

	return nil
}

// compareMemberVersions compares by version. Versions that differ only in their build
// metadata, which has no precedence, are compared by build metadata and then by bundle
// name.
func compareMemberVersions(a, b catalogMember) int {
	return cmp.Or(
		a.bundle.Version.Compare(b.bundle.Version),
		slices.Compare(a.bundle.Version.Build, b.bundle.Version.Build),
		cmp.Compare(a.bundleName(), b.bundleName()),
	)
}

// requireUniqueMembers returns an error if two bundles have the same name or version.
func requireUniqueMembers(members []catalogMember) error {
	names := map[string]semver.Version{}
	versions := map[string]string{}
	for _, m := range members {
		version := m.bundle.Version.String()
		if other, ok := names[m.bundleName()]; ok {
			return fmt.Errorf("two bundles are named %q, versions %s and %s: a name is used once", m.bundleName(), other, version)
		}
		if other, ok := versions[version]; ok {
			return fmt.Errorf("bundles %q and %q both have version %s: a version is used once", other, m.bundleName(), version)
		}
		names[m.bundleName()], versions[version] = m.bundle.Version, m.bundleName()
	}

	return nil
}

// memberChannels returns the sorted channels of a bundle. A bundle without channels is in
// its default channel.
func memberChannels(b *bundle.Bundle) ([]string, error) {
	names := slices.Compact(slices.Sorted(slices.Values(b.Channels)))
	if len(names) > 0 {
		return names, nil
	}
	if b.DefaultChannel != "" {
		return []string{b.DefaultChannel}, nil
	}
	return nil, fmt.Errorf("bundle %q is in no channel: set the annotation %s in its metadata/annotations.yaml", b.Name(), bundle.KeyChannels)
}

// newPackageBlob returns the olm.package blob. The members must be sorted by version.
func (c *Composition) newPackageBlob(name string, members []catalogMember, channels map[string][]catalogMember) fbc.Package {
	newest := members[len(members)-1].bundle
	p := fbc.Package{
		Schema:         fbc.SchemaPackage,
		Name:           name,
		DefaultChannel: newest.DefaultChannel,
		Description:    newest.CSV.Spec.Description,
	}

	if len(newest.CSV.Spec.Icon) > 0 {
		icon := newest.CSV.Spec.Icon[0]
		if data, err := decodeIcon(icon.Data); err != nil {
			c.Warnings = append(c.Warnings, fmt.Sprintf("package %s: the icon of %s is left out: %v", name, newest.Name(), err))
		} else {
			p.Icon = &fbc.Icon{Data: data, MediaType: icon.MediaType}
		}
	}

	if _, ok := channels[p.DefaultChannel]; ok {
		return p
	}

	wanted := p.DefaultChannel
	p.DefaultChannel = fallbackChannel(members, channels)
	// A single channel needs no explicit choice.
	if wanted != "" || len(channels) > 1 {
		problem := "names no default channel"
		if wanted != "" {
			problem = fmt.Sprintf("names %q as default channel, which no bundle is in", wanted)
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("package %s: its newest bundle %s %s; %q is used", name, newest.Name(), problem, p.DefaultChannel))
	}

	return p
}

// fallbackChannel returns the default channel of the newest bundle whose default channel
// exists, and otherwise the first channel of the newest bundle.
func fallbackChannel(members []catalogMember, channels map[string][]catalogMember) string {
	for _, m := range slices.Backward(members) {
		if _, ok := channels[m.bundle.DefaultChannel]; ok {
			return m.bundle.DefaultChannel
		}
	}
	names, _ := memberChannels(members[len(members)-1].bundle) // every member has a channel
	return names[0]
}

// newChannelEntries returns the entries of a channel. The members must be sorted by
// version.
func (c *Composition) newChannelEntries(pkg, channel string, members []catalogMember) ([]fbc.ChannelEntry, error) {
	entries := make([]fbc.ChannelEntry, 0, len(members))
	for _, m := range members {
		entry := m.bundle.ChannelEntry()
		entry.Skips = slices.DeleteFunc(slices.Clone(entry.Skips), func(skipped string) bool { return skipped == "" })
		if len(entry.Skips) == 0 {
			entry.Skips = nil
		}
		entries = append(entries, entry)
	}

	heads := linkChannelHeads(entries)
	if len(heads) == 0 {
		return nil, errors.New("every bundle is replaced or skipped by another: spec.replaces and spec.skips of their CSVs form a cycle")
	}

	if dead := findDeadEnds(members, heads); len(dead) > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf(
			"package %s, channel %s: no bundle replaces or skips %s; they are linked in version order, set spec.replaces in the CSVs to change this",
			pkg, channel, strings.Join(dead, ", ")))
	}

	return entries, nil
}

// findDeadEnds returns the heads, except the last, from which no update is possible
// according to the CSVs. Updates by skipRange count too.
func findDeadEnds(members []catalogMember, heads []string) []string {
	var dead []string
	for _, m := range members {
		at := slices.Index(heads, m.bundleName())
		if at < 0 || at == len(heads)-1 {
			continue
		}
		covered := slices.ContainsFunc(members, func(other catalogMember) bool {
			in, err := versionrange.Parse(other.bundle.ChannelEntry().SkipRange)
			return err == nil && other.bundleName() != m.bundleName() && in(m.bundle.Version)
		})
		if !covered {
			dead = append(dead, m.bundleName())
		}
	}

	return dead
}

// linkChannelHeads adds a successor to every head except the one with the highest version:
// the next higher entry that the head is not an update of. The successor replaces the head
// if it replaces nothing yet, and skips it otherwise. The result are the names of the
// original heads, the lowest version first. One or none means that nothing was changed.
//
// This condition keeps the graph free of new cycles.
func linkChannelHeads(entries []fbc.ChannelEntry) []string {
	heads := findChannelHeads(entries)
	names := make([]string, 0, len(heads))
	for _, i := range heads {
		names = append(names, entries[i].Name)
	}

	if len(heads) < 2 {
		return names
	}

	for _, head := range heads[:len(heads)-1] {
		for next := head + 1; next < len(entries); next++ {
			if isTransitiveUpdate(entries, head, next) {
				continue
			}
			if entries[next].Replaces == "" {
				entries[next].Replaces = entries[head].Name
			} else {
				entries[next].Skips = append(entries[next].Skips, entries[head].Name)
			}
			break
		}
	}

	return names
}

// findChannelHeads returns the indexes of entries that no other entry replaces or skips.
func findChannelHeads(entries []fbc.ChannelEntry) []int {
	var heads []int
	for i, entry := range entries {
		updated := slices.ContainsFunc(entries, func(other fbc.ChannelEntry) bool {
			return other.Name != entry.Name && (other.Replaces == entry.Name || slices.Contains(other.Skips, entry.Name))
		})
		if !updated {
			heads = append(heads, i)
		}
	}

	return heads
}

// isTransitiveUpdate reports whether the entry newer is an update of the entry older,
// directly or over other entries.
func isTransitiveUpdate(entries []fbc.ChannelEntry, newer, older int) bool {
	seen := make([]bool, len(entries))
	open := []int{newer}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if at == older {
			return true
		}
		if seen[at] {
			continue
		}

		seen[at] = true
		for i, entry := range entries {
			if entries[at].Replaces == entry.Name || slices.Contains(entries[at].Skips, entry.Name) {
				open = append(open, i)
			}
		}
	}

	return false
}

// maxTagLength is the maximum length of a tag in the OCI distribution specification.
const maxTagLength = 128

// versionTag returns the tag for a version. A tag cannot contain a plus sign: 1.2.3+build4
// becomes v1.2.3_build4.
func versionTag(version semver.Version) (string, error) {
	tag := "v" + strings.ReplaceAll(version.String(), "+", "_")
	if len(tag) > maxTagLength {
		return "", fmt.Errorf("version %s is longer than the %d characters of a tag: shorten it", version, maxTagLength-1)
	}
	return tag, nil
}
