package indexdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

const (
	// maxTableRows bounds each table of an index. The largest public index had about
	// 100,000 images.
	maxTableRows = 2_000_000
	// maxChannelEntries bounds the rows of the channels of one package, which are kept in
	// memory. A hundred bundles in ten channels that each skip all previous ones have
	// 100,000.
	maxChannelEntries = 200_000
	// maxNestingDepth is how deep values may be nested. It is the limit of file-based
	// catalogs.
	maxNestingDepth = 500
)

// Metas yields the content of the index as the blobs of a file-based catalog. Packages are
// sorted by name. Each package is followed by its channels and its bundles, sorted by name.
// At most the channels of one package and one bundle are kept in memory.
//
// Bundles that are deprecated, that have no version, or that have neither an image nor
// manifests are left out. So are channels that are empty without them. The content is not
// validated: fbc.Validate does that.
//
// Nothing more is yielded after an error.
func (x *Index) Metas(ctx context.Context) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		r := &metaReader{Index: x, yield: yield}
		if err := r.readAll(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(fbc.Meta{}, fmt.Errorf("reading the index database: %w", explainSQLiteError(err)))
		}
	}
}

// APIs returns the APIs that bundles of the index provide or require, with the plural names
// of their resources, which a file-based catalog does not contain.
func (x *Index) APIs(ctx context.Context) ([]API, error) {
	rows, err := x.conn.QueryContext(ctx, `SELECT coalesce(CAST(group_name AS TEXT), ''), coalesce(CAST(version AS TEXT), ''),
		coalesce(CAST(kind AS TEXT), ''), CAST(plural AS TEXT) FROM api ORDER BY 1, 2, 3 LIMIT ?`, maxTableRows)
	if err != nil {
		return nil, fmt.Errorf("reading the APIs of the index database: %w", explainSQLiteError(err))
	}

	var apis []API
	err = forEachRow(rows, func() error {
		var api API
		err := rows.Scan(&api.Group, &api.Version, &api.Kind, &api.Plural)
		apis = append(apis, api)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the APIs of the index database: %w", explainSQLiteError(err))
	}

	return apis, nil
}

// errStopped is returned when the consumer stops the iteration.
var errStopped = errors.New("stopped")

// metaReader is one pass over an index.
type metaReader struct {
	*Index
	yield func(fbc.Meta, error) bool

	// packages are the default channels by package.
	packages map[string]string
	// heads are the heads of channels, by package and channel.
	heads map[[2]string]string
	// deprecated are the deprecated bundles.
	deprecated map[string]bool
	// properties, dependencies and images are row numbers by the name of their bundle. The
	// tables have no index for it.
	properties, dependencies, images map[string][]int64

	// served is set when a server reads. Blobs then contain their Record, which has the
	// APIs that bundles provide and require.
	served             bool
	provided, required map[string][]API

	statements
}

// whereRowIDs selects rows by a JSON list of their numbers.
const whereRowIDs = ` WHERE rowid IN (SELECT value FROM json_each(?)) ORDER BY 1`

// statements are prepared statements that are run for every bundle.
type statements struct {
	find, csv, content, property, dependency, image *sql.Stmt
}

func (s *statements) prepareStatements(ctx context.Context, conn *connection) error {
	for query, statement := range map[string]**sql.Stmt{
		`SELECT CAST(version AS TEXT), CAST(bundlepath AS TEXT), CAST(skiprange AS TEXT),
			coalesce(length(bundle), 0) + coalesce(length(csv), 0) > 0 FROM operatorbundle WHERE name = ?`: &s.find,
		`SELECT CAST(csv AS TEXT) FROM operatorbundle WHERE name = ?`:                       &s.csv,
		`SELECT CAST(csv AS BLOB), CAST(bundle AS BLOB) FROM operatorbundle WHERE name = ?`: &s.content,
		`SELECT CAST(type AS TEXT), CAST(value AS BLOB) FROM properties` + whereRowIDs:      &s.property,
		`SELECT CAST(type AS TEXT), CAST(value AS BLOB) FROM dependencies` + whereRowIDs:    &s.dependency,
		`SELECT DISTINCT CAST(image AS TEXT) FROM related_image` + whereRowIDs:              &s.image,
	} {
		var err error
		if *statement, err = conn.PrepareContext(ctx, query); err != nil {
			return err
		}
	}

	return nil
}

func (s *statements) closeStatements() {
	for _, statement := range []*sql.Stmt{s.find, s.csv, s.content, s.property, s.dependency, s.image} {
		if statement != nil {
			_ = statement.Close() // It only read.
		}
	}
}

func (r *metaReader) readAll(ctx context.Context) error {
	defer r.closeStatements()
	if err := r.prepareStatements(ctx, r.conn); err != nil {
		return err
	}
	if err := r.loadPackages(ctx); err != nil {
		return err
	}

	rows, err := r.conn.QueryContext(ctx, selectEntries+orderEntries)
	if err != nil {
		return err
	}

	pending := &pendingPackages{metaReader: r, names: slices.Sorted(maps.Keys(r.packages)), channels: map[string][]storedEntry{}}
	err = forEachRow(rows, func() error {
		var pkg, channel string
		var e storedEntry
		if err := scanEntry(rows, &pkg, &channel, &e); err != nil {
			return err
		}
		return pending.addEntry(ctx, pkg, channel, e)
	})
	if err != nil {
		return err
	}

	return pending.emitRest(ctx)
}

// pendingPackages are the packages that are still to be yielded. They are yielded in order while the
// rows of their channels are read, so that only the channels of one package are in memory.
type pendingPackages struct {
	*metaReader
	names []string
	// current is the package whose rows are read. channels and count are its rows.
	current  string
	channels map[string][]storedEntry
	count    int
}

// addEntry adds a row. The first row of a package yields the packages before it.
func (p *pendingPackages) addEntry(ctx context.Context, pkg, channel string, e storedEntry) error {
	if pkg != p.current {
		if err := p.emitUntil(ctx, p.current); err != nil {
			return err
		}

		p.current, p.channels, p.count = pkg, map[string][]storedEntry{}, 0
		if _, known := p.packages[pkg]; !known {
			p.opts.warn(fmt.Sprintf("channels of package %q ignored: the index has no such package", pkg), nil)
		}
	}

	if p.count++; p.count > maxChannelEntries {
		return fmt.Errorf("%w: the channels of package %q have more than %d entries", ErrTooLarge, pkg, maxChannelEntries)
	}
	if e.bundle != "" && channel != "" {
		p.channels[channel] = append(p.channels[channel], e)
	}

	return nil
}

// emitRest yields the current package and those after it, which have no channels.
func (p *pendingPackages) emitRest(ctx context.Context) error {
	if err := p.emitUntil(ctx, p.current); err != nil || len(p.names) == 0 {
		return err
	}

	p.channels = nil
	return p.emitUntil(ctx, p.names[len(p.names)-1])
}

// emitUntil yields the packages up to and including last. Only last has channels.
func (p *pendingPackages) emitUntil(ctx context.Context, last string) error {
	for ; len(p.names) > 0 && p.names[0] <= last; p.names = p.names[1:] {
		channels := p.channels
		if p.names[0] != last {
			channels = nil
		}
		if err := p.emitPackage(ctx, p.names[0], channels); err != nil {
			return fmt.Errorf("package %q: %w", p.names[0], err)
		}
	}

	return nil
}

// loadPackages reads what is needed of all packages.
func (r *metaReader) loadPackages(ctx context.Context) error {
	r.packages = map[string]string{}
	r.heads = map[[2]string]string{}
	r.deprecated = map[string]bool{}
	err := forEachTextRow(ctx, r.conn, `SELECT CAST(name AS TEXT), CAST(default_channel AS TEXT), '' FROM package WHERE name IS NOT NULL AND name <> ''`, func(row [3]string) {
		r.packages[row[0]] = row[1]
	})
	if err != nil {
		return err
	}

	err = forEachTextRow(ctx, r.conn, `SELECT CAST(package_name AS TEXT), CAST(name AS TEXT), CAST(head_operatorbundle_name AS TEXT) FROM channel`, func(row [3]string) {
		r.heads[[2]string{row[0], row[1]}] = row[2]
	})
	if err != nil {
		return err
	}

	err = forEachTextRow(ctx, r.conn, `SELECT DISTINCT CAST(operatorbundle_name AS TEXT), '', '' FROM properties WHERE CAST(type AS TEXT) = '`+propertyDeprecated+`'`, func(row [3]string) {
		r.deprecated[row[0]] = true
	})
	if err != nil {
		return err
	}

	for table, target := range map[string]*map[string][]int64{"properties": &r.properties, "dependencies": &r.dependencies, "related_image": &r.images} {
		if *target, err = loadRowIDs(ctx, r.conn, table); err != nil {
			return err
		}
	}

	if !r.served {
		return nil
	}
	if r.provided, err = loadBundleAPIs(ctx, r.conn, "api_provider"); err != nil {
		return err
	}

	r.required, err = loadBundleAPIs(ctx, r.conn, "api_requirer")
	return err
}

// forEachTextRow calls f for every row of three columns.
func forEachTextRow(ctx context.Context, q querier, query string, f func([3]string)) error {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return err
	}

	n := 0
	return forEachRow(rows, func() error {
		if n++; n > maxTableRows {
			return fmt.Errorf("%w: a table has more than %d rows", ErrTooLarge, maxTableRows)
		}

		var a, b, c sql.NullString
		if err := rows.Scan(&a, &b, &c); err != nil {
			return err
		}

		f([3]string{a.String, b.String, c.String})
		return nil
	})
}

// loadRowIDs returns the row numbers of a table by the bundle that they belong to.
func loadRowIDs(ctx context.Context, q querier, table string) (map[string][]int64, error) {
	rows, err := q.QueryContext(ctx, `SELECT CAST(operatorbundle_name AS TEXT), rowid FROM `+table+` WHERE operatorbundle_name IS NOT NULL ORDER BY rowid LIMIT ?`, maxTableRows+1)
	if err != nil {
		return nil, err
	}

	found, n := map[string][]int64{}, 0
	err = forEachRow(rows, func() error {
		var name string
		var id int64
		if err := rows.Scan(&name, &id); err != nil {
			return err
		}
		if n++; n > maxTableRows {
			return fmt.Errorf("%w: the table %s has more than %d rows", ErrTooLarge, table, maxTableRows)
		}

		found[name] = append(found[name], id)
		return nil
	})

	return found, err
}

// emitPackage yields a package with its channels and bundles.
func (r *metaReader) emitPackage(ctx context.Context, name string, channels map[string][]storedEntry) error {
	graphs := map[string]channelGraph{}
	for channel, entries := range channels {
		graphs[channel] = buildChannelGraph(r.heads[[2]string{name, channel}], entries)
	}

	bundles, err := r.findShownBundles(ctx, graphs)
	if err != nil {
		return err
	}

	icon, err := r.readIcon(ctx, graphs[r.packages[name]].head)
	if err != nil {
		return err
	}

	err = r.emitBlob(fbc.Meta{Schema: fbc.SchemaPackage, Name: name},
		fbc.Package{Schema: fbc.SchemaPackage, Name: name, DefaultChannel: r.packages[name], Icon: icon})
	if err != nil {
		return err
	}

	for _, channel := range slices.Sorted(maps.Keys(graphs)) {
		blob := newChannelBlob(name, channel, graphs[channel], bundles)
		if len(blob.Entries) == 0 {
			continue
		}
		if err := r.emitBlob(fbc.Meta{Schema: fbc.SchemaChannel, Package: name, Name: channel}, blob); err != nil {
			return err
		}
	}

	return r.emitBundles(ctx, name, bundles)
}

// findShownBundles returns the bundles of channels by their names. It is nil for bundles that are not
// shown.
func (r *metaReader) findShownBundles(ctx context.Context, graphs map[string]channelGraph) (map[string]*shownBundle, error) {
	bundles := map[string]*shownBundle{}
	for _, graph := range graphs {
		for bundle := range graph.edges {
			if _, known := bundles[bundle]; known {
				continue
			}

			found, err := r.findShownBundle(ctx, bundle)
			if err != nil {
				return nil, fmt.Errorf("bundle %q: %w", bundle, err)
			}
			bundles[bundle] = found
		}
	}

	return bundles, nil
}

// emitBundles yields the bundles of a package.
func (r *metaReader) emitBundles(ctx context.Context, pkg string, bundles map[string]*shownBundle) error {
	for _, name := range slices.Sorted(maps.Keys(bundles)) {
		if bundles[name] == nil {
			continue
		}

		blob, err := r.readBundleBlob(ctx, pkg, name, bundles[name])
		if err != nil {
			return fmt.Errorf("bundle %q: %w", name, err)
		}
		if !r.yield(fbc.Meta{Schema: fbc.SchemaBundle, Package: pkg, Name: name, Blob: blob}, nil) {
			return errStopped
		}
	}

	return nil
}

// emitBlob encodes and yields a blob.
func (r *metaReader) emitBlob(meta fbc.Meta, blob any) error {
	var err error
	if meta.Blob, err = encodeCanonical(blob); err != nil {
		return fmt.Errorf("%s: %w", meta, err)
	}
	if !r.yield(meta, nil) {
		return errStopped
	}
	return nil
}

// encodeCanonical returns canonical JSON.
func encodeCanonical(value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	compact, _, err := jsontext.Compact(nil, raw, maxNestingDepth)
	return compact, err
}
