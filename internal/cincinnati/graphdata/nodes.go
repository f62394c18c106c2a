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
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// nodeList is the nodes of a graph under construction, and what their metadata states of edges.
type nodeList struct {
	data     *Data
	releases []Release // one for each node
	nodes    []node
	index    map[string]int
	warnings []string
}

func (l *nodeList) addWarning(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// addNodes adds the releases that are not removed, in an order that does not depend on the input
// order.
func (l *nodeList) addNodes(releases []Release) {
	var found []node
	var sources []Release
	for _, r := range releases {
		parsed, err := semver.Parse(r.Version)
		if err != nil {
			l.addWarning("%s is left out: its version %.100q is not a semantic version", r.Payload, r.Version)
			continue
		}

		// Build metadata is reserved for the architecture.
		parsed.Build = nil
		n := node{parsedVersion: parsed, architecture: cmp.Or(r.Architecture, r.Metadata[keyArchitecture])}
		n.Version = parsed.String()
		n.Payload = r.Payload
		n.Metadata = mergeMetadata(l.data, r, &n)
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
		if at, twice := l.index[n.nameWithArchitecture()]; twice {
			if l.nodes[at].Payload != n.Payload {
				l.addWarning("%s is left out: %s has the same version and architecture, %s", n.Payload, l.nodes[at].Payload, n.nameWithArchitecture())
			}
			continue
		}
		l.index[n.nameWithArchitecture()] = len(l.nodes)
		l.nodes = append(l.nodes, *n)
		l.releases = append(l.releases, sources[i])
	}
}

// mergeMetadata returns the metadata of a release, with that of the graph-data.
func mergeMetadata(data *Data, r Release, n *node) map[string]string {
	all := maps.Clone(r.Metadata)
	if all == nil {
		all = map[string]string{}
	}

	for _, name := range []string{n.Version, n.nameWithArchitecture()} {
		maps.Copy(all, data.metadata[name])
	}

	channels := cincinnati.Node{Metadata: all}.Channels()
	for _, name := range []string{n.Version, n.nameWithArchitecture()} {
		channels = append(channels, data.channels[name]...)
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
func (l *nodeList) parseVersions(n *node, key string, entries []string) []semver.Version {
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

	if len(invalid) > 0 {
		l.addWarning("entries of %s of %s are left out, because they are not semantic versions: %s", key, n.nameWithArchitecture(), excerpt.Join(invalid, maxNamedEntries, ", ", ", and "))
	}

	return found
}

// maxNamedEntries is the maximum number of invalid entries that a warning names. The others are
// counted.
const maxNamedEntries = 5

// listedVersions returns the versions that a release lists under a key of its metadata.
func (l *nodeList) listedVersions(n *node, key string) []semver.Version {
	return l.parseVersions(n, "metadata "+key, splitCommaList(n.Metadata[key]))
}

// findNodeByVersion returns the node of a version for an architecture.
func (l *nodeList) findNodeByVersion(parsed semver.Version, architecture string) (int, bool) {
	if len(parsed.Build) > 0 && strings.Join(parsed.Build, ".") != architecture {
		return 0, false
	}
	parsed.Build = nil
	at, ok := l.index[parsed.String()+"+"+architecture]
	return at, ok
}

// compileRemovedSources returns the pattern of the nodes whose edges to a node are removed. It is nil
// if the metadata of the node has neither a pattern nor a wildcard.
func (l *nodeList) compileRemovedSources(n *node) *regexp.Regexp {
	var pattern *regexp.Regexp
	if text := n.Metadata[keyPreviousRemoveRegex]; text != "" {
		pattern = l.compilePattern(n, text)
	}
	if isWildcard(n.Metadata[keyPreviousRemove]) {
		return matchEverything
	}
	return pattern
}

// findNodesToRemove returns the nodes whose versions a node lists under a key of its metadata. A
// wildcard lists none.
func (l *nodeList) findNodesToRemove(n *node, key string) []int {
	if isWildcard(n.Metadata[key]) {
		return nil
	}

	var found []int
	for _, version := range l.listedVersions(n, key) {
		if at, ok := l.findNodeByVersion(version, n.architecture); ok {
			found = append(found, at)
		}
	}

	return found
}

// compilePattern compiles the pattern of a release. An invalid pattern could have meant any
// version, so it matches everything.
func (l *nodeList) compilePattern(n *node, text string) *regexp.Regexp {
	pattern, err := regexp.Compile(text)
	if err == nil && len(text) <= maxPatternBytes {
		return pattern
	}
	l.addWarning("all updates to %s are left out: its metadata %s is not a regular expression", n.nameWithArchitecture(), keyPreviousRemoveRegex)
	return matchEverything
}

var matchEverything = regexp.MustCompile("")

// isWildcard reports whether a list of versions to remove means all versions.
func isWildcard(text string) bool { return strings.TrimSpace(text) == "*" }

// splitCommaList returns the non-empty items of a comma-separated list.
func splitCommaList(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(item string) bool { return strings.TrimSpace(item) == "" })
}
