package indexdb

import (
	"maps"
	"slices"

	"github.com/blang/semver/v4"
)

// semverPlanner adds bundles to channels by their versions. It ignores their replaces and
// skips.
type semverPlanner struct {
	pkg      string
	members  map[string]*packageMember
	versions map[string]semver.Version
	graphs   map[string]channelGraph
	// inherited are the bundles of a channel that lost the bundle which skipped them,
	// because it was removed. The next added bundle, or else the head, skips them.
	inherited map[string][]string
	touched   map[string]bool
	skipPatch bool
}

// planSemver plans the channels of a package with the added bundles, in the order of their
// versions. Each bundle is placed between the nearest lower and the nearest higher version
// of its channels. With skipPatch, the lower versions of the same minor version leave the
// chain and are skipped. Channels without an added bundle stay unchanged, and are not in
// the plan.
func planSemver(s *packageState, skipPatch bool) (*packagePlan, error) {
	planner := &semverPlanner{
		pkg: s.name, members: s.members, versions: map[string]semver.Version{},
		graphs: map[string]channelGraph{}, inherited: map[string][]string{}, touched: map[string]bool{},
		skipPatch: skipPatch,
	}
	for channel, graph := range s.graphs {
		planner.graphs[channel] = channelGraph{head: graph.head, chain: slices.Clone(graph.chain), edges: maps.Clone(graph.edges)}
	}

	for _, name := range slices.Sorted(maps.Keys(s.overwritten)) {
		planner.removeOverwrittenHead(name)
	}

	added, err := planner.parseMemberVersions()
	if err != nil {
		return nil, err
	}

	p := &packagePlan{defaultChannel: s.defaultChannel, channels: map[string][]channelRow{}}
	for _, m := range added {
		for _, channel := range m.channels {
			if err := planner.insertIntoChannel(channel, m); err != nil {
				return nil, err
			}
		}
		if m.defaultChannel != "" {
			p.defaultChannel = m.defaultChannel
		}
	}

	if err := planner.completePlan(p); err != nil {
		return nil, err
	}

	return p, nil
}

// removeOverwrittenHead removes a bundle that is added again from the channels that it
// heads.
func (s *semverPlanner) removeOverwrittenHead(name string) {
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

// parseMemberVersions parses the versions of the members and returns the added ones in
// ascending order. A bundle of the index may have an invalid version as long as it is not
// compared.
func (s *semverPlanner) parseMemberVersions() ([]*packageMember, error) {
	var added []*packageMember
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		m := s.members[name]
		version, err := semver.Parse(m.version)
		if err == nil {
			s.versions[name] = version
		} else if m.added {
			return nil, s.invalidVersionError(m)
		}
		if m.added {
			added = append(added, m)
		}
	}

	slices.SortStableFunc(added, func(a, b *packageMember) int { return s.versions[a.name].Compare(s.versions[b.name]) })
	return added, nil
}

func (s *semverPlanner) invalidVersionError(m *packageMember) error {
	return opmErrorf("Bundle version %s is not valid: package %s, bundle %s: it must be a semantic version", m.version, s.pkg, m.name)
}

// insertIntoChannel adds a bundle to a channel.
func (s *semverPlanner) insertIntoChannel(channel string, m *packageMember) error {
	s.touched[channel] = true
	graph, found := s.graphs[channel]
	if !found {
		graph = channelGraph{edges: map[string]updateEdges{}}
	}

	skips, err := s.findPatchLineSkips(channel, graph, m)
	if err != nil {
		return err
	}

	graph.chain = slices.DeleteFunc(graph.chain, func(name string) bool { return slices.Contains(skips, name) })
	// The new bundle skips the bundles to which only those leaving the chain led.
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

	s.graphs[channel] = s.linkIntoChain(graph, m.name, skips)
	return nil
}

// findPatchLineSkips returns the bundles of the channel that a new bundle skips. It returns
// an error for a version that is already in the channel.
func (s *semverPlanner) findPatchLineSkips(channel string, graph channelGraph, m *packageMember) ([]string, error) {
	version := s.versions[m.name]
	var skips []string
	for _, name := range graph.bundleNames() {
		other := s.members[name]
		if other == nil {
			continue // A name without a bundle has no version to compare.
		}

		v, known := s.versions[name]
		if !known {
			return nil, s.invalidVersionError(other)
		}

		order := v.Compare(version)
		if order == 0 {
			return nil, opmErrorf("Bundle version %s already added to index: package %s, channel %s, bundle %s", m.version, s.pkg, channel, name)
		}
		if order < 0 && s.skipPatch && v.Major == version.Major && v.Minor == version.Minor {
			skips = append(skips, name)
		}
	}

	return skips, nil
}

// linkIntoChain inserts a bundle into the chain of a channel, between its neighbours by
// version.
func (s *semverPlanner) linkIntoChain(graph channelGraph, name string, skips []string) channelGraph {
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

	graph.edges[name] = updateEdges{replaces: below, skips: skips}
	if above == "" {
		graph.head = name
		graph.chain = append([]string{name}, graph.chain...)
		return graph
	}

	graph.edges[above] = updateEdges{replaces: name, skips: graph.edges[above].skips}
	graph.chain = slices.Insert(graph.chain, slices.Index(graph.chain, above)+1, name)
	return graph
}

// completePlan sets the default channel and the rows of the changed channels.
func (s *semverPlanner) completePlan(p *packagePlan) error {
	channels := slices.Sorted(maps.Keys(s.graphs))
	if p.defaultChannel == "" && len(channels) > 0 {
		p.defaultChannel = channels[0]
	}
	if !slices.Contains(channels, p.defaultChannel) {
		return opmErrorf("Default channel is missing and can't be inferred: package %s has no channel %q", s.pkg, p.defaultChannel)
	}

	for _, channel := range slices.Sorted(maps.Keys(s.touched)) {
		graph, found := s.graphs[channel]
		if !found {
			p.channels[channel] = nil
			continue
		}
		if orphans := s.inherited[channel]; len(orphans) > 0 {
			head := graph.edges[graph.head]
			graph.edges[graph.head] = updateEdges{replaces: head.replaces, skips: slices.Concat(head.skips, orphans)}
		}

		rows, err := layOutChannel(graph.head, func(name string) (updateEdges, bool) {
			e, found := graph.edges[name]
			if m := s.members[name]; m != nil && m.deprecated {
				e = updateEdges{}
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

		if missing := s.unreachedBundles(graph, reached); len(missing) > 0 {
			return opmErrorf("Invalid graph: some (non-bottom) nodes defined in the graph were not mentioned as replacements of any node (%d != %d): package %s, channel %s, bundles %q",
				len(graph.edges), len(reached), s.pkg, channel, missing)
		}

		p.channels[channel] = rows
	}

	return nil
}

// unreachedBundles returns the bundles of a channel that its rows leave out.
func (s *semverPlanner) unreachedBundles(graph channelGraph, reached map[string]bool) []string {
	var missing []string
	for _, name := range graph.bundleNames() {
		if m := s.members[name]; m != nil && !m.added && !reached[name] {
			missing = append(missing, name)
		}
	}
	return missing
}
