package indexdb

import (
	"maps"
	"slices"

	"github.com/blang/semver/v4"
)

// semverPlanner adds bundles to channels by their versions alone. What they say that they
// replace and skip does not count.
type semverPlanner struct {
	pkg      string
	members  map[string]*member
	versions map[string]semver.Version
	graphs   map[string]channelGraph
	// inherited are the bundles that nothing leads to in a channel since the one that
	// skipped them was taken out: the next to come, or else the head, skips them.
	inherited map[string][]string
	touched   map[string]bool
	skipPatch bool
}

// planSemver makes the channels of a package of those that it has and the bundles to be
// added, in the order of their versions: each goes between the nearest lower and the nearest
// higher version of its channels. With skipPatch, the lower versions of the same minor
// version leave the chain and are skipped. Channels that nothing is added to stay as
// they are, and are not in the plan.
func planSemver(s *packageState, skipPatch bool) (*plan, error) {
	planner := &semverPlanner{
		pkg: s.name, members: s.members, versions: map[string]semver.Version{},
		graphs: map[string]channelGraph{}, inherited: map[string][]string{}, touched: map[string]bool{},
		skipPatch: skipPatch,
	}
	for channel, graph := range s.graphs {
		planner.graphs[channel] = channelGraph{head: graph.head, chain: slices.Clone(graph.chain), edges: maps.Clone(graph.edges)}
	}

	for _, name := range slices.Sorted(maps.Keys(s.overwritten)) {
		planner.takeOut(name)
	}

	added, err := planner.readVersions()
	if err != nil {
		return nil, err
	}

	p := &plan{defaultChannel: s.defaultChannel, channels: map[string][]row{}}
	for _, m := range added {
		for _, channel := range m.channels {
			if err := planner.insert(channel, m); err != nil {
				return nil, err
			}
		}
		if m.defaultChannel != "" {
			p.defaultChannel = m.defaultChannel
		}
	}

	if err := planner.finish(p); err != nil {
		return nil, err
	}

	return p, nil
}

// takeOut removes a bundle that is added anew from the channels that it heads.
func (s *semverPlanner) takeOut(name string) {
	for channel, graph := range s.graphs {
		out, found := graph.edges[name]
		if !found {
			continue
		}

		s.touched[channel] = true
		s.inherited[channel] = out.skips
		delete(graph.edges, name)
		graph.chain = slices.DeleteFunc(graph.chain, func(other string) bool { return other == name })
		if len(graph.chain) == 0 {
			delete(s.graphs, channel)
			continue
		}

		graph.head = graph.chain[0]
		s.graphs[channel] = graph
	}
}

// readVersions reads the versions of the bundles and gives those to be added in ascending
// order. A bundle of the index need not have one as long as nothing is compared with it.
func (s *semverPlanner) readVersions() ([]*member, error) {
	var added []*member
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		m := s.members[name]
		version, err := semver.Parse(m.version)
		if err == nil {
			s.versions[name] = version
		} else if m.added {
			return nil, s.invalidVersion(m)
		}
		if m.added {
			added = append(added, m)
		}
	}

	slices.SortStableFunc(added, func(a, b *member) int { return s.versions[a.name].Compare(s.versions[b.name]) })
	return added, nil
}

func (s *semverPlanner) invalidVersion(m *member) error {
	return say("Bundle version %s is not valid: package %s, bundle %s: it must be a semantic version", m.version, s.pkg, m.name)
}

// insert puts a bundle into a channel.
func (s *semverPlanner) insert(channel string, m *member) error {
	s.touched[channel] = true
	graph, found := s.graphs[channel]
	if !found {
		graph = channelGraph{edges: map[string]edges{}}
	}

	skips, err := s.samePatchLine(channel, graph, m)
	if err != nil {
		return err
	}

	graph.chain = slices.DeleteFunc(graph.chain, func(name string) bool { return slices.Contains(skips, name) })
	// The bundles to which only those led that leave the chain are taken over.
	orphans := s.inherited[channel]
	delete(s.inherited, channel)
	for _, name := range skips {
		orphans = append(append(slices.Clone(orphans), graph.edges[name].replaces), graph.edges[name].skips...)
	}

	for _, name := range orphans {
		if name != "" && name != m.name && !slices.Contains(graph.chain, name) && !slices.Contains(skips, name) {
			skips = append(skips, name)
		}
	}

	s.graphs[channel] = s.link(graph, m.name, skips)
	return nil
}

// samePatchLine returns the bundles of the channel that are to be skipped by a new one, and
// refuses a version that is there already.
func (s *semverPlanner) samePatchLine(channel string, graph channelGraph, m *member) ([]string, error) {
	version := s.versions[m.name]
	var skips []string
	for _, name := range graph.names() {
		other := s.members[name]
		if other == nil {
			continue // A name without a bundle has no version to be compared with.
		}

		v, known := s.versions[name]
		if !known {
			return nil, s.invalidVersion(other)
		}

		order := v.Compare(version)
		if order == 0 {
			return nil, say("Bundle version %s already added to index: package %s, channel %s, bundle %s", m.version, s.pkg, channel, name)
		}
		if order < 0 && s.skipPatch && v.Major == version.Major && v.Minor == version.Minor {
			skips = append(skips, name)
		}
	}

	return skips, nil
}

// link puts a bundle into the chain of a channel, between its neighbours by version.
func (s *semverPlanner) link(graph channelGraph, name string, skips []string) channelGraph {
	version := s.versions[name]
	above, below := "", ""
	for _, other := range graph.chain {
		switch order := s.versions[other].Compare(version); {
		case order > 0 && (above == "" || s.versions[other].LT(s.versions[above])):
			above = other
		case order < 0 && (below == "" || s.versions[other].GT(s.versions[below])):
			below = other
		}
	}

	graph.edges[name] = edges{replaces: below, skips: skips}
	if above == "" {
		graph.head = name
		graph.chain = append([]string{name}, graph.chain...)
		return graph
	}

	graph.edges[above] = edges{replaces: name, skips: graph.edges[above].skips}
	graph.chain = slices.Insert(graph.chain, slices.Index(graph.chain, above)+1, name)
	return graph
}

// finish settles the default channel and lays down the channels that were touched.
func (s *semverPlanner) finish(p *plan) error {
	channels := slices.Sorted(maps.Keys(s.graphs))
	if p.defaultChannel == "" && len(channels) > 0 {
		p.defaultChannel = channels[0]
	}
	if !slices.Contains(channels, p.defaultChannel) {
		return say("Default channel is missing and can't be inferred: package %s has no channel %q", s.pkg, p.defaultChannel)
	}

	for _, channel := range slices.Sorted(maps.Keys(s.touched)) {
		graph, found := s.graphs[channel]
		if !found {
			p.channels[channel] = nil
			continue
		}
		if orphans := s.inherited[channel]; len(orphans) > 0 {
			head := graph.edges[graph.head]
			graph.edges[graph.head] = edges{replaces: head.replaces, skips: slices.Concat(head.skips, orphans)}
		}

		rows, err := layDown(graph.head, func(name string) (edges, bool) {
			e, found := graph.edges[name]
			if m := s.members[name]; m != nil && m.deprecated {
				e = edges{}
			}
			return e, found
		})
		if err != nil {
			return err
		}

		reached := map[string]bool{}
		for _, r := range rows {
			reached[r.bundle] = true
		}

		if missing := s.unreached(graph, reached); len(missing) > 0 {
			return say("Invalid graph: some (non-bottom) nodes defined in the graph were not mentioned as replacements of any node (%d != %d): package %s, channel %s, bundles %q",
				len(graph.edges), len(reached), s.pkg, channel, missing)
		}

		p.channels[channel] = rows
	}

	return nil
}

// unreached are the bundles of a channel that its rows leave out.
func (s *semverPlanner) unreached(graph channelGraph, reached map[string]bool) []string {
	var missing []string
	for _, name := range graph.names() {
		if m := s.members[name]; m != nil && !m.added && !reached[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
