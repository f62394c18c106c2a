package upgradegraph

import (
	"slices"
	"strings"
)

// Difference is the difference of a package between two catalogs. Lists are sorted.
type Difference struct {
	Package string `json:"package"`
	// ChannelsAdded and ChannelsRemoved are names of channels.
	ChannelsAdded   []string `json:"channelsAdded,omitempty"`
	ChannelsRemoved []string `json:"channelsRemoved,omitempty"`
	// BundlesAdded and BundlesRemoved are the names of bundles in channels.
	BundlesAdded   []string `json:"bundlesAdded,omitempty"`
	BundlesRemoved []string `json:"bundlesRemoved,omitempty"`
	// EdgesAdded and EdgesRemoved are the updates in channels. Skip ranges are resolved among the
	// bundles of both catalogs.
	EdgesAdded   []ChannelEdge `json:"edgesAdded,omitempty"`
	EdgesRemoved []ChannelEdge `json:"edgesRemoved,omitempty"`
	// Stranded are bundles that lose their updates. In the old catalog they can be updated or are
	// the head of a channel, and in the new catalog they are neither. Clusters with such a bundle
	// get no further updates.
	Stranded []string `json:"stranded,omitempty"`
}

// ChannelEdge is an update in a channel.
type ChannelEdge struct {
	Channel string `json:"channel"`
	From    string `json:"from"`
	To      string `json:"to"`
}

// Empty reports whether there is no difference.
func (d Difference) Empty() bool {
	return len(d.ChannelsAdded)+len(d.ChannelsRemoved)+len(d.BundlesAdded)+len(d.BundlesRemoved)+
		len(d.EdgesAdded)+len(d.EdgesRemoved)+len(d.Stranded) == 0
}

// Compare returns the difference between two graphs of a package. A nil graph is that of a
// catalog without the package.
func Compare(from, to *Graph) Difference {
	d := Difference{}
	switch {
	case to != nil:
		d.Package = to.pkg
	case from != nil:
		d.Package = from.pkg
	}

	was, is := newGraphOutline(from, to), newGraphOutline(to, from)
	d.ChannelsRemoved, d.ChannelsAdded = diffSortedSets(was.channels, is.channels, strings.Compare)
	d.BundlesRemoved, d.BundlesAdded = diffSortedSets(was.bundles, is.bundles, strings.Compare)
	d.EdgesRemoved, d.EdgesAdded = diffSortedSets(was.edges, is.edges, func(a, b ChannelEdge) int {
		return strings.Compare(a.Channel+"\x00"+a.To+"\x00"+a.From, b.Channel+"\x00"+b.To+"\x00"+b.From)
	})
	for name := range was.bundles {
		if was.continues[name] && !is.continues[name] {
			d.Stranded = append(d.Stranded, name)
		}
	}

	slices.Sort(d.Stranded)
	return d
}

// diffSortedSets returns the sorted elements that are only in the first set and only in the second.
func diffSortedSets[T comparable](was, is map[T]bool, compare func(a, b T) int) (removed, added []T) {
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

// graphOutline has the parts of a graph that are compared.
type graphOutline struct {
	channels, bundles map[string]bool
	edges             map[ChannelEdge]bool
	// continues has the bundles, of either graph, that this graph can update, and the heads of
	// its channels.
	continues map[string]bool
}

// newGraphOutline returns the outline of a graph. It includes edges from bundles that only the
// other graph has, as clusters may have them installed.
func newGraphOutline(g, other *Graph) graphOutline {
	o := graphOutline{channels: map[string]bool{}, bundles: map[string]bool{}, edges: map[ChannelEdge]bool{}, continues: map[string]bool{}}
	if g == nil {
		return o
	}

	for _, ch := range g.channels {
		o.channels[ch.name] = true
		for _, entry := range ch.entries {
			o.bundles[entry.Name] = true
		}
		for _, head := range g.Heads(ch.name) {
			o.continues[head] = true
		}
	}

	for _, node := range append(g.listAllNodes(), other.listAllNodes()...) {
		for _, edge := range g.Successors(node) {
			o.continues[node.Name] = true
			for _, name := range edge.Channels {
				o.edges[ChannelEdge{Channel: name, From: node.Name, To: edge.To}] = true
			}
		}
	}

	return o
}

// listAllNodes returns the entries of all channels. The graph may be nil.
func (g *Graph) listAllNodes() []Node {
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
