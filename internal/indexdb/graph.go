package indexdb

import (
	"fmt"
	"maps"
	"slices"
)

// Pure: how the channels of a package are made of its bundles, and how they are laid down
// as rows. What stands in a database is read into these forms and written from them.

// member is a bundle of a package, as its channels need to know it.
type member struct {
	name, version, image string
	replaces             string
	skips                []string
	substitutesFor       string
	// deprecated members have nothing below them.
	deprecated bool
	// channels are those that the bundle is in, or is to be added to.
	channels []string
	// defaultChannel is the one that the bundle declares to be its package's default.
	defaultChannel string
	// added says that the bundle is not in the index yet.
	added bool
}

// edges are the updates of a channel that lead to a bundle.
type edges struct {
	replaces string
	skips    []string
}

// channelGraph is a channel as it stands in an index.
type channelGraph struct {
	head string
	// chain are the bundles from the head along what they replace.
	chain []string
	// edges of every bundle that the channel names, even if they are none.
	edges map[string]edges
}

// row is a row of the table channel_entry.
type row struct {
	bundle string
	// replaces is the place, in the list of rows, of the row that this one leads to, or none.
	replaces int
	depth    int
}

const none = -1

// plan is what a package is to become.
type plan struct {
	defaultChannel string
	// channels are the rows of each channel. The first is the channel's head.
	channels map[string][]row
	// rewritten are the members whose own edges are to be stored anew.
	rewritten []*member
}

// layDown makes the rows of a channel. From the head along what is replaced there is one
// row for each bundle. For each bundle that is skipped there are two more: one for itself,
// and one more for the bundle that skips it, which leads there.
//
// edgesOf gives the edges of a bundle, and false if there is no such bundle; layDown asks
// for those of the bundles on the way only.
func layDown(head string, edgesOf func(name string) (edges, bool)) ([]row, error) {
	rows := []row{{bundle: head, replaces: none}}
	seen := map[string]bool{head: true}
	current, depth := 0, 1
	for {
		name := rows[current].bundle
		next, found := edgesOf(name)
		if !found {
			return nil, fmt.Errorf("no bundle %q", name)
		}

		for _, skip := range next.skips {
			if skip == "" || skip == name {
				continue
			}
			rows = append(rows, row{bundle: skip, replaces: none, depth: depth}, row{bundle: name, replaces: len(rows), depth: depth})
			depth++
		}

		if next.replaces == "" {
			return rows, nil
		}
		if seen[next.replaces] {
			return nil, say("Cycle detected, %s replaces %s", name, next.replaces)
		}

		seen[next.replaces] = true
		if _, found := edgesOf(next.replaces); !found {
			return nil, say("Invalid bundle %s, replaces nonexistent bundle %s", name, next.replaces)
		}

		rows[current].replaces = len(rows)
		current = len(rows)
		rows = append(rows, row{bundle: next.replaces, replaces: none, depth: depth})
		depth++
	}
}

// entry is a row as it stands in a database, with the name that it leads to.
type entry struct {
	id     int64
	bundle string
	// to is the row that this one leads to, 0 if there is none; toBundle is its bundle.
	to       int64
	toBundle string
}

// readGraph makes a channel of its rows, which are sorted by depth. An edge of a row on the
// chain from the head is one of replacing; all other edges are skips. A bundle outside of
// the chain replaces what its first edge leads to.
func readGraph(head string, entries []entry) channelGraph {
	graph := channelGraph{head: head, edges: map[string]edges{}}
	byID := make(map[int64]int, len(entries))
	start := none
	for i, e := range entries {
		byID[e.id] = i
		graph.edges[e.bundle] = edges{}
		if start == none && e.bundle == head {
			start = i
		}
	}

	if start == none && len(entries) > 0 {
		start = 0
		graph.head = entries[0].bundle
	}

	onChain := map[string]bool{}
	used := map[int]bool{}
	for i := start; i != none; {
		e := entries[i]
		if onChain[e.bundle] {
			break // The rows of a strange hand may go in circles.
		}

		onChain[e.bundle] = true
		used[i] = true
		graph.chain = append(graph.chain, e.bundle)
		if e.toBundle != e.bundle {
			graph.edges[e.bundle] = edges{replaces: e.toBundle}
		}

		next, found := byID[e.to]
		if !found {
			break
		}

		i = next
	}

	known := map[[2]string]bool{}
	for name, e := range graph.edges {
		known[[2]string{name, e.replaces}] = true
	}

	for i, e := range entries {
		edge := [2]string{e.bundle, e.toBundle}
		if used[i] || e.toBundle == "" || e.toBundle == e.bundle || known[edge] {
			continue
		}

		known[edge] = true
		all := graph.edges[e.bundle]
		if all.replaces == "" && !onChain[e.bundle] {
			all.replaces = e.toBundle
		} else {
			all.skips = append(all.skips, e.toBundle)
		}

		graph.edges[e.bundle] = all
	}

	return graph
}

// below are the bundles that a channel leads to from one of its bundles, directly or not.
func (g channelGraph) below(name string) map[string]bool {
	found := map[string]bool{}
	next := []string{name}
	for len(next) > 0 {
		from := g.edges[next[0]]
		next = next[1:]
		for _, to := range append([]string{from.replaces}, from.skips...) {
			if to != "" && to != name && !found[to] {
				found[to] = true
				next = append(next, to)
			}
		}
	}

	return found
}

// hasEdgeTo reports whether another bundle of the channel replaces or skips one.
func (g channelGraph) hasEdgeTo(name string) bool {
	for from, e := range g.edges {
		if from != name && (e.replaces == name || slices.Contains(e.skips, name)) {
			return true
		}
	}
	return false
}

// names are the bundles that the channel names, sorted.
func (g channelGraph) names() []string { return slices.Sorted(maps.Keys(g.edges)) }

// checkReached refuses a plan that leaves out a bundle which was to be added: it stands
// above the head, or nothing leads to it.
func (p *plan) checkReached(pkg string, members map[string]*member) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if !m.added {
			continue
		}
		for _, channel := range m.channels {
			rows := p.channels[channel]
			if slices.ContainsFunc(rows, func(r row) bool { return r.bundle == name }) {
				continue
			}

			head := ""
			if len(rows) > 0 {
				head = rows[0].bundle
			}

			return fmt.Errorf("add prunes bundle %s (%s) from package %s, channel %s: this may be due to incorrect channel head (%s)",
				name, m.image, pkg, channel, head)
		}
	}

	return nil
}
