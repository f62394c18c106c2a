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

// Keys of the metadata of releases by which a release, or a graph-data folder, changes the
// graph.
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

// spent are the keys that mean nothing once the graph is made.
var spent = []string{keyRemove, keyPreviousAdd, keyPreviousRemove, keyPreviousRemoveRegex, keyNextAdd, keyNextRemove}

// Multi is the architecture of releases for several of them.
const Multi = "multi"

// Release is a release image.
type Release struct {
	// Version is the semantic version of the release.
	Version string
	// Architecture as Go names it, or Multi.
	Architecture string
	// Payload is its pull spec by digest.
	Payload string
	// Previous and Next are the versions from and to which it can be updated.
	Previous, Next []string
	// Metadata are further texts by their keys.
	Metadata map[string]string
}

// Graph is the graph of all releases, channels and architectures. It is not changed once
// it is made, and so safe for concurrent use.
type Graph struct {
	nodes       []node // by architecture and version
	edges       []edge // by their nodes
	conditional []conditionalEdge
}

type node struct {
	cincinnati.Node
	parsed       semver.Version
	architecture string
	channels     []string
}

// name is the version with the architecture, as patterns see it.
func (n *node) name() string { return n.Version + "+" + n.architecture }

type edge struct{ from, to int }

type conditionalEdge struct {
	edge
	risks []cincinnati.Risk
}

// Build makes a graph of releases, and of what people say about them, which may be nil: in
// this order, releases are taken out, edges are added, edges get known issues, and edges are
// taken out. An edge that is blocked is gone, whatever issues are known of it.
//
// What is wrong with a release costs no more than the release, or the edge: the warnings
// tell of it.
func Build(releases []Release, data *Data) (*Graph, []string) {
	if data == nil {
		data = &Data{}
	}

	b := &builder{data: data, index: map[string]int{}, edges: map[edge][]cincinnati.Risk{}}
	b.addNodes(releases)
	b.addEdges()
	b.addRisks()
	b.removeEdges()
	b.breakCircles()

	return b.graph(), b.warnings
}

type builder struct {
	data     *Data
	releases []Release // of the nodes
	nodes    []node
	index    map[string]int
	edges    map[edge][]cincinnati.Risk
	warnings []string
}

func (b *builder) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// addNodes takes the releases that are not taken out, in an order that does not depend on
// that in which they were found.
func (b *builder) addNodes(releases []Release) {
	var found []node
	var of []Release
	for _, r := range releases {
		parsed, err := semver.Parse(r.Version)
		if err != nil {
			b.warn("%s is left out: its version %.100q is no semantic version", r.Payload, r.Version)
			continue
		}

		// What stands behind a "+" is the architecture's place.
		parsed.Build = nil
		n := node{parsed: parsed, architecture: cmp.Or(r.Architecture, r.Metadata[keyArchitecture])}
		n.Version, n.Payload = parsed.String(), r.Payload
		n.Metadata = b.metadata(r, &n)
		if n.Metadata[keyRemove] == "true" {
			continue
		}

		n.channels = n.Channels()
		found, of = append(found, n), append(of, r)
	}

	order := make([]int, len(found))
	for i := range order {
		order[i] = i
	}

	slices.SortFunc(order, func(i, j int) int {
		x, y := &found[i], &found[j]
		return cmp.Or(strings.Compare(x.architecture, y.architecture), x.parsed.Compare(y.parsed), strings.Compare(x.Payload, y.Payload))
	})
	for _, i := range order {
		n := &found[i]
		if at, twice := b.index[n.name()]; twice {
			if b.nodes[at].Payload != n.Payload {
				b.warn("%s is left out: %s has the same version and architecture, %s", n.Payload, b.nodes[at].Payload, n.name())
			}
			continue
		}
		b.index[n.name()] = len(b.nodes)
		b.nodes, b.releases = append(b.nodes, *n), append(b.releases, of[i])
	}
}

// metadata is that of the release and what people say about it.
func (b *builder) metadata(r Release, n *node) map[string]string {
	all := maps.Clone(r.Metadata)
	if all == nil {
		all = map[string]string{}
	}

	for _, name := range []string{n.Version, n.name()} {
		maps.Copy(all, b.data.metadata[name])
	}

	channels := cincinnati.Node{Metadata: all}.Channels()
	for _, name := range []string{n.Version, n.name()} {
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

// versions returns the entries of a list that a release has under a key of its metadata, or in its
// own lists of versions. It leaves out entries that are not versions, and warns of them.
func (b *builder) versions(n *node, key string, entries []string) []semver.Version {
	var found []semver.Version
	var wrong []string
	for _, entry := range entries {
		version, err := semver.Parse(strings.TrimSpace(entry))
		if err == nil {
			found = append(found, version)
		} else {
			wrong = append(wrong, fmt.Sprintf("%.100q", entry))
		}
	}

	if more := len(wrong) - maxNamed; more > 0 {
		wrong = append(wrong[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	if len(wrong) > 0 {
		b.warn("entries of %s of %s are left out, because they are no semantic versions: %s", key, n.name(), strings.Join(wrong, ", "))
	}

	return found
}

// maxNamed is how many wrong entries of a list a warning names; the others are counted.
const maxNamed = 5

// listed returns the versions that a release lists under a key of its metadata.
func (b *builder) listed(n *node, key string) []semver.Version {
	return b.versions(n, "metadata "+key, list(n.Metadata[key]))
}

// find returns the node of a version for an architecture.
func (b *builder) find(parsed semver.Version, architecture string) (int, bool) {
	if len(parsed.Build) > 0 && strings.Join(parsed.Build, ".") != architecture {
		return 0, false
	}
	parsed.Build = nil
	at, ok := b.index[parsed.String()+"+"+architecture]
	return at, ok
}

// addEdges adds what releases say, and what their metadata adds. Versions that nobody has
// make no edge.
func (b *builder) addEdges() {
	for i := range b.nodes {
		n, r := &b.nodes[i], &b.releases[i]
		for _, version := range slices.Concat(b.versions(n, "previous", r.Previous), b.listed(n, keyPreviousAdd)) {
			if from, ok := b.find(version, n.architecture); ok {
				b.addEdge(edge{from, i})
			}
		}
		for _, version := range slices.Concat(b.versions(n, "next", r.Next), b.listed(n, keyNextAdd)) {
			if to, ok := b.find(version, n.architecture); ok {
				b.addEdge(edge{i, to})
			}
		}
	}
}

func (b *builder) addEdge(e edge) {
	if e.from == e.to {
		b.warn("%s names itself as a version to be updated from or to", b.nodes[e.from].name())
		return
	}
	if _, known := b.edges[e]; !known {
		b.edges[e] = nil
	}
}

// addRisks tells of known issues.
func (b *builder) addRisks() {
	b.matchBlocks(func(e edge, blocked block) {
		if risk := blocked.risk; risk != nil && !slices.ContainsFunc(b.edges[e], risk.Equal) {
			b.edges[e] = append(b.edges[e], *risk)
		}
	})
	for _, e := range b.sortedEdges() {
		risks := b.edges[e]
		slices.SortFunc(risks, func(x, y cincinnati.Risk) int {
			return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.URL, y.URL), strings.Compare(x.Message, y.Message))
		})
		b.checkRisks(e, risks)
	}
}

// checkRisks leaves out what clusters would leave out, or refuse with all the rest.
func (b *builder) checkRisks(e edge, risks []cincinnati.Risk) {
	for i := 1; i < len(risks); i++ {
		if risks[i].Name == risks[i-1].Name {
			b.warn("the update from %s to %s is left out: two different known issues of it are called %q", b.nodes[e.from].name(), b.nodes[e.to].name(), risks[i].Name)
			delete(b.edges, e)
			return
		}
	}

	if len(risks) > cincinnati.MaxRisks {
		b.warn("the update from %s to %s is left out: it has %d known issues, more than the %d that it may have", b.nodes[e.from].name(), b.nodes[e.to].name(), len(risks), cincinnati.MaxRisks)
		delete(b.edges, e)
	}
}

// matchBlocks calls back for each edge that a block is about.
func (b *builder) matchBlocks(found func(edge, block)) {
	if len(b.data.blocks) == 0 {
		return
	}

	for e := range b.edges {
		to, from := &b.nodes[e.to], b.nodes[e.from].name()
		for _, name := range []string{to.Version, to.name()} {
			for _, blocked := range b.data.blocks[name] {
				if blocked.from.MatchString(from) {
					found(e, blocked)
				}
			}
		}
	}
}

// removeEdges takes out what is blocked, and what metadata takes out.
func (b *builder) removeEdges() {
	blocked := map[edge]bool{}
	b.matchBlocks(func(e edge, found block) {
		if found.risk == nil {
			blocked[e] = true
		}
	})
	arriving, leaving := map[int]*regexp.Regexp{}, map[int]bool{}
	for i := range b.nodes {
		n := &b.nodes[i]
		if text := n.Metadata[keyPreviousRemoveRegex]; text != "" {
			arriving[i] = b.pattern(n, text)
		}
		if isAll(n.Metadata[keyPreviousRemove]) {
			arriving[i] = everything
		} else {
			for _, version := range b.listed(n, keyPreviousRemove) {
				if from, ok := b.find(version, n.architecture); ok {
					blocked[edge{from, i}] = true
				}
			}
		}
		if isAll(n.Metadata[keyNextRemove]) {
			leaving[i] = true
		} else {
			for _, version := range b.listed(n, keyNextRemove) {
				if to, ok := b.find(version, n.architecture); ok {
					blocked[edge{i, to}] = true
				}
			}
		}
	}

	for e := range b.edges {
		if pattern := arriving[e.to]; leaving[e.from] || pattern != nil && pattern.MatchString(b.nodes[e.from].name()) {
			blocked[e] = true
		}
	}

	maps.DeleteFunc(b.edges, func(e edge, _ []cincinnati.Risk) bool { return blocked[e] })
}

// pattern reads the pattern of a release. One that cannot be understood might have meant
// any version.
func (b *builder) pattern(n *node, text string) *regexp.Regexp {
	pattern, err := regexp.Compile(text)
	if err == nil && len(text) <= maxPattern {
		return pattern
	}
	b.warn("all updates to %s are left out: its metadata %s is no regular expression", n.name(), keyPreviousRemoveRegex)
	return everything
}

var everything = regexp.MustCompile("")

// breakCircles takes edges to older releases out where edges lead in a circle: clients
// refuse such a graph as a whole.
func (b *builder) breakCircles() {
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
		if len(b.edges[e]) == 0 && arriving[e.from] > 0 && arriving[e.to] > 0 && b.nodes[e.to].parsed.LTE(b.nodes[e.from].parsed) {
			b.warn("the update from %s to %s is left out: it leads back in a circle of updates", b.nodes[e.from].name(), b.nodes[e.to].name())
			delete(b.edges, e)
		}
	}
}

func (b *builder) sortedEdges() []edge {
	return slices.SortedFunc(maps.Keys(b.edges), func(x, y edge) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to)) })
}

func (b *builder) graph() *Graph {
	g := &Graph{nodes: b.nodes}
	for _, e := range b.sortedEdges() {
		if risks := b.edges[e]; len(risks) > 0 {
			g.conditional = append(g.conditional, conditionalEdge{e, risks})
		} else {
			g.edges = append(g.edges, e)
		}
	}

	for i := range g.nodes {
		for _, key := range spent {
			delete(g.nodes[i].Metadata, key)
		}
	}
	return g
}

// isAll reports whether a list of versions to remove stands for all of them.
func isAll(text string) bool { return strings.TrimSpace(text) == "*" }

// list returns the items of a list with commas. Empty items are none.
func list(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(item string) bool { return strings.TrimSpace(item) == "" })
}
