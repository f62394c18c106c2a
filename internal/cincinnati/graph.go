package cincinnati

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Version of the protocol that graphs are written in.
const Version = 1

// Keys of the metadata of a node.
const (
	// MetadataURL leads to a page about the release.
	MetadataURL = "url"
	// MetadataChannels lists, with commas, the channels that the release is in.
	MetadataChannels = "io.openshift.upgrades.graph.release.channels"
	// MetadataArchitecture is "multi" for a release of several architectures.
	MetadataArchitecture = "release.openshift.io/architecture"
)

// Graph is what an update service tells of a channel. Its methods are for graphs that
// [Parse] or [Graph.Check] found no fault with.
type Graph struct {
	// Version of the protocol. Zero: the service does not tell.
	Version int `json:"version,omitempty"`
	// Nodes are the releases.
	Nodes []Node `json:"nodes"`
	// Edges are the recommended updates between them.
	Edges Edges `json:"edges"`
	// ConditionalEdges are the updates with known issues.
	ConditionalEdges []ConditionalEdges `json:"conditionalEdges"`

	versions []semver.Version // of the nodes; filled by Check
}

// Node is a release.
type Node struct {
	// Version is the semantic version of the release.
	Version string `json:"version"`
	// Payload is the pull spec of the release image, by digest.
	Payload string `json:"payload"`
	// Metadata are further texts by their keys.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Edges are updates as pairs of indices of nodes.
type Edges []Edge

// Edge is an update from one node to another, as indices.
type Edge struct{ From, To int }

// ConditionalEdges are updates that share their known issues.
type ConditionalEdges struct {
	// Edges are the updates.
	Edges []VersionEdge `json:"edges"`
	// Risks are the known issues.
	Risks []Risk `json:"risks"`
}

// VersionEdge is an update from one version to another.
type VersionEdge struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Risk is a known issue of an update.
type Risk struct {
	// URL leads to a page about the issue.
	URL string `json:"url"`
	// Name of the issue in CamelCase.
	Name string `json:"name"`
	// Message tells people what may happen.
	Message string `json:"message"`
	// MatchingRules tell which clusters have the issue: the first that can be evaluated
	// decides.
	MatchingRules []Rule `json:"matchingRules"`
}

// Types of rules.
const (
	RuleAlways = "Always"
	RulePromQL = "PromQL"
)

// Rule matches clusters.
type Rule struct {
	// Type is RuleAlways, RulePromQL, or one that this program does not know.
	Type string `json:"type"`
	// PromQL is the query of RulePromQL.
	PromQL *PromQL `json:"promql,omitempty"`
}

// PromQL asks the Prometheus of the cluster.
type PromQL struct {
	// PromQL is a query whose result is one sample: 1 matches, 0 does not.
	PromQL string `json:"promql"`
}

// IsKnown reports whether a rule has a type that this program knows, and its shape.
func (r Rule) IsKnown() bool {
	switch r.Type {
	case RuleAlways:
		return r.PromQL == nil
	case RulePromQL:
		return r.PromQL != nil && strings.TrimSpace(r.PromQL.PromQL) != ""
	}
	return false
}

// Equal reports whether two risks are the same in all that they say.
func (r Risk) Equal(other Risk) bool {
	return r.URL == other.URL && r.Name == other.Name && r.Message == other.Message &&
		slices.EqualFunc(r.MatchingRules, other.MatchingRules, func(a, b Rule) bool {
			return a.Type == b.Type && (a.PromQL == nil) == (b.PromQL == nil) && (a.PromQL == nil || *a.PromQL == *b.PromQL)
		})
}

// Channels are those that the release is in, sorted.
func (n Node) Channels() []string {
	var channels []string
	for channel := range strings.SplitSeq(n.Metadata[MetadataChannels], ",") {
		if channel = strings.TrimSpace(channel); channel != "" {
			channels = append(channels, channel)
		}
	}

	slices.Sort(channels)
	return slices.Compact(channels)
}

// URL leads to a page about the release. It is empty when the service names none.
func (n Node) URL() string { return n.Metadata[MetadataURL] }

// IsMulti reports whether the release is for several architectures.
func (n Node) IsMulti() bool { return n.Metadata[MetadataArchitecture] == "multi" }
