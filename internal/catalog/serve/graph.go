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
	formatJSON    = "json"
	formatMermaid = "mermaid"
	typeJSON      = "application/json"
	typeMermaid   = "text/vnd.mermaid"
)

const (
	// graphEntries and graphEdges bound what one graph may have. The largest public
	// package has about 300 bundles in 20 channels.
	graphEntries = 20_000
	graphEdges   = 50_000
	// graphComparisons bounds how many versions are compared with ranges: a fifth of a
	// second.
	graphComparisons = 4_000_000
)

// graphError says why a graph is not given, with the code of the answer.
type graphError struct {
	code int
	text string
}

func (e *graphError) Error() string { return e.text }

// graph answers with the update graph of a package.
func (h *handler) graph(w *response, r *http.Request) {
	query, err := parseGraphQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}

	w.Header().Set("Vary", "Accept")
	if query.format == "" {
		query.format = formatJSON
		if prefersMermaid(r.Header) {
			query.format = formatMermaid
		}
	}

	content, ok := h.open(w, r)
	if !ok {
		return
	}

	defer content.Close()
	// The tag is that of the blobs, so that it costs nothing to say that they are the same.
	of, itself := content.Select(catalogstore.Query{Package: query.pkg}), content.Select(ownQuery(query.pkg))
	if of.Bytes == 0 && itself.Bytes == 0 {
		fail(w, http.StatusNotFound, fmt.Sprintf("catalog %q has no package %.253q", w.catalog, query.pkg))
		return
	}

	b := body{
		sum:         derived("graph/1", of.Sum+itself.Sum, query.pkg, query.channel, query.format),
		contentType: map[string]string{formatJSON: typeJSON, formatMermaid: typeMermaid}[query.format],
		modified:    of.Modified, size: -1,
		write: func(out io.Writer) error { return writeGraph(out, content, query) },
	}

	h.give(w, r, b)
}

// ownQuery selects the blob of a package itself.
func ownQuery(pkg string) catalogstore.Query {
	return catalogstore.Query{Schema: fbc.SchemaPackage, Name: pkg}
}

// graphFields is what a graph is made of.
var graphFields = func() *fields.Fields {
	f, err := fields.Parse("defaultChannel,entries,properties[" + fbc.PropertyPackage + "]")
	if err != nil {
		panic(err) // It is the same text each time.
	}
	return f
}()

// graphBlobs yields what a graph is made of.
func graphBlobs(content *catalogstore.Content, pkg string) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		for _, query := range []catalogstore.Query{ownQuery(pkg), {Package: pkg}} {
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

// writeGraph writes the update graph of a package.
func writeGraph(out io.Writer, content *catalogstore.Content, query graphQuery) error {
	found, err := fbc.LoadContent(query.pkg, graphBlobs(content, query.pkg))
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

	d := newDrawing(query.pkg, found)
	if err := d.check(); err != nil {
		return err
	}
	if query.format == formatMermaid {
		return upgradegraph.WriteMermaid(out, upgradegraph.Drawing{Graph: d.graph, Deprecations: found.Deprecations})
	}

	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d.answer())
}

// drawing is a package on the way to its graph.
type drawing struct {
	pkg      string
	content  *fbc.Content
	graph    *upgradegraph.Graph
	versions map[string]semver.Version
	// bundles are the names of those in the channels, and of those that these come after,
	// with the channels that have them.
	bundles map[string][]string
}

func newDrawing(pkg string, content *fbc.Content) *drawing {
	d := &drawing{pkg: pkg, content: content, versions: versionsOf(content.Bundles), bundles: map[string][]string{}}
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

// versionsOf reads the versions of bundles. One that cannot be read is none.
func versionsOf(bundles []fbc.Bundle) map[string]semver.Version {
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

// check refuses what is too large to be worked out for anyone who asks.
func (d *drawing) check() error {
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
	case len(d.bundles) > graphEntries || entries > graphEntries:
		size = fmt.Sprintf("%d entries", graphEntries)
	case len(d.bundles)*ranges > graphComparisons || entries*deprecated > graphComparisons:
		size = fmt.Sprintf("%d pairs of a version and a range", graphComparisons)
	case d.count() > graphEdges:
		size = fmt.Sprintf("%d updates", graphEdges)
	default:
		return nil
	}

	return &graphError{http.StatusUnprocessableEntity, fmt.Sprintf("the graph of package %q has more than %s: ask for one channel of it", d.pkg, size)}
}

// count counts the edges, up to one more than there may be.
func (d *drawing) count() int {
	count := 0
	for name := range d.bundles {
		if count += len(d.graph.Successors(d.node(name))); count > graphEdges {
			break
		}
	}
	return count
}

func (d *drawing) node(name string) upgradegraph.Node {
	node := upgradegraph.Node{Name: name}
	if version, known := d.versions[name]; known {
		node.Version = &version
	}
	return node
}

// graphAnswer is a graph as JSON.
type graphAnswer struct {
	Package        string         `json:"package"`
	DefaultChannel string         `json:"defaultChannel,omitempty"`
	Deprecation    string         `json:"deprecation,omitempty"`
	Channels       []graphChannel `json:"channels"`
	// Bundles are sorted by version, the newest first and those without one last.
	Bundles []graphBundle `json:"bundles"`
	// Edges are those that leave the bundles, in the order of these.
	Edges []graphEdge `json:"edges"`
	// Problems are what of the catalog could not be read.
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
	// Version is empty when the catalog does not have the bundle, or no version of it.
	Version string `json:"version,omitempty"`
	// Channels that have it as an entry. None has one that others only come after.
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

func (d *drawing) answer() graphAnswer {
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

	for _, name := range d.sorted() {
		shown := graphBundle{
			Name: name, Channels: d.bundles[name],
			Deprecation: deprecations[fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: name}],
		}
		if version, known := d.versions[name]; known {
			shown.Version = version.String()
		}
		answer.Bundles = append(answer.Bundles, shown)
		for _, edge := range d.graph.Successors(d.node(name)) {
			answer.Edges = append(answer.Edges, graphEdge(edge))
		}
	}

	for _, problem := range d.graph.Problems() {
		answer.Problems = append(answer.Problems, problem.Error())
	}

	return answer
}

// sorted returns the names of the bundles, the newest first.
func (d *drawing) sorted() []string {
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
