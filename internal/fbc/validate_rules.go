package fbc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// validate notes what is wrong with the package as a whole. What follows from a fault that
// was found before is not a fault again.
func (p *packageBuild) validate() {
	if p.DefaultChannel == "" && !p.unread {
		p.fault(leaf(p.At, "default channel must be set"))
	}
	if len(p.Channels) == 0 && !p.unsure {
		p.fault(leaf(p.At, "package must contain at least one channel"))
	}

	for _, channel := range p.Channels {
		p.fault(about("channel", channel.Name, p.channelFaults(channel)))
	}

	p.fault(p.duplicateVersions())
	p.fault(p.silence(SchemaPackage, "")...)
}

// silence says that a thing is deprecated without a message.
func (p *packageBuild) silence(schema, name string) []*TreeError {
	if at, ok := p.silent[DeprecationReference{Schema: schema, Name: name}]; ok {
		return []*TreeError{leaf(at, "invalid deprecation: message must be set")}
	}
	return nil
}

// channelFaults says what is wrong with a channel.
func (p *packageBuild) channelFaults(channel *ModelChannel) []*TreeError {
	var faults []*TreeError
	switch {
	case p.tangled[channel]:
	case len(channel.Entries) == 0:
		faults = append(faults, leaf(channel.At, "channel must contain at least one bundle"))
	default:
		if fault := channel.chainFault(p.heads[channel]); fault != "" {
			faults = append(faults, leaf(channel.At, "%s", fault))
		}
	}

	entries := make([]*ModelEntry, len(channel.Entries))
	for i := range channel.Entries {
		entries[i] = &channel.Entries[i]
	}

	slices.SortFunc(entries, func(a, b *ModelEntry) int { return strings.Compare(a.Name, b.Name) })
	for _, entry := range entries {
		if fault := about("bundle", entry.Name, p.entryFaults(channel, entry)); fault != nil {
			faults = append(faults, fault)
		}
	}

	return append(faults, p.silence(SchemaChannel, channel.Name)...)
}

// entryFaults says what is wrong with a bundle in a channel.
func (p *packageBuild) entryFaults(channel *ModelChannel, entry *ModelEntry) []*TreeError {
	var faults []*TreeError
	add := func(at Place, format string, args ...any) { faults = append(faults, leaf(at, format, args...)) }
	b := p.bundles[entry.Name]
	released := b != nil && b.versioned && b.Release != ""
	if entry.Name == "" {
		add(channel.At, "name must be set")
	}
	if released && b.Name != b.normalizedName(p.Name) {
		add(b.At, "name %q does not match normalized name %q", b.Name, b.normalizedName(p.Name))
	}

	for i, skip := range entry.Skips {
		if skip == "" {
			add(channel.At, "skip[%d] is empty", i)
		}
	}

	if err := p.ranges[entry.SkipRange]; err != nil {
		add(channel.At, "invalid skipRange %q: %v", entry.SkipRange, err)
	}
	if b != nil && b.Image == "" && !b.hasObjects {
		add(b.At, "bundle image must be set")
	}

	faults = append(faults, p.silence(SchemaBundle, entry.Name)...)
	if released && len(b.Version.Build) > 0 {
		add(b.At, "cannot use build metadata in version with a release version")
	}

	return faults
}

// duplicateVersions makes a fault of the versions that several bundles have.
func (p *packageBuild) duplicateVersions() *TreeError {
	bundles := map[string][]*ModelBundle{}
	var keys []string
	for _, b := range p.Bundles {
		if p.placed[b.Name] && p.bundles[b.Name].versioned {
			key := b.VersionRelease().String()
			if bundles[key] == nil {
				keys = append(keys, key)
			}
			bundles[key] = append(bundles[key], b)
		}
	}

	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(bundles[a][0].VersionRelease().Compare(bundles[b][0].VersionRelease()), strings.Compare(a, b))
	})
	var duplicates []string
	var at Place
	for _, key := range keys {
		same := bundles[key]
		if len(same) < 2 {
			continue
		}

		var names []string
		for _, b := range same {
			names = append(names, b.Name)
		}

		slices.Sort(names)
		at = cmp.Or(at, same[1].At)
		duplicates = append(duplicates, fmt.Sprintf("{%s: [%s]}", key, strings.Join(names, ", ")))
	}

	if len(duplicates) == 0 {
		return nil
	}

	return leaf(at, "duplicate versions found in bundles: [%s]", strings.Join(duplicates, " "))
}

// heads are the entries that no entry replaces or skips. skipRanges do not count.
func (c *ModelChannel) heads() []*ModelEntry {
	followed := map[string]bool{}
	for i := range c.Entries {
		entry := &c.Entries[i]
		if entry.Replaces != "" {
			followed[entry.Replaces] = true
		}
		for _, skip := range entry.Skips {
			followed[skip] = true
		}
	}

	var heads []*ModelEntry
	for i := range c.Entries {
		if entry := &c.Entries[i]; !followed[entry.Name] {
			heads = append(heads, entry)
		}
	}

	return heads
}

// chainFault says what keeps a channel from being one way of updates to one head: every
// entry has to be the head, or replaced in a line from it, or skipped. It is empty if
// nothing does.
func (c *ModelChannel) chainFault(heads []*ModelEntry) string {
	switch {
	case len(heads) == 0:
		return "no channel head found in graph"
	case len(heads) > 1:
		return "multiple channel heads found in graph: " + strings.Join(entryNames(heads), ", ")
	}

	entries := make(map[string]*ModelEntry, len(c.Entries))
	skipped := map[string]bool{}
	for i := range c.Entries {
		entry := &c.Entries[i]
		entries[entry.Name] = entry
		for _, skip := range entry.Skips {
			skipped[skip] = true
		}
	}

	line := []string{heads[0].Name}
	place := map[string]int{heads[0].Name: 0}
	for at := heads[0]; at != nil && at.Replaces != "" && !skipped[at.Replaces]; at = entries[at.Replaces] {
		if first, seen := place[at.Replaces]; seen {
			return "detected cycle in replaces chain of upgrade graph: " + strings.Join(append(line[first:], at.Replaces), " -> ")
		}
		place[at.Replaces] = len(line)
		line = append(line, at.Replaces)
	}

	maps.DeleteFunc(entries, func(name string, _ *ModelEntry) bool {
		_, reached := place[name]
		return reached || skipped[name]
	})
	if len(entries) == 0 {
		return ""
	}

	return "channel contains one or more stranded bundles: " + strings.Join(slices.Sorted(maps.Keys(entries)), ", ")
}

// entryNames are the names of entries, sorted.
func entryNames(entries []*ModelEntry) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	slices.Sort(names)
	return names
}
