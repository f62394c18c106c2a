package graphdata

import (
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

	nodes := &nodeList{data: data, index: map[string]int{}}
	nodes.addNodes(releases)

	edges := &edgeSet{nodeList: nodes, edges: map[edge][]cincinnati.Risk{}}
	edges.addEdges()
	edges.addRisks()
	edges.removeEdges()
	edges.breakCycles()
	return edges.buildGraph(), nodes.warnings
}
