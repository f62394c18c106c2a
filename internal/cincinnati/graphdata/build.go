package graphdata

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// Metadata keys of releases by which a release, or a graph-data folder, changes the graph.
const (
	keyPrefix              = "io.openshift.upgrades.graph."
	keyRemove              = keyPrefix + "release.remove"
	keyManifestRef         = keyPrefix + "release.manifestref"
	keyArchitecture        = "release.arch"
	keyPreviousAdd         = keyPrefix + "previous.add"
	keyPreviousRemove      = keyPrefix + "previous.remove"
	keyPreviousRemoveRegex = keyPrefix + "previous.remove_regex"
	keyNextAdd             = keyPrefix + "next.add"
	keyNextRemove          = keyPrefix + "next.remove"
)

// buildOnlyKeys are keys that are only used to build the graph, and removed afterwards.
var buildOnlyKeys = []string{keyRemove, keyPreviousAdd, keyPreviousRemove, keyPreviousRemoveRegex, keyNextAdd, keyNextRemove}

// Multi is the architecture of multi-architecture releases.
const Multi = "multi"

// Release is a release image.
type Release struct {
	// Version is the semantic version of the release.
	Version string
	// Architecture is a GOARCH value, or Multi.
	Architecture string
	// Payload is the pull spec by digest.
	Payload string
	// Previous and Next are the versions from and to which the release can be updated.
	Previous, Next []string
	// Metadata are additional values by key.
	Metadata map[string]string
}

// Graph is the graph of all releases, channels and architectures. It is immutable, and so safe
// for concurrent use.
type Graph struct {
	nodes       []node // sorted by architecture and version
	edges       []edge // sorted by their nodes
	conditional []conditionalEdge
}

type node struct {
	cincinnati.Node
	parsedVersion semver.Version
	architecture  string
	channels      []string
}

// nameWithArchitecture returns the version with "+" and the architecture, as patterns match it.
func (n *node) nameWithArchitecture() string { return n.Version + "+" + n.architecture }

type edge struct{ from, to int }

type conditionalEdge struct {
	edge
	risks []cincinnati.Risk
}

// Build builds a graph from releases and graph-data, which may be nil. It removes releases, adds
// edges, adds known issues, and removes edges, in this order. A blocked edge is removed even if
// it has known issues.
//
// An invalid entry only affects its release or edge, and leads to a warning.
func Build(releases []Release, data *Data) (*Graph, []string) {
	if data == nil {
		data = &Data{}
	}

	b := &builder{data: data, index: map[string]int{}, edges: map[edge][]cincinnati.Risk{}}
	b.addNodes(releases)
	b.addEdges()
	b.addRisks()
	b.removeEdges()
	b.breakCycles()

	return b.buildGraph(), b.warnings
}

type builder struct {
	data     *Data
	releases []Release // one for each node
	nodes    []node
	index    map[string]int
	edges    map[edge][]cincinnati.Risk
	warnings []string
}

func (b *builder) addWarning(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// addNodes adds the releases that are not removed, in an order that does not depend on the input
// order.
func (b *builder) addNodes(releases []Release) {
	var found []node
	var sources []Release
	for _, r := range releases {
		parsed, err := semver.Parse(r.Version)
		if err != nil {
			b.addWarning("%s is left out: its version %.100q is no semantic version", r.Payload, r.Version)
			continue
		}

		// Build metadata is reserved for the architecture.
		parsed.Build = nil
		n := node{parsedVersion: parsed, architecture: cmp.Or(r.Architecture, r.Metadata[keyArchitecture])}
		n.Version = parsed.String()
		n.Payload = r.Payload
		n.Metadata = b.mergeMetadata(r, &n)
		if n.Metadata[keyRemove] == "true" {
			continue
		}

		n.channels = n.Channels()
		found = append(found, n)
		sources = append(sources, r)
	}

	order := make([]int, len(found))
	for i := range order {
		order[i] = i
	}

	slices.SortFunc(order, func(i, j int) int {
		x, y := &found[i], &found[j]
		return cmp.Or(strings.Compare(x.architecture, y.architecture), x.parsedVersion.Compare(y.parsedVersion), strings.Compare(x.Payload, y.Payload))
	})
	for _, i := range order {
		n := &found[i]
		if at, twice := b.index[n.nameWithArchitecture()]; twice {
			if b.nodes[at].Payload != n.Payload {
				b.addWarning("%s is left out: %s has the same version and architecture, %s", n.Payload, b.nodes[at].Payload, n.nameWithArchitecture())
			}
			continue
		}
		b.index[n.nameWithArchitecture()] = len(b.nodes)
		b.nodes = append(b.nodes, *n)
		b.releases = append(b.releases, sources[i])
	}
}

// mergeMetadata returns the metadata of a release, with that of the graph-data.
func (b *builder) mergeMetadata(r Release, n *node) map[string]string {
	all := maps.Clone(r.Metadata)
	if all == nil {
		all = map[string]string{}
	}

	for _, name := range []string{n.Version, n.nameWithArchitecture()} {
		maps.Copy(all, b.data.metadata[name])
	}

	channels := cincinnati.Node{Metadata: all}.Channels()
	for _, name := range []string{n.Version, n.nameWithArchitecture()} {
		channels = append(channels, b.data.channels[name]...)
	}

	if len(channels) > 0 {
		slices.Sort(channels)
		all[cincinnati.MetadataChannels] = strings.Join(slices.Compact(channels), ",")
	}
	if _, digest, ok := strings.Cut(r.Payload, "@"); ok {
		all[keyManifestRef] = digest
	}
	if n.architecture != "" {
		all[keyArchitecture] = n.architecture
	}
	if n.architecture == Multi {
		all[cincinnati.MetadataArchitecture] = Multi
	}

	return all
}

// parseVersions parses the entries of a list. It leaves out invalid versions, and adds a warning
// about them; key names the list.
func (b *builder) parseVersions(n *node, key string, entries []string) []semver.Version {
	var found []semver.Version
	var invalid []string
	for _, entry := range entries {
		version, err := semver.Parse(strings.TrimSpace(entry))
		if err == nil {
			found = append(found, version)
		} else {
			invalid = append(invalid, fmt.Sprintf("%.100q", entry))
		}
	}

	if more := len(invalid) - maxNamedEntries; more > 0 {
		invalid = append(invalid[:maxNamedEntries], fmt.Sprintf("and %d more", more))
	}
	if len(invalid) > 0 {
		b.addWarning("entries of %s of %s are left out, because they are no semantic versions: %s", key, n.nameWithArchitecture(), strings.Join(invalid, ", "))
	}

	return found
}

// maxNamedEntries is the maximum number of invalid entries that a warning names. The others are
// counted.
const maxNamedEntries = 5

// listedVersions returns the versions that a release lists under a key of its metadata.
func (b *builder) listedVersions(n *node, key string) []semver.Version {
	return b.parseVersions(n, "metadata "+key, splitCommaList(n.Metadata[key]))
}

// findNodeByVersion returns the node of a version for an architecture.
func (b *builder) findNodeByVersion(parsed semver.Version, architecture string) (int, bool) {
	if len(parsed.Build) > 0 && strings.Join(parsed.Build, ".") != architecture {
		return 0, false
	}
	parsed.Build = nil
	at, ok := b.index[parsed.String()+"+"+architecture]
	return at, ok
}

// addEdges adds the edges that releases and their metadata state. Unknown versions are ignored.
func (b *builder) addEdges() {
	for i := range b.nodes {
		n, r := &b.nodes[i], &b.releases[i]
		for _, version := range slices.Concat(b.parseVersions(n, "previous", r.Previous), b.listedVersions(n, keyPreviousAdd)) {
			if from, ok := b.findNodeByVersion(version, n.architecture); ok {
				b.addEdge(edge{from, i})
			}
		}
		for _, version := range slices.Concat(b.parseVersions(n, "next", r.Next), b.listedVersions(n, keyNextAdd)) {
			if to, ok := b.findNodeByVersion(version, n.architecture); ok {
				b.addEdge(edge{i, to})
			}
		}
	}
}

func (b *builder) addEdge(e edge) {
	if e.from == e.to {
		b.addWarning("%s lists itself as a version to update from or to", b.nodes[e.from].nameWithArchitecture())
		return
	}
	if _, known := b.edges[e]; !known {
		b.edges[e] = nil
	}
}

// addRisks adds known issues to the edges.
func (b *builder) addRisks() {
	b.forEachBlockedEdge(func(e edge, blocked blockedEdge) {
		if risk := blocked.risk; risk != nil && !slices.ContainsFunc(b.edges[e], risk.Equal) {
			b.edges[e] = append(b.edges[e], *risk)
		}
	})
	for _, e := range b.sortedEdges() {
		risks := b.edges[e]
		slices.SortFunc(risks, func(x, y cincinnati.Risk) int {
			return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.URL, y.URL), strings.Compare(x.Message, y.Message))
		})
		b.dropEdgeWithInvalidRisks(e, risks)
	}
}

// dropEdgeWithInvalidRisks removes an edge that clusters would ignore, or whose issues would
// make them reject the graph.
func (b *builder) dropEdgeWithInvalidRisks(e edge, risks []cincinnati.Risk) {
	for i := 1; i < len(risks); i++ {
		if risks[i].Name == risks[i-1].Name {
			b.addWarning("the update from %s to %s is left out: two different known issues of it are called %q", b.nodes[e.from].nameWithArchitecture(), b.nodes[e.to].nameWithArchitecture(), risks[i].Name)
			delete(b.edges, e)
			return
		}
	}

	if len(risks) > cincinnati.MaxRisks {
		b.addWarning("the update from %s to %s is left out: it has %d known issues, more than the %d that it may have", b.nodes[e.from].nameWithArchitecture(), b.nodes[e.to].nameWithArchitecture(), len(risks), cincinnati.MaxRisks)
		delete(b.edges, e)
	}
}

// forEachBlockedEdge calls a function for each edge that an entry of blocked-edges matches.
func (b *builder) forEachBlockedEdge(found func(edge, blockedEdge)) {
	if len(b.data.blockedEdges) == 0 {
		return
	}

	for e := range b.edges {
		to, from := &b.nodes[e.to], b.nodes[e.from].nameWithArchitecture()
		for _, name := range []string{to.Version, to.nameWithArchitecture()} {
			for _, blocked := range b.data.blockedEdges[name] {
				if blocked.from.MatchString(from) {
					found(e, blocked)
				}
			}
		}
	}
}

// removeEdges removes the edges that are blocked, or that metadata removes.
func (b *builder) removeEdges() {
	blocked := map[edge]bool{}
	b.forEachBlockedEdge(func(e edge, found blockedEdge) {
		if found.risk == nil {
			blocked[e] = true
		}
	})

	arriving, leaving := make([]*regexp.Regexp, len(b.nodes)), make([]bool, len(b.nodes))
	for i := range b.nodes {
		n := &b.nodes[i]
		arriving[i] = b.compileRemovedSources(n)
		for _, from := range b.findNodesToRemove(n, keyPreviousRemove) {
			blocked[edge{from, i}] = true
		}

		leaving[i] = isWildcard(n.Metadata[keyNextRemove])
		for _, to := range b.findNodesToRemove(n, keyNextRemove) {
			blocked[edge{i, to}] = true
		}
	}

	for e := range b.edges {
		if pattern := arriving[e.to]; leaving[e.from] || pattern != nil && pattern.MatchString(b.nodes[e.from].nameWithArchitecture()) {
			blocked[e] = true
		}
	}

	maps.DeleteFunc(b.edges, func(e edge, _ []cincinnati.Risk) bool { return blocked[e] })
}

// compileRemovedSources returns the pattern of the nodes whose edges to a node are removed. It is nil
// if the metadata of the node has neither a pattern nor a wildcard.
func (b *builder) compileRemovedSources(n *node) *regexp.Regexp {
	var pattern *regexp.Regexp
	if text := n.Metadata[keyPreviousRemoveRegex]; text != "" {
		pattern = b.compilePattern(n, text)
	}
	if isWildcard(n.Metadata[keyPreviousRemove]) {
		return matchEverything
	}
	return pattern
}

// findNodesToRemove returns the nodes whose versions a node lists under a key of its metadata. A
// wildcard lists none.
func (b *builder) findNodesToRemove(n *node, key string) []int {
	if isWildcard(n.Metadata[key]) {
		return nil
	}

	var found []int
	for _, version := range b.listedVersions(n, key) {
		if at, ok := b.findNodeByVersion(version, n.architecture); ok {
			found = append(found, at)
		}
	}

	return found
}

// compilePattern compiles the pattern of a release. An invalid pattern could have meant any
// version, so it matches everything.
func (b *builder) compilePattern(n *node, text string) *regexp.Regexp {
	pattern, err := regexp.Compile(text)
	if err == nil && len(text) <= maxPatternBytes {
		return pattern
	}
	b.addWarning("all updates to %s are left out: its metadata %s is no regular expression", n.nameWithArchitecture(), keyPreviousRemoveRegex)
	return matchEverything
}

var matchEverything = regexp.MustCompile("")

// breakCycles removes edges to older releases that are part of a cycle, because clients reject a
// graph with a cycle.
func (b *builder) breakCycles() {
	arriving, leaving := make([]int, len(b.nodes)), make([][]int, len(b.nodes))
	for e, risks := range b.edges {
		if len(risks) == 0 {
			arriving[e.to]++
			leaving[e.from] = append(leaving[e.from], e.to)
		}
	}

	var queue []int
	for i, count := range arriving {
		if count == 0 {
			queue = append(queue, i)
		}
	}

	for at := 0; at < len(queue); at++ {
		for _, to := range leaving[queue[at]] {
			if arriving[to]--; arriving[to] == 0 {
				queue = append(queue, to)
			}
		}
	}

	if len(queue) == len(b.nodes) {
		return
	}

	for _, e := range b.sortedEdges() {
		if len(b.edges[e]) == 0 && arriving[e.from] > 0 && arriving[e.to] > 0 && b.nodes[e.to].parsedVersion.LTE(b.nodes[e.from].parsedVersion) {
			b.addWarning("the update from %s to %s is left out: it leads back in a circle of updates", b.nodes[e.from].nameWithArchitecture(), b.nodes[e.to].nameWithArchitecture())
			delete(b.edges, e)
		}
	}
}

func (b *builder) sortedEdges() []edge {
	return slices.SortedFunc(maps.Keys(b.edges), func(x, y edge) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to)) })
}

func (b *builder) buildGraph() *Graph {
	g := &Graph{nodes: b.nodes}
	for _, e := range b.sortedEdges() {
		if risks := b.edges[e]; len(risks) > 0 {
			g.conditional = append(g.conditional, conditionalEdge{e, risks})
		} else {
			g.edges = append(g.edges, e)
		}
	}

	for i := range g.nodes {
		for _, key := range buildOnlyKeys {
			delete(g.nodes[i].Metadata, key)
		}
	}
	return g
}

// isWildcard reports whether a list of versions to remove means all versions.
func isWildcard(text string) bool { return strings.TrimSpace(text) == "*" }

// splitCommaList returns the non-empty items of a comma-separated list.
func splitCommaList(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(item string) bool { return strings.TrimSpace(item) == "" })
}
