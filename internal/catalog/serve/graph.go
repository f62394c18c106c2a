package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"

	"github.com/blang/semver/v4"

	"github.com/mainstay-dev/mainstay/internal/catalogclient/fields"
	"github.com/mainstay-dev/mainstay/internal/catalogstore"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// Formats of a graph and their content types.
const (
	graphFormatJSON    = "json"
	graphFormatMermaid = "mermaid"
	contentTypeJSON    = "application/json"
	contentTypeMermaid = "text/vnd.mermaid"
)

const (
	// maxGraphEntries and maxGraphEdges limit the size of a graph. The largest public package has about
	// 300 bundles in 20 channels.
	maxGraphEntries = 20_000
	maxGraphEdges   = 50_000
	// maxGraphComparisons limits the number of comparisons of versions with ranges. They take about
	// a fifth of a second.
	maxGraphComparisons = 4_000_000
)

// graphError is an error with the HTTP status code of the response.
type graphError struct {
	statusCode int
	text       string
}

func (e *graphError) Error() string { return e.text }

// serveGraph serves the upgrade graph of a package.
func (h *handler) serveGraph(w *responseWriter, r *http.Request) {
	query, err := parseGraphQuery(r.URL.RawQuery)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}

	w.Header().Set("Vary", "Accept")
	if query.format == "" {
		query.format = graphFormatJSON
		if prefersMermaid(r.Header) {
			query.format = graphFormatMermaid
		}
	}

	content, ok := h.openContent(w, r)
	if !ok {
		return
	}
	defer content.Close()
	// The entity tag is derived from the blobs, so that a conditional request does not build the graph.
	members, own := content.Select(catalogstore.Query{Package: query.pkg}), content.Select(packageBlobQuery(query.pkg))
	if members.Bytes == 0 && own.Bytes == 0 {
		writeError(w, http.StatusNotFound, fmt.Sprintf("catalog %q has no package %.253q", w.catalog, query.pkg))
		return
	}

	b := responseBody{
		sum:         deriveSum("graph/1", members.Sum+own.Sum, query.pkg, query.channel, query.format),
		contentType: map[string]string{graphFormatJSON: contentTypeJSON, graphFormatMermaid: contentTypeMermaid}[query.format],
		modified:    members.Modified, size: -1,
		writeTo: func(out io.Writer) error { return writeGraph(out, content, query) },
	}

	h.serveBody(w, r, b)
}

// packageBlobQuery returns the query for the olm.package blob of a package.
func packageBlobQuery(pkg string) catalogstore.Query {
	return catalogstore.Query{Schema: fbc.SchemaPackage, Name: pkg}
}

// graphFields are the fields of blobs that a graph is built from.
var graphFields = func() *fields.Fields {
	f, err := fields.Parse("defaultChannel,entries,properties[" + fbc.PropertyPackage + "]")
	if err != nil {
		panic(err) // The text is constant.
	}
	return f
}()

// readGraphBlobs yields the blobs of a package, reduced to graphFields.
func readGraphBlobs(content *catalogstore.Content, pkg string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for _, query := range []catalogstore.Query{packageBlobQuery(pkg), {Package: pkg}} {
			for meta, err := range content.Scan(query) {
				if err == nil {
					meta.Blob = graphFields.Append(nil, meta.Blob)
				}
				if !yield(meta, err) || err != nil {
					return
				}
			}
		}
	}
}

// writeGraph writes the upgrade graph of a package. It returns a *graphError if there is none or if it is too
// large.
func writeGraph(out io.Writer, content *catalogstore.Content, query graphQuery) error {
	found, err := fbc.LoadContent(query.pkg, readGraphBlobs(content, query.pkg))
	var wrong *fbc.Error
	if errors.As(err, &wrong) {
		return &graphError{http.StatusUnprocessableEntity, fmt.Sprintf("package %q has no graph: %v", query.pkg, err)}
	}
	if err != nil {
		return err
	}

	if query.channel != "" {
		found.Channels = slices.DeleteFunc(found.Channels, func(c fbc.Channel) bool { return c.Name != query.channel })
		if len(found.Channels) == 0 {
			return &graphError{http.StatusNotFound, fmt.Sprintf("package %q has no channel %.253q", query.pkg, query.channel)}
		}
	}

	d := newGraphBuilder(query.pkg, found)
	if err := d.checkLimits(); err != nil {
		return err
	}
	if query.format == graphFormatMermaid {
		return upgradegraph.WriteMermaid(out, upgradegraph.Drawing{Graph: d.graph, Deprecations: found.Deprecations})
	}

	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d.buildAnswer())
}

// graphBuilder builds the graph of a package.
type graphBuilder struct {
	pkg      string
	content  *fbc.Content
	graph    *upgradegraph.Graph
	versions map[string]semver.Version
	// bundles contains the names of the bundles in the channels, and of the bundles that they replace
	// or skip, with the channels that contain them.
	bundles map[string][]string
}

func newGraphBuilder(pkg string, content *fbc.Content) *graphBuilder {
	d := &graphBuilder{pkg: pkg, content: content, versions: parseBundleVersions(content.Bundles), bundles: map[string][]string{}}
	for _, channel := range content.Channels {
		for _, entry := range channel.Entries {
			d.bundles[entry.Name] = append(d.bundles[entry.Name], channel.Name)
			for _, older := range append([]string{entry.Replaces}, entry.Skips...) {
				if _, known := d.bundles[older]; older != "" && !known {
					d.bundles[older] = nil
				}
			}
		}
	}

	d.graph = upgradegraph.New(pkg, content.Channels, func(bundle string) (semver.Version, bool) {
		version, ok := d.versions[bundle]
		return version, ok
	})
	return d
}

// parseBundleVersions returns the versions of bundles. Bundles with an invalid version are omitted.
func parseBundleVersions(bundles []fbc.Bundle) map[string]semver.Version {
	versions := map[string]semver.Version{}
	for _, bundle := range bundles {
		for _, property := range bundle.Properties {
			var value fbc.PackageProperty
			if property.Type != fbc.PropertyPackage || json.Unmarshal(property.Value, &value) != nil {
				continue
			}
			if version, err := semver.Parse(value.Version); err == nil {
				versions[bundle.Name] = version
			}
		}
	}

	return versions
}

// checkLimits returns a *graphError if the graph is too large to be built on request.
func (d *graphBuilder) checkLimits() error {
	entries, ranges := 0, 0
	for _, channel := range d.content.Channels {
		entries += len(channel.Entries)
		for _, entry := range channel.Entries {
			if entry.SkipRange != "" {
				ranges++
			}
		}
	}

	deprecated := 0
	if d.content.Deprecations != nil {
		deprecated = len(d.content.Deprecations.Entries)
	}

	var size string
	switch {
	case len(d.bundles) > maxGraphEntries || entries > maxGraphEntries:
		size = fmt.Sprintf("%d entries", maxGraphEntries)
	case len(d.bundles)*ranges > maxGraphComparisons || entries*deprecated > maxGraphComparisons:
		size = fmt.Sprintf("%d pairs of a version and a range", maxGraphComparisons)
	case d.countEdges() > maxGraphEdges:
		size = fmt.Sprintf("%d updates", maxGraphEdges)
	default:
		return nil
	}

	return &graphError{http.StatusUnprocessableEntity, fmt.Sprintf("the graph of package %q has more than %s: ask for one channel of it", d.pkg, size)}
}

// countEdges returns the number of edges. It stops counting above maxGraphEdges.
func (d *graphBuilder) countEdges() int {
	count := 0
	for name := range d.bundles {
		if count += len(d.graph.Successors(d.newGraphNode(name))); count > maxGraphEdges {
			break
		}
	}
	return count
}

func (d *graphBuilder) newGraphNode(name string) upgradegraph.Node {
	node := upgradegraph.Node{Name: name}
	if version, known := d.versions[name]; known {
		node.Version = &version
	}
	return node
}

// graphAnswer is the JSON form of a graph.
type graphAnswer struct {
	Package        string         `json:"package"`
	DefaultChannel string         `json:"defaultChannel,omitempty"`
	Deprecation    string         `json:"deprecation,omitempty"`
	Channels       []graphChannel `json:"channels"`
	// Bundles are sorted by version, newest first. Bundles without a version are last.
	Bundles []graphBundle `json:"bundles"`
	// Edges are the outgoing edges of the bundles, in the order of the bundles.
	Edges []graphEdge `json:"edges"`
	// Problems are the parts of the catalog that could not be parsed.
	Problems []string `json:"problems,omitempty"`
}

type graphChannel struct {
	Name        string   `json:"name"`
	Heads       []string `json:"heads"`
	Entries     []string `json:"entries"`
	Deprecation string   `json:"deprecation,omitempty"`
}

type graphBundle struct {
	Name string `json:"name"`
	// Version is empty if the catalog does not contain the bundle or its version.
	Version string `json:"version,omitempty"`
	// Channels are the channels with the bundle as an entry. The list is empty for a bundle that is only
	// replaced or skipped.
	Channels    []string `json:"channels,omitempty"`
	Deprecation string   `json:"deprecation,omitempty"`
}

type graphEdge struct {
	From      string            `json:"from"`
	To        string            `json:"to"`
	Kind      upgradegraph.Kind `json:"kind"`
	SkipRange string            `json:"skipRange,omitempty"`
	Channels  []string          `json:"channels"`
}

func (d *graphBuilder) buildAnswer() graphAnswer {
	deprecations := map[fbc.DeprecationReference]string{}
	if d.content.Deprecations != nil {
		for _, entry := range d.content.Deprecations.Entries {
			deprecations[entry.Reference] = entry.Message
		}
	}

	answer := graphAnswer{
		Package: d.pkg, Deprecation: deprecations[fbc.DeprecationReference{Schema: fbc.SchemaPackage}],
		Channels: []graphChannel{}, Bundles: []graphBundle{}, Edges: []graphEdge{},
	}
	if d.content.Package != nil {
		answer.DefaultChannel = d.content.Package.DefaultChannel
	}

	for _, channel := range d.content.Channels {
		shown := graphChannel{
			Name: channel.Name, Heads: append([]string{}, d.graph.Heads(channel.Name)...), Entries: []string{},
			Deprecation: deprecations[fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: channel.Name}],
		}
		for _, entry := range channel.Entries {
			shown.Entries = append(shown.Entries, entry.Name)
		}
		answer.Channels = append(answer.Channels, shown)
	}

	for _, name := range d.sortedBundleNames() {
		shown := graphBundle{
			Name: name, Channels: d.bundles[name],
			Deprecation: deprecations[fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: name}],
		}
		if version, known := d.versions[name]; known {
			shown.Version = version.String()
		}
		answer.Bundles = append(answer.Bundles, shown)
		for _, edge := range d.graph.Successors(d.newGraphNode(name)) {
			answer.Edges = append(answer.Edges, graphEdge(edge))
		}
	}

	for _, problem := range d.graph.Problems() {
		answer.Problems = append(answer.Problems, problem.Error())
	}

	return answer
}

// sortedBundleNames returns the names of the bundles, newest version first.
func (d *graphBuilder) sortedBundleNames() []string {
	return slices.SortedFunc(maps.Keys(d.bundles), func(a, b string) int {
		va, knownA := d.versions[a]
		vb, knownB := d.versions[b]
		switch {
		case knownA && knownB:
			return cmp.Or(vb.Compare(va), cmp.Compare(a, b))
		case knownA != knownB:
			if knownA {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
}
