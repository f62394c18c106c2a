package fbc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// validatePackage checks the rules about the package as a whole. It does not report faults that
// only result from earlier faults.
func (p *packageBuilder) validatePackage() {
	if p.DefaultChannel == "" && !p.undecoded {
		p.addFaults(newFaultf(p.At, "default channel must be set"))
	}
	if len(p.Channels) == 0 && !p.channelsIncomplete {
		p.addFaults(newFaultf(p.At, "package must contain at least one channel"))
	}

	for _, channel := range p.Channels {
		p.addFaults(newParentFault("channel", channel.Name, p.findChannelFaults(channel)))
	}

	p.addFaults(p.findDuplicateVersions())
	p.addFaults(p.missingMessageFaults(SchemaPackage, "")...)
}

// missingMessageFaults returns a fault if the object is deprecated without a message.
func (p *packageBuilder) missingMessageFaults(schema, name string) []*TreeError {
	if at, ok := p.missingMessages[DeprecationReference{Schema: schema, Name: name}]; ok {
		return []*TreeError{newFaultf(at, "invalid deprecation: message must be set")}
	}
	return nil
}

func (p *packageBuilder) findChannelFaults(channel *ModelChannel) []*TreeError {
	var faults []*TreeError
	switch {
	case p.uncertainChannels[channel]:
	case len(channel.Entries) == 0:
		faults = append(faults, newFaultf(channel.At, "channel must contain at least one bundle"))
	default:
		if fault := channel.findChainFault(p.heads[channel]); fault != "" {
			faults = append(faults, newFaultf(channel.At, "%s", fault))
		}
	}

	entries := make([]*ModelEntry, len(channel.Entries))
	for i := range channel.Entries {
		entries[i] = &channel.Entries[i]
	}

	slices.SortFunc(entries, func(a, b *ModelEntry) int { return strings.Compare(a.Name, b.Name) })
	for _, entry := range entries {
		if fault := newParentFault("bundle", entry.Name, p.findEntryFaults(channel, entry)); fault != nil {
			faults = append(faults, fault)
		}
	}

	return append(faults, p.missingMessageFaults(SchemaChannel, channel.Name)...)
}

// findEntryFaults returns the faults of a bundle in a channel.
func (p *packageBuilder) findEntryFaults(channel *ModelChannel, entry *ModelEntry) []*TreeError {
	var faults []*TreeError
	add := func(at Place, format string, args ...any) { faults = append(faults, newFaultf(at, format, args...)) }
	b := p.bundles[entry.Name]
	released := b != nil && b.hasVersion && b.Release != ""
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

	if err := p.invalidRanges[entry.SkipRange]; err != nil {
		add(channel.At, "invalid skipRange %q: %v", entry.SkipRange, err)
	}
	if b != nil && b.Image == "" && !b.hasObjects {
		add(b.At, "bundle image must be set")
	}

	faults = append(faults, p.missingMessageFaults(SchemaBundle, entry.Name)...)
	if released && len(b.Version.Build) > 0 {
		add(b.At, "cannot use build metadata in version with a release version")
	}

	return faults
}

// findDuplicateVersions returns a fault with the versions that several bundles have, or nil.
func (p *packageBuilder) findDuplicateVersions() *TreeError {
	bundles := map[string][]*ModelBundle{}
	var keys []string
	for _, b := range p.Bundles {
		if p.entryNames[b.Name] && p.bundles[b.Name].hasVersion {
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

	return newFaultf(at, "duplicate versions found in bundles: [%s]", strings.Join(duplicates, " "))
}

// findHeadEntries returns the entries that no entry replaces or skips. It ignores skipRanges.
func (c *ModelChannel) findHeadEntries() []*ModelEntry {
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

// findChainFault returns the reason why a channel is not a single chain of updates to one head,
// or an empty string. Every entry must be the head, be replaced in a chain from the head, or be
// skipped.
func (c *ModelChannel) findChainFault(heads []*ModelEntry) string {
	switch {
	case len(heads) == 0:
		return "no channel head found in graph"
	case len(heads) > 1:
		return "multiple channel heads found in graph: " + strings.Join(sortedEntryNames(heads), ", ")
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

func sortedEntryNames(entries []*ModelEntry) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	slices.Sort(names)
	return names
}
