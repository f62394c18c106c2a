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
)

// Composition is a catalog made from bundles.
type Composition struct {
	// Packages, by name.
	Packages []fbc.Package
	// Channels, by package and name; their entries by version, lowest first.
	Channels []fbc.Channel
	// Bundles, by package and version.
	Bundles []fbc.Bundle
	// Warnings say what was filled in or changed so that the catalog is valid, and for
	// whom.
	Warnings []string
}

// member is a bundle of a catalog to be, and its blob.
type member struct {
	bundle *bundle.Bundle
	blob   fbc.Bundle
}

func (m member) name() string { return m.bundle.Name() }

// compose makes a catalog of the bundles. Each package gets the channels that its
// bundles name, with the edges that their CSVs state; an edge to a bundle that is not
// among them is kept as it is. A channel with several heads, which catalogs may not have,
// is linked in the order of versions, with a warning about those that were dead ends.
//
// Two bundles of one name or version in a package, and a bundle without a channel, are
// errors.
func compose(members []member) (*Composition, error) {
	packages := map[string][]member{}
	for _, m := range members {
		packages[m.bundle.Package] = append(packages[m.bundle.Package], m)
	}

	c := &Composition{}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if err := c.add(name, packages[name]); err != nil {
			return nil, fmt.Errorf("package %q: %w", name, err)
		}
	}

	return c, nil
}

// add adds one package.
func (c *Composition) add(name string, members []member) error {
	slices.SortStableFunc(members, byVersion)
	if err := checkUnique(members); err != nil {
		return err
	}

	channels := map[string][]member{}
	for _, m := range members {
		names, err := channelsOf(m.bundle)
		if err != nil {
			return err
		}
		for _, channel := range names {
			channels[channel] = append(channels[channel], m)
		}
		c.Bundles = append(c.Bundles, m.blob)
	}

	c.Packages = append(c.Packages, c.pkg(name, members, channels))
	for _, channel := range slices.Sorted(maps.Keys(channels)) {
		entries, err := c.entries(name, channel, channels[channel])
		if err != nil {
			return fmt.Errorf("channel %q: %w", channel, err)
		}
		c.Channels = append(c.Channels, fbc.Channel{Schema: fbc.SchemaChannel, Package: name, Name: channel, Entries: entries})
	}

	return nil
}

// byVersion orders by version, and versions that differ only in their build metadata,
// which has no order of its own, by that and by name.
func byVersion(a, b member) int {
	return cmp.Or(
		a.bundle.Version.Compare(b.bundle.Version),
		slices.Compare(a.bundle.Version.Build, b.bundle.Version.Build),
		cmp.Compare(a.name(), b.name()),
	)
}

func checkUnique(members []member) error {
	names := map[string]semver.Version{}
	versions := map[string]string{}
	for _, m := range members {
		version := m.bundle.Version.String()
		if other, ok := names[m.name()]; ok {
			return fmt.Errorf("two bundles are named %q, versions %s and %s: a name is used once", m.name(), other, version)
		}
		if other, ok := versions[version]; ok {
			return fmt.Errorf("bundles %q and %q both have version %s: a version is used once", other, m.name(), version)
		}
		names[m.name()], versions[version] = m.bundle.Version, m.name()
	}

	return nil
}

// channelsOf returns the channels of a bundle, each once: those that it names, and else
// its default channel.
func channelsOf(b *bundle.Bundle) ([]string, error) {
	names := slices.Compact(slices.Sorted(slices.Values(b.Channels)))
	if len(names) > 0 {
		return names, nil
	}
	if b.DefaultChannel != "" {
		return []string{b.DefaultChannel}, nil
	}
	return nil, fmt.Errorf("bundle %q is in no channel: set the annotation %s in its metadata/annotations.yaml", b.Name(), bundle.KeyChannels)
}

// pkg makes the olm.package blob. Its members come lowest version first.
func (c *Composition) pkg(name string, members []member, channels map[string][]member) fbc.Package {
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
	// A single channel is nobody's choice to get wrong.
	if wanted != "" || len(channels) > 1 {
		said := "names no default channel"
		if wanted != "" {
			said = fmt.Sprintf("names %q as default channel, which no bundle is in", wanted)
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("package %s: its newest bundle %s %s; %q is taken", name, newest.Name(), said, p.DefaultChannel))
	}

	return p
}

// fallbackChannel returns the default channel of the newest bundle that names one that
// exists, and else the first channel of the newest bundle.
func fallbackChannel(members []member, channels map[string][]member) string {
	for _, m := range slices.Backward(members) {
		if _, ok := channels[m.bundle.DefaultChannel]; ok {
			return m.bundle.DefaultChannel
		}
	}
	names, _ := channelsOf(members[len(members)-1].bundle) // every member has a channel
	return names[0]
}

// entries makes the entries of a channel. Its members come lowest version first.
func (c *Composition) entries(pkg, channel string, members []member) ([]fbc.ChannelEntry, error) {
	entries := make([]fbc.ChannelEntry, 0, len(members))
	for _, m := range members {
		entry := m.bundle.ChannelEntry()
		entry.Skips = slices.DeleteFunc(slices.Clone(entry.Skips), func(skipped string) bool { return skipped == "" })
		if len(entry.Skips) == 0 {
			entry.Skips = nil
		}
		entries = append(entries, entry)
	}

	heads := linkHeads(entries)
	if len(heads) == 0 {
		return nil, errors.New("every bundle is an update of another: spec.replaces and spec.skips of their CSVs go round in a circle")
	}

	if dead := deadEnds(members, heads); len(dead) > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf(
			"package %s, channel %s: no bundle says that it is an update of %s; they are linked in the order of versions, set spec.replaces in the CSVs to say otherwise",
			pkg, channel, strings.Join(dead, ", ")))
	}

	return entries, nil
}

// deadEnds returns the heads but the last from which, for all that the CSVs say, no update
// leads on: not by a range of versions either.
func deadEnds(members []member, heads []string) []string {
	var dead []string
	for _, m := range members {
		at := slices.Index(heads, m.name())
		if at < 0 || at == len(heads)-1 {
			continue
		}
		covered := slices.ContainsFunc(members, func(other member) bool {
			in, err := semver.ParseRange(other.bundle.ChannelEntry().SkipRange)
			return err == nil && other.name() != m.name() && in(m.bundle.Version)
		})
		if !covered {
			dead = append(dead, m.name())
		}
	}

	return dead
}

// linkHeads returns every head but the highest version a successor: the next higher
// entry that it is not itself an update of. That entry replaces it where it replaces
// nothing yet, and skips it otherwise. It gives the names of the heads that there were,
// lowest version first; one or none means that nothing was changed.
//
// An edge is only made to an entry from which the head cannot be reached, so that no
// circle comes about.
func linkHeads(entries []fbc.ChannelEntry) []string {
	heads := headsOf(entries)
	names := make([]string, 0, len(heads))
	for _, i := range heads {
		names = append(names, entries[i].Name)
	}

	if len(heads) < 2 {
		return names
	}

	for _, head := range heads[:len(heads)-1] {
		for next := head + 1; next < len(entries); next++ {
			if leadsTo(entries, head, next) {
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

// headsOf returns the entries that no other entry replaces or skips.
func headsOf(entries []fbc.ChannelEntry) []int {
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

// leadsTo reports whether an entry is, over any number of edges, an update of another.
func leadsTo(entries []fbc.ChannelEntry, from, to int) bool {
	seen := make([]bool, len(entries))
	open := []int{from}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if at == to {
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

// maxTag is how long a tag may be, by the rules of OCI distribution.
const maxTag = 128

// versionTag makes a tag of a version: 1.2.3+build4 becomes v1.2.3_build4, as a tag may
// not hold a plus. A version without build metadata that is short enough keeps its text.
func versionTag(version semver.Version) (string, error) {
	tag := "v" + strings.ReplaceAll(version.String(), "+", "_")
	if len(tag) > maxTag {
		return "", fmt.Errorf("version %s is longer than the %d characters of a tag: shorten it", version, maxTag-1)
	}
	return tag, nil
}
