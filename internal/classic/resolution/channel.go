package resolution

import (
	"fmt"
	"slices"
	"strings"
)

// channel is a channel with the entries that can be installed from it.
type channel struct {
	name    string
	entries []*Entry
	// orderErr is set if the entries have no unique order. There are no entries then.
	orderErr error
}

// buildChannels sorts the entries of a package into its channels: the default channel first,
// the others by name.
func buildChannels(pkg string, entries []*Entry) []*channel {
	byName := map[string][]*Entry{}
	var names []string
	for _, e := range entries {
		if byName[e.Channel] == nil {
			names = append(names, e.Channel)
		}
		byName[e.Channel] = append(byName[e.Channel], e)
	}

	slices.SortFunc(names, func(a, b string) int { return compareByChannel(byName[a][0], byName[b][0]) })
	channels := make([]*channel, 0, len(names))
	for _, name := range names {
		c := &channel{name: name}
		c.entries, c.orderErr = buildReplacementChain(pkg, name, byName[name])
		channels = append(channels, c)
	}

	return channels
}

// buildReplacementChain returns the entries of a channel in order of replacement, starting at
// the head. Entries that others skip are left out, and so are entries outside the chain.
func buildReplacementChain(pkg, channel string, entries []*Entry) ([]*Entry, error) {
	byName := map[string]*Entry{}
	for _, e := range entries {
		if byName[e.Name] == nil {
			byName[e.Name] = e
		}
	}

	replaced, skipped := findReplaced(entries)
	var chains [][]*Entry
	for _, e := range entries {
		if replaced[e.Name] || byName[e.Name] != e {
			continue
		}
		chain, isCycle := followReplacements(e, byName, skipped)
		if isCycle {
			return nil, fmt.Errorf("a cycle exists in the chain of replacement beginning with %q in channel %q of package %q", e.Name, channel, pkg)
		}
		chains = append(chains, chain)
	}

	switch len(chains) {
	case 0:
		return nil, fmt.Errorf("no channel heads (entries not replaced by another entry) found in channel %q of package %q", channel, pkg)
	case 1:
		return chains[0], nil
	}

	descriptions := make([]string, len(chains))
	for i, chain := range chains {
		descriptions[i] = chain[0].Name
		if last := len(chain) - 1; last > 0 {
			descriptions[i] += "..." + chain[last].Name
		}
	}

	slices.Sort(descriptions)
	return nil, fmt.Errorf("a unique replacement chain within a channel is required to determine the relative order between channel entries, "+
		"but %d replacement chains were found in channel %q of package %q: %s", len(chains), channel, pkg, strings.Join(descriptions, ", "))
}

// findReplaced returns the names that other entries replace or skip, and those that they skip.
func findReplaced(entries []*Entry) (replaced, skipped map[string]bool) {
	replaced, skipped = map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if e.Replaces != e.Name {
			replaced[e.Replaces] = true
		}
		for _, name := range e.Skips {
			if name != e.Name {
				replaced[name], skipped[name] = true, true
			}
		}
	}
	return replaced, skipped
}

// followReplacements returns the chain of replacements that starts at a head. It reports
// whether the chain has a cycle. Entries that others skip are left out.
func followReplacements(head *Entry, byName map[string]*Entry, skipped map[string]bool) (chain []*Entry, isCycle bool) {
	seen := map[string]bool{}
	for e := head; e != nil; e = byName[e.Replaces] {
		if seen[e.Name] {
			return nil, true
		}
		seen[e.Name] = true
		if !skipped[e.Name] {
			chain = append(chain, e)
		}
	}

	return chain, false
}
