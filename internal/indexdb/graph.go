package indexdb

import (
	"fmt"
	"maps"
	"slices"
)

// This file builds the channels of a package from its bundles, and the rows of channels. It
// does not access the database.

// packageMember is a bundle of a package with the fields that its channels depend on.
type packageMember struct {
	name, version, image string
	replaces             string
	skips                []string
	substitutesFor       string
	// deprecated members have no bundles below them.
	deprecated bool
	// channels are the channels that contain the bundle, or to which it is to be added.
	channels []string
	// defaultChannel is the default channel of the package that the bundle declares.
	defaultChannel string
	// added is set for a bundle that is not in the index yet.
	added bool
}

// updateEdges are the updates of a channel that lead to a bundle.
type updateEdges struct {
	replaces string
	skips    []string
}

// channelGraph is the update graph of a channel.
type channelGraph struct {
	head string
	// chain are the bundles from the head along what they replace.
	chain []string
	// edges has an element for every bundle that the channel names, even without edges.
	edges map[string]updateEdges
}

// channelRow is a row of the table channel_entry.
type channelRow struct {
	bundle string
	// replaces is the index, in the list of rows, of the row that this one leads to, or
	// noRow.
	replaces int
	depth    int
}

const noRow = -1

// packagePlan is the planned state of a package.
type packagePlan struct {
	defaultChannel string
	// channels are the rows of each channel. The first row is the head of the channel.
	channels map[string][]channelRow
	// rewritten are the members whose own edges have to be updated.
	rewritten []*packageMember
}

// layOutChannel returns the rows of a channel. Each bundle on the chain of replaced bundles
// from the head has one row. For each skipped bundle there are two more rows: one for the
// skipped bundle, and one for the bundle that skips it, which leads there.
//
// edgesOf returns the edges of a bundle, and false if there is no such bundle. It is only
// called for bundles on the chain.
func layOutChannel(head string, edgesOf func(name string) (updateEdges, bool)) ([]channelRow, error) {
	rows := []channelRow{{bundle: head, replaces: noRow}}
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
			rows = append(rows, channelRow{bundle: skip, replaces: noRow, depth: depth}, channelRow{bundle: name, replaces: len(rows), depth: depth})
			depth++
		}

		if next.replaces == "" {
			return rows, nil
		}
		if seen[next.replaces] {
			return nil, opmErrorf("Cycle detected, %s replaces %s", name, next.replaces)
		}

		seen[next.replaces] = true
		if _, found := edgesOf(next.replaces); !found {
			return nil, opmErrorf("Invalid bundle %s, replaces nonexistent bundle %s", name, next.replaces)
		}

		rows[current].replaces = len(rows)
		current = len(rows)
		rows = append(rows, channelRow{bundle: next.replaces, replaces: noRow, depth: depth})
		depth++
	}
}

// storedEntry is a row of a database, with the name of the bundle that it leads to.
type storedEntry struct {
	id     int64
	bundle string
	// to is the row that this one leads to, or 0. toBundle is its bundle.
	to       int64
	toBundle string
}

// buildChannelGraph builds a channel from its rows, which are sorted by depth. An edge of a
// row on the chain from the head is a replaces edge. All other edges are skips. A bundle
// outside of the chain replaces the bundle that its first edge leads to.
func buildChannelGraph(head string, entries []storedEntry) channelGraph {
	graph := channelGraph{head: head, edges: map[string]updateEdges{}}
	start := noRow
	for i, e := range entries {
		graph.edges[e.bundle] = updateEdges{}
		if start == noRow && e.bundle == head {
			start = i
		}
	}

	if start == noRow && len(entries) > 0 {
		start = 0
		graph.head = entries[0].bundle
	}

	chainRows := graph.addChain(entries, start)
	graph.addOtherEdges(entries, chainRows)
	return graph
}

// addChain adds the chain of bundles that starts at a row, and its replaces edges. It returns the
// rows of the chain by their bundle.
func (g *channelGraph) addChain(entries []storedEntry, start int) map[string]int {
	byID := make(map[int64]int, len(entries))
	for i, e := range entries {
		byID[e.id] = i
	}

	rows := map[string]int{}
	for i := start; i != noRow; {
		e := entries[i]
		if _, cycle := rows[e.bundle]; cycle {
			break // Rows of other programs may contain cycles.
		}

		rows[e.bundle] = i
		g.chain = append(g.chain, e.bundle)
		if e.toBundle != e.bundle {
			g.edges[e.bundle] = updateEdges{replaces: e.toBundle}
		}

		next, found := byID[e.to]
		if !found {
			break
		}

		i = next
	}

	return rows
}

// addOtherEdges adds the edges of the rows that are not on the chain.
func (g *channelGraph) addOtherEdges(entries []storedEntry, chainRows map[string]int) {
	known := map[[2]string]bool{}
	for name, e := range g.edges {
		known[[2]string{name, e.replaces}] = true
	}

	for i, e := range entries {
		chainRow, onChain := chainRows[e.bundle]
		edge := [2]string{e.bundle, e.toBundle}
		if onChain && chainRow == i || e.toBundle == "" || e.toBundle == e.bundle || known[edge] {
			continue
		}

		known[edge] = true
		all := g.edges[e.bundle]
		if all.replaces == "" && !onChain {
			all.replaces = e.toBundle
		} else {
			all.skips = append(all.skips, e.toBundle)
		}

		g.edges[e.bundle] = all
	}
}

// bundlesBelow returns the bundles to which a channel leads from a bundle, directly or
// indirectly.
func (g channelGraph) bundlesBelow(name string) map[string]bool {
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

// hasEdgeTo reports whether another bundle of the channel replaces or skips a bundle.
func (g channelGraph) hasEdgeTo(name string) bool {
	for from, e := range g.edges {
		if from != name && (e.replaces == name || slices.Contains(e.skips, name)) {
			return true
		}
	}
	return false
}

// bundleNames returns the bundles that the channel names, sorted.
func (g channelGraph) bundleNames() []string { return slices.Sorted(maps.Keys(g.edges)) }

// checkAddedReachable returns an error for a plan without one of the added bundles, because
// it is above the head or nothing leads to it.
func (p *packagePlan) checkAddedReachable(pkg string, members map[string]*packageMember) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m := members[name]
		if !m.added {
			continue
		}
		for _, channel := range m.channels {
			rows := p.channels[channel]
			if slices.ContainsFunc(rows, func(r channelRow) bool { return r.bundle == name }) {
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
