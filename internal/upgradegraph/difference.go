package upgradegraph

import (
	"slices"
	"strings"
)

// Difference is what changes for a package from one catalog to another. Lists are sorted;
// those of nothing are empty.
type Difference struct {
	Package string `json:"package"`
	// ChannelsAdded and ChannelsRemoved are names of channels.
	ChannelsAdded   []string `json:"channelsAdded,omitempty"`
	ChannelsRemoved []string `json:"channelsRemoved,omitempty"`
	// BundlesAdded and BundlesRemoved are the names of bundles that channels have.
	BundlesAdded   []string `json:"bundlesAdded,omitempty"`
	BundlesRemoved []string `json:"bundlesRemoved,omitempty"`
	// EdgesAdded and EdgesRemoved are the updates that channels offer: the ranges that
	// make some are resolved among the bundles of both catalogs.
	EdgesAdded   []ChannelEdge `json:"edgesAdded,omitempty"`
	EdgesRemoved []ChannelEdge `json:"edgesRemoved,omitempty"`
	// Stranded are bundles of the old catalog that could be updated or were the newest of
	// a channel, and that the new one neither updates nor has as the newest of a channel.
	// Whoever has one installed gets no update any more.
	Stranded []string `json:"stranded,omitempty"`
}

// ChannelEdge is an update that a channel offers.
type ChannelEdge struct {
	Channel string `json:"channel"`
	From    string `json:"from"`
	To      string `json:"to"`
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool {
	return len(d.ChannelsAdded)+len(d.ChannelsRemoved)+len(d.BundlesAdded)+len(d.BundlesRemoved)+
		len(d.EdgesAdded)+len(d.EdgesRemoved)+len(d.Stranded) == 0
}

// Compare tells what changes from one graph of a package to another. A nil graph stands
// for a catalog that does not have the package.
func Compare(from, to *Graph) Difference {
	d := Difference{}
	switch {
	case to != nil:
		d.Package = to.pkg
	case from != nil:
		d.Package = from.pkg
	}

	was, is := outlineOf(from, to), outlineOf(to, from)
	d.ChannelsRemoved, d.ChannelsAdded = changed(was.channels, is.channels, strings.Compare)
	d.BundlesRemoved, d.BundlesAdded = changed(was.bundles, is.bundles, strings.Compare)
	d.EdgesRemoved, d.EdgesAdded = changed(was.edges, is.edges, func(a, b ChannelEdge) int {
		return strings.Compare(a.Channel+"\x00"+a.To+"\x00"+a.From, b.Channel+"\x00"+b.To+"\x00"+b.From)
	})
	for name := range was.bundles {
		if was.goesOn[name] && !is.goesOn[name] {
			d.Stranded = append(d.Stranded, name)
		}
	}

	slices.Sort(d.Stranded)
	return d
}

// changed returns what only the first set has, and what only the second.
func changed[T comparable](was, is map[T]bool, compare func(a, b T) int) (removed, added []T) {
	for x := range was {
		if !is[x] {
			removed = append(removed, x)
		}
	}

	for x := range is {
		if !was[x] {
			added = append(added, x)
		}
	}

	slices.SortFunc(removed, compare)
	slices.SortFunc(added, compare)
	return removed, added
}

// outline is what of a graph is compared.
type outline struct {
	channels, bundles map[string]bool
	edges             map[ChannelEdge]bool
	// goesOn has the bundles, of either graph, that this one updates, and the heads of
	// its channels.
	goesOn map[string]bool
}

// outlineOf returns the outline of a graph. Bundles that only the other graph has are what
// clusters may have installed.
func outlineOf(g, other *Graph) outline {
	o := outline{channels: map[string]bool{}, bundles: map[string]bool{}, edges: map[ChannelEdge]bool{}, goesOn: map[string]bool{}}
	if g == nil {
		return o
	}

	for _, ch := range g.channels {
		o.channels[ch.name] = true
		for _, entry := range ch.entries {
			o.bundles[entry.Name] = true
		}
		for _, head := range g.Heads(ch.name) {
			o.goesOn[head] = true
		}
	}

	for _, node := range append(g.nodes(), other.nodes()...) {
		for _, edge := range g.Successors(node) {
			o.goesOn[node.Name] = true
			for _, name := range edge.Channels {
				o.edges[ChannelEdge{Channel: name, From: node.Name, To: edge.To}] = true
			}
		}
	}

	return o
}

// nodes returns the entries of all channels. It works on nil.
func (g *Graph) nodes() []Node {
	if g == nil {
		return nil
	}

	var nodes []Node
	for _, ch := range g.channels {
		for _, entry := range ch.entries {
			node := Node{Name: entry.Name}
			if v, known := g.versions[entry.Name]; known {
				node.Version = &v
			}
			nodes = append(nodes, node)
		}
	}

	return nodes
}
