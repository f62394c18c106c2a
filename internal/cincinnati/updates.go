package cincinnati

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// NotFoundError is returned when a graph does not contain a version.
type NotFoundError struct {
	// Version is the missing version.
	Version string
}

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the update graph has no release %s", e.Version)
}

// Updates are the updates of a cluster.
type Updates struct {
	// Current is the current release of the cluster.
	Current Node
	// Available are the releases without known issues, by descending version.
	Available []Node
	// Conditional are the releases with known issues, by descending version. None of them is in
	// Available.
	Conditional []ConditionalUpdate
	// Notes describe targets that are left out, or that are in both kinds of edges.
	Notes []string
}

// ConditionalUpdate is a release with known issues.
type ConditionalUpdate struct {
	Node
	// Risks are the known issues, with only the rules that this program knows. Each has at least
	// one.
	Risks []Risk
}

// Updates returns the updates of a cluster at a version: the targets of the edges that start
// there.
//
// A target in both edges and conditionalEdges is conditional. A target is left out if one of its
// risks is incomplete or has no known rule, or if several entries lead to its image. It could
// otherwise be mistaken for a recommended one.
//
// Updates returns a *NotFoundError if the graph has no such version, and an *Error if a
// conditional edge starts there and leads to no node.
func (g *Graph) Updates(version semver.Version) (*Updates, error) {
	current, ok := g.findNodeByVersion(version)
	if !ok {
		return nil, &NotFoundError{Version: version.String()}
	}

	u := &Updates{Current: g.Nodes[current]}
	conditional, refused, err := g.findConditionalTargets(current, u)
	if err != nil {
		return nil, err
	}

	var available []int
	offered := make([]bool, len(g.Nodes))
	for _, edge := range g.Edges {
		if edge.From != current || offered[edge.To] {
			continue
		}

		offered[edge.To] = true
		image := g.Nodes[edge.To].Payload
		_, both := conditional[image]
		switch {
		case image == "":
			u.addNote("%s is left out: it has no release image", g.Nodes[edge.To].Version)
		case both || refused[image]:
			u.addNote("%s is offered both with and without known issues: it is treated as one with them", g.Nodes[edge.To].Version)
		default:
			available = append(available, edge.To)
		}
	}

	for _, at := range g.sortNodesDescending(available) {
		u.Available = append(u.Available, g.Nodes[at])
	}

	var targets []int
	for _, target := range conditional {
		targets = append(targets, target.node)
	}

	for _, at := range g.sortNodesDescending(targets) {
		u.Conditional = append(u.Conditional, ConditionalUpdate{Node: g.Nodes[at], Risks: conditional[g.Nodes[at].Payload].risks})
	}

	return u, nil
}

// Multi returns the multi-architecture release with a version. It is the target of
// single-architecture clusters that should become multi-architecture clusters.
func (g *Graph) Multi(version semver.Version) (Node, bool) {
	at, ok := g.findNodeByVersion(version)
	if !ok || !g.Nodes[at].IsMulti() {
		return Node{}, false
	}
	return g.Nodes[at], true
}

func (u *Updates) addNote(format string, args ...any) {
	u.Notes = append(u.Notes, fmt.Sprintf(format, args...))
}

// findNodeByVersion returns the index of the node with a version: the one with the same text, or
// otherwise one with an equal version, which ignores build metadata.
func (g *Graph) findNodeByVersion(version semver.Version) (int, bool) {
	text, equal := version.String(), -1
	for i, node := range g.Nodes {
		if node.Version == text {
			return i, true
		}
		if equal < 0 && g.versions[i].Equals(version) {
			equal = i
		}
	}

	return equal, equal >= 0
}

// conditionalTarget is the target of a conditional update.
type conditionalTarget struct {
	node  int
	risks []Risk
}

// findConditionalTargets returns the conditional updates of a node by image, and the images that
// are left out.
func (g *Graph) findConditionalTargets(current int, u *Updates) (map[string]conditionalTarget, map[string]bool, error) {
	byVersion := make(map[string]int, len(g.Nodes))
	for i, node := range g.Nodes {
		byVersion[node.Version] = i
	}

	found := conditionalTargets{targets: map[string]conditionalTarget{}, refused: map[string]bool{}}
	for i, entry := range g.ConditionalEdges {
		for _, edge := range entry.Edges {
			if edge.From != g.Nodes[current].Version {
				continue
			}

			to, ok := byVersion[edge.To]
			if !ok {
				return nil, nil, newGraphError(fmt.Sprintf("conditionalEdges[%d]", i), "no node for conditional update %s", excerpt.Line(edge.To, maxQuotedBytes))
			}

			image := g.Nodes[to].Payload
			if to == current || image == "" {
				u.addNote("%s is left out: it has no release image, or is the one that the cluster runs", edge.To)
				continue
			}
			if err := found.addTarget(image, to, entry.Risks); err != nil {
				u.addNote("%s is left out: %v", edge.To, err)
			}
		}
	}

	for image := range found.refused {
		delete(found.targets, image)
	}

	return found.targets, found.refused, nil
}

// conditionalTargets are the conditional updates of a node by image, and the images that are left
// out.
type conditionalTargets struct {
	targets map[string]conditionalTarget
	refused map[string]bool
}

// addTarget adds the conditional update to a node. It refuses an image that it gets twice, or whose
// risks are not usable, and returns why. Further targets with a refused image are ignored.
func (c *conditionalTargets) addTarget(image string, to int, risks []Risk) error {
	if c.refused[image] {
		return nil
	}
	if _, twice := c.targets[image]; twice {
		c.refused[image] = true
		return errors.New("several entries of conditionalEdges lead to it")
	}

	usable, err := filterUsableRisks(risks)
	if err != nil {
		c.refused[image] = true
		return err
	}

	c.targets[image] = conditionalTarget{to, usable}
	return nil
}

// filterUsableRisks removes the rules that this program does not know. It returns an error if a
// risk is incomplete or cannot be evaluated.
func filterUsableRisks(risks []Risk) ([]Risk, error) {
	if len(risks) == 0 {
		return nil, fmt.Errorf("it is conditional and names no risk")
	}

	names := map[string]bool{}
	usable := make([]Risk, 0, len(risks))
	for i, risk := range risks {
		switch {
		case risk.Name == "" || risk.URL == "" || risk.Message == "":
			return nil, fmt.Errorf("risk %d (%q) lacks a name, a message or a URL", i+1, excerpt.Line(risk.Name, maxQuotedBytes))
		case names[risk.Name]:
			return nil, fmt.Errorf("two risks have the name %q", excerpt.Line(risk.Name, maxQuotedBytes))
		}

		if _, err := url.ParseRequestURI(risk.URL); err != nil {
			return nil, fmt.Errorf("the URL %q of its risk %q is invalid", excerpt.Line(risk.URL, maxQuotedBytes), excerpt.Line(risk.Name, maxQuotedBytes))
		}

		names[risk.Name] = true
		risk.MatchingRules = slices.DeleteFunc(slices.Clone(risk.MatchingRules), func(r Rule) bool { return !r.IsKnown() })
		if len(risk.MatchingRules) == 0 {
			return nil, fmt.Errorf("its risk %q has no matching rule that this program knows", excerpt.Line(risk.Name, maxQuotedBytes))
		}

		usable = append(usable, risk)
	}

	return usable, nil
}

// sortNodesDescending sorts node indices by descending version.
func (g *Graph) sortNodesDescending(nodes []int) []int {
	slices.SortFunc(nodes, func(a, b int) int {
		return cmp.Or(g.versions[b].Compare(g.versions[a]), cmp.Compare(g.Nodes[a].Version, g.Nodes[b].Version))
	})
	return nodes
}
