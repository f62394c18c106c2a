package cincinnati

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"

	"github.com/blang/semver/v4"
)

// NotFoundError says that a graph does not have the version of a cluster.
type NotFoundError struct {
	// Version of the cluster.
	Version string
}

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the update graph has no release %s", e.Version)
}

// Updates is what a graph offers to a cluster.
type Updates struct {
	// Current is the release that the cluster runs.
	Current Node
	// Available are the releases without known issues, by descending version.
	Available []Node
	// Conditional are those with known issues, by descending version. None is in Available.
	Conditional []ConditionalUpdate
	// Notes tell of targets that are left out, or that the graph has in both ways.
	Notes []string
}

// ConditionalUpdate is a release with known issues.
type ConditionalUpdate struct {
	Node
	// Risks are the known issues, with only those rules that this program knows: one at
	// least.
	Risks []Risk
}

// Updates tells what the graph offers to a cluster of a version: the releases to which an
// edge leads from it, and no others.
//
// A target that stands both in edges and in conditionalEdges is conditional. A target is
// left out, so that nobody takes it for recommended, when one of its risks is not told in
// full, or has no rule that this program knows, or when several entries lead to its image.
//
// A version that the graph does not have is a *NotFoundError; a conditional edge that
// leaves the version and leads to no node is an *Error.
func (g *Graph) Updates(version semver.Version) (*Updates, error) {
	current, ok := g.find(version)
	if !ok {
		return nil, &NotFoundError{Version: version.String()}
	}

	u := &Updates{Current: g.Nodes[current]}
	conditional, refused, err := g.conditional(current, u)
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
			u.note("%s is left out: it has no release image", g.Nodes[edge.To].Version)
		case both || refused[image]:
			u.note("%s is offered both with and without known issues: it is treated as one with them", g.Nodes[edge.To].Version)
		default:
			available = append(available, edge.To)
		}
	}

	for _, at := range g.descending(available) {
		u.Available = append(u.Available, g.Nodes[at])
	}

	var targets []int
	for _, target := range conditional {
		targets = append(targets, target.node)
	}

	for _, at := range g.descending(targets) {
		u.Conditional = append(u.Conditional, ConditionalUpdate{Node: g.Nodes[at], Risks: conditional[g.Nodes[at].Payload].risks})
	}

	return u, nil
}

// Multi returns the release for several architectures that has a version. It is for clusters
// of one architecture that are to become such.
func (g *Graph) Multi(version semver.Version) (Node, bool) {
	at, ok := g.find(version)
	if !ok || !g.Nodes[at].IsMulti() {
		return Node{}, false
	}
	return g.Nodes[at], true
}

func (u *Updates) note(format string, args ...any) {
	u.Notes = append(u.Notes, fmt.Sprintf(format, args...))
}

// find returns the node of a version: the one with the same text, else one with an equal
// version, for what stands behind a "+" does not count.
func (g *Graph) find(version semver.Version) (int, bool) {
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

// target of a conditional update.
type target struct {
	node  int
	risks []Risk
}

// conditional returns the conditional updates of a node by their image, and the images that
// are left out.
func (g *Graph) conditional(current int, u *Updates) (map[string]target, map[string]bool, error) {
	byVersion := make(map[string]int, len(g.Nodes))
	for i, node := range g.Nodes {
		byVersion[node.Version] = i
	}

	targets, refused := map[string]target{}, map[string]bool{}
	for i, entry := range g.ConditionalEdges {
		for _, edge := range entry.Edges {
			if edge.From != g.Nodes[current].Version {
				continue
			}

			to, ok := byVersion[edge.To]
			if !ok {
				return nil, nil, wrong(fmt.Sprintf("conditionalEdges[%d]", i), "no node for conditional update %s", abbreviate(edge.To))
			}

			image := g.Nodes[to].Payload
			if to == current || image == "" {
				u.note("%s is left out: it has no release image, or is the one that the cluster runs", edge.To)
				continue
			}

			if _, twice := targets[image]; twice || refused[image] {
				if !refused[image] {
					u.note("%s is left out: several entries of conditionalEdges lead to it", edge.To)
				}
				refused[image] = true
				continue
			}

			risks, err := usable(entry.Risks)
			if err != nil {
				u.note("%s is left out: %v", edge.To, err)
				refused[image] = true
				continue
			}

			targets[image] = target{to, risks}
		}
	}

	for image := range refused {
		delete(targets, image)
	}

	return targets, refused, nil
}

// usable returns risks without the rules that this program does not know. It fails when it
// cannot be told whether a risk applies to a cluster, or what it is.
func usable(risks []Risk) ([]Risk, error) {
	if len(risks) == 0 {
		return nil, fmt.Errorf("it is conditional and names no risk")
	}

	names := map[string]bool{}
	usable := make([]Risk, 0, len(risks))
	for i, risk := range risks {
		switch {
		case risk.Name == "" || risk.URL == "" || risk.Message == "":
			return nil, fmt.Errorf("risk %d (%q) lacks a name, a message or a URL", i+1, abbreviate(risk.Name))
		case names[risk.Name]:
			return nil, fmt.Errorf("two risks have the name %q", abbreviate(risk.Name))
		}

		if _, err := url.ParseRequestURI(risk.URL); err != nil {
			return nil, fmt.Errorf("the URL %q of its risk %q is none", abbreviate(risk.URL), abbreviate(risk.Name))
		}

		names[risk.Name] = true
		risk.MatchingRules = slices.DeleteFunc(slices.Clone(risk.MatchingRules), func(r Rule) bool { return !r.IsKnown() })
		if len(risk.MatchingRules) == 0 {
			return nil, fmt.Errorf("its risk %q has no matching rule that this program knows", abbreviate(risk.Name))
		}

		usable = append(usable, risk)
	}

	return usable, nil
}

// descending sorts nodes, the highest version first.
func (g *Graph) descending(nodes []int) []int {
	slices.SortFunc(nodes, func(a, b int) int {
		return cmp.Or(g.versions[b].Compare(g.versions[a]), cmp.Compare(g.Nodes[a].Version, g.Nodes[b].Version))
	})
	return nodes
}
