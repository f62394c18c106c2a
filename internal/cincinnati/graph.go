package cincinnati

import (
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// Version is the version of the protocol.
const Version = 1

// Keys of the metadata of a node.
const (
	// MetadataURL is the URL of a page about the release.
	MetadataURL = "url"
	// MetadataChannels is the comma-separated list of the release's channels.
	MetadataChannels = "io.openshift.upgrades.graph.release.channels"
	// MetadataArchitecture is "multi" for a multi-architecture release.
	MetadataArchitecture = "release.openshift.io/architecture"
)

// Graph is the update graph of a channel. Its methods require that [Parse] or [Graph.Check]
// succeeded.
type Graph struct {
	// Version is the version of the protocol. Zero means that the service did not state it.
	Version int `json:"version,omitempty"`
	// Nodes are the releases.
	Nodes []Node `json:"nodes"`
	// Edges are the recommended updates between them.
	Edges Edges `json:"edges"`
	// ConditionalEdges are the updates with known issues.
	ConditionalEdges []ConditionalEdges `json:"conditionalEdges"`

	versions []semver.Version // parsed versions of the nodes; set by Check
}

// Node is a release.
type Node struct {
	// Version is the semantic version of the release.
	Version string `json:"version"`
	// Payload is the pull spec of the release image, by digest.
	Payload string `json:"payload"`
	// Metadata are additional values by key.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Edges are updates as pairs of node indices.
type Edges []Edge

// Edge is an update from one node to another, as node indices.
type Edge struct{ From, To int }

// ConditionalEdges are updates with the same known issues.
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
	// URL is the URL of a page about the issue.
	URL string `json:"url"`
	// Name is the name of the issue in CamelCase.
	Name string `json:"name"`
	// Message describes the possible consequences to administrators.
	Message string `json:"message"`
	// MatchingRules determine which clusters are affected. The first rule that can be evaluated
	// decides.
	MatchingRules []Rule `json:"matchingRules"`
}

// Types of rules.
const (
	RuleAlways = "Always"
	RulePromQL = "PromQL"
)

// Rule matches affected clusters.
type Rule struct {
	// Type is RuleAlways, RulePromQL, or a type that this program does not know.
	Type string `json:"type"`
	// PromQL is the query of RulePromQL.
	PromQL *PromQL `json:"promql,omitempty"`
}

// PromQL is a query of the cluster's Prometheus.
type PromQL struct {
	// PromQL is a query with one sample as its result: 1 matches, 0 does not.
	PromQL string `json:"promql"`
}

// IsKnown reports whether this program knows the type of a rule, and the rule is complete.
func (r Rule) IsKnown() bool {
	switch r.Type {
	case RuleAlways:
		return r.PromQL == nil
	case RulePromQL:
		return r.PromQL != nil && strings.TrimSpace(r.PromQL.PromQL) != ""
	}
	return false
}

// Equal reports whether all fields of two risks are equal.
func (r Risk) Equal(other Risk) bool {
	return r.URL == other.URL && r.Name == other.Name && r.Message == other.Message &&
		slices.EqualFunc(r.MatchingRules, other.MatchingRules, func(a, b Rule) bool {
			return a.Type == b.Type && (a.PromQL == nil) == (b.PromQL == nil) && (a.PromQL == nil || *a.PromQL == *b.PromQL)
		})
}

// Channels returns the channels of the release, sorted.
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

// URL returns the URL of a page about the release; "" if the service states none.
func (n Node) URL() string { return n.Metadata[MetadataURL] }

// IsMulti reports whether the release is a multi-architecture release.
func (n Node) IsMulti() bool { return n.Metadata[MetadataArchitecture] == "multi" }
