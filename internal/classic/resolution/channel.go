package resolution

import (
	"fmt"
	"slices"
	"strings"
)

// channel is the entries of a channel that are options.
type channel struct {
	name    string
	entries []*Entry
	// err says why the entries have no order. Then there are none.
	err error
}

// order sorts the entries of a package into its channels: the default channel first, the others by
// name.
func order(pkg string, entries []*Entry) []*channel {
	byName := map[string][]*Entry{}
	var names []string
	for _, e := range entries {
		if byName[e.Channel] == nil {
			names = append(names, e.Channel)
		}
		byName[e.Channel] = append(byName[e.Channel], e)
	}

	slices.SortFunc(names, func(a, b string) int { return byPlace(byName[a][0], byName[b][0]) })
	channels := make([]*channel, 0, len(names))
	for _, name := range names {
		c := &channel{name: name}
		c.entries, c.err = chain(pkg, name, byName[name])
		channels = append(channels, c)
	}

	return channels
}

// chain returns the entries of a channel from its head on along what each replaces. Entries that others
// skip are passed through, and entries beside the chain are left out.
func chain(pkg, channel string, entries []*Entry) ([]*Entry, error) {
	byName := map[string]*Entry{}
	for _, e := range entries {
		if byName[e.Name] == nil {
			byName[e.Name] = e
		}
	}

	replaced, skipped := map[string]bool{}, map[string]bool{}
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

	var chains [][]*Entry
	for _, e := range entries {
		if replaced[e.Name] || byName[e.Name] != e {
			continue
		}
		one, isCycle := follow(e, byName, skipped)
		if isCycle {
			return nil, fmt.Errorf("a cycle exists in the chain of replacement beginning with %q in channel %q of package %q", e.Name, channel, pkg)
		}
		chains = append(chains, one)
	}

	switch len(chains) {
	case 0:
		return nil, fmt.Errorf("no channel heads (entries not replaced by another entry) found in channel %q of package %q", channel, pkg)
	case 1:
		return chains[0], nil
	}

	words := make([]string, len(chains))
	for i, one := range chains {
		words[i] = one[0].Name
		if last := len(one) - 1; last > 0 {
			words[i] += "..." + one[last].Name
		}
	}

	slices.Sort(words)
	return nil, fmt.Errorf("a unique replacement chain within a channel is required to determine the relative order between channel entries, "+
		"but %d replacement chains were found in channel %q of package %q: %s", len(chains), channel, pkg, strings.Join(words, ", "))
}

// follow returns the chain that begins with a head.
func follow(head *Entry, byName map[string]*Entry, skipped map[string]bool) (one []*Entry, isCycle bool) {
	seen := map[string]bool{}
	for e := head; e != nil; e = byName[e.Replaces] {
		if seen[e.Name] {
			return nil, true
		}
		seen[e.Name] = true
		if !skipped[e.Name] {
			one = append(one, e)
		}
	}

	return one, false
}
