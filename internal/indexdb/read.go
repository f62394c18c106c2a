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
	// maxRows bounds the tables of an index, each. The largest public index had about
	// 100,000 images.
	maxRows = 2_000_000
	// maxEntries bounds the rows of the channels of one package, which are held in memory.
	// A hundred bundles that each skip all before them in ten channels have 100,000.
	maxEntries = 200_000
	// maxDepth is how deep values may be nested: what a file-based catalog may be, too.
	maxDepth = 500
)

// Metas yields the content of the index as the blobs of a file-based catalog: package by
// package in the order of their names, and for each the package, its channels and its
// bundles in the order of theirs. No more than the channels of one package and one bundle
// are held in memory.
//
// Bundles that are deprecated, that state no version, or that have neither an image nor
// manifests are left out, as are the channels that are empty without them. Nothing is
// judged: fbc.Validate does.
//
// After an error nothing more is yielded.
func (x *Index) Metas(ctx context.Context) iter.Seq2[fbc.Meta, error] {
	return func(yield func(fbc.Meta, error) bool) {
		r := &reading{Index: x, yield: yield}
		if err := r.all(ctx); err != nil && !errors.Is(err, errStopped) {
			yield(fbc.Meta{}, fmt.Errorf("reading the index database: %w", explain(err)))
		}
	}
}

// APIs returns the APIs that bundles of the index provide or need, with the plural names of
// their resources, which a file-based catalog does not tell.
func (x *Index) APIs(ctx context.Context) ([]API, error) {
	rows, err := x.conn.QueryContext(ctx, `SELECT coalesce(CAST(group_name AS TEXT), ''), coalesce(CAST(version AS TEXT), ''),
		coalesce(CAST(kind AS TEXT), ''), CAST(plural AS TEXT) FROM api ORDER BY 1, 2, 3 LIMIT ?`, maxRows)
	if err != nil {
		return nil, fmt.Errorf("reading the APIs of the index database: %w", explain(err))
	}

	var apis []API
	err = scan(rows, func() error {
		var api API
		err := rows.Scan(&api.Group, &api.Version, &api.Kind, &api.Plural)
		apis = append(apis, api)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the APIs of the index database: %w", explain(err))
	}

	return apis, nil
}

// errStopped says that nobody wants more blobs.
var errStopped = errors.New("stopped")

// reading is one pass over an index.
type reading struct {
	*Index
	yield func(fbc.Meta, error) bool

	// packages by name, with their default channels.
	packages map[string]string
	// heads of channels, by package and channel.
	heads map[[2]string]string
	// deprecated bundles.
	deprecated map[string]bool
	// Rows that hang on a bundle, by its name: the tables have no index for it.
	properties, dependencies, images map[string][]int64

	// served is set when a server reads: blobs hold their Record, which has the APIs that
	// bundles provide and require.
	served             bool
	provided, required map[string][]API

	statements
}

// ofRows selects rows by a list of their numbers, in JSON.
const ofRows = ` WHERE rowid IN (SELECT value FROM json_each(?)) ORDER BY 1`

// statements are those that are run for every bundle.
type statements struct {
	find, csv, content, property, dependency, image *sql.Stmt
}

func (s *statements) prepare(ctx context.Context, conn *connection) error {
	for query, statement := range map[string]**sql.Stmt{
		`SELECT CAST(version AS TEXT), CAST(bundlepath AS TEXT), CAST(skiprange AS TEXT),
			coalesce(length(bundle), 0) + coalesce(length(csv), 0) > 0 FROM operatorbundle WHERE name = ?`: &s.find,
		`SELECT CAST(csv AS TEXT) FROM operatorbundle WHERE name = ?`:                       &s.csv,
		`SELECT CAST(csv AS BLOB), CAST(bundle AS BLOB) FROM operatorbundle WHERE name = ?`: &s.content,
		`SELECT CAST(type AS TEXT), CAST(value AS BLOB) FROM properties` + ofRows:           &s.property,
		`SELECT CAST(type AS TEXT), CAST(value AS BLOB) FROM dependencies` + ofRows:         &s.dependency,
		`SELECT DISTINCT CAST(image AS TEXT) FROM related_image` + ofRows:                   &s.image,
	} {
		var err error
		if *statement, err = conn.PrepareContext(ctx, query); err != nil {
			return err
		}
	}

	return nil
}

func (s *statements) close() {
	for _, statement := range []*sql.Stmt{s.find, s.csv, s.content, s.property, s.dependency, s.image} {
		if statement != nil {
			_ = statement.Close() // It only read.
		}
	}
}

func (r *reading) all(ctx context.Context) error {
	defer r.close()
	if err := r.prepare(ctx, r.conn); err != nil {
		return err
	}
	if err := r.load(ctx); err != nil {
		return err
	}

	rows, err := r.conn.QueryContext(ctx, selectEntries+orderEntries)
	if err != nil {
		return err
	}

	names := slices.Sorted(maps.Keys(r.packages))
	current, channels, count := "", map[string][]entry{}, 0
	// show yields the packages up to one; only of that are there channels.
	show := func(upTo string) error {
		for ; len(names) > 0 && names[0] <= upTo; names = names[1:] {
			of := channels
			if names[0] != upTo {
				of = nil
			}
			if err := r.pkg(ctx, names[0], of); err != nil {
				return fmt.Errorf("package %q: %w", names[0], err)
			}
		}
		return nil
	}

	err = scan(rows, func() error {
		var pkg, channel string
		var e entry
		if err := scanEntry(rows, &pkg, &channel, &e); err != nil {
			return err
		}

		if pkg != current {
			if err := show(current); err != nil {
				return err
			}
			current, channels, count = pkg, map[string][]entry{}, 0
			if _, known := r.packages[pkg]; !known {
				r.opts.warn(fmt.Sprintf("channels of package %q passed over: the index has no such package", pkg), nil)
			}
		}

		if count++; count > maxEntries {
			return fmt.Errorf("%w: the channels of package %q have more than %d entries", ErrTooLarge, pkg, maxEntries)
		}
		if e.bundle != "" && channel != "" {
			channels[channel] = append(channels[channel], e)
		}

		return nil
	})
	if err == nil {
		err = show(current)
	}
	if err != nil || len(names) == 0 {
		return err
	}

	channels = nil
	return show(names[len(names)-1])
}

// load reads what is needed of all packages.
func (r *reading) load(ctx context.Context) error {
	r.packages, r.heads, r.deprecated = map[string]string{}, map[[2]string]string{}, map[string]bool{}
	err := eachRow(ctx, r.conn, `SELECT CAST(name AS TEXT), CAST(default_channel AS TEXT), '' FROM package WHERE name IS NOT NULL AND name <> ''`, func(row [3]string) {
		r.packages[row[0]] = row[1]
	})
	if err != nil {
		return err
	}

	err = eachRow(ctx, r.conn, `SELECT CAST(package_name AS TEXT), CAST(name AS TEXT), CAST(head_operatorbundle_name AS TEXT) FROM channel`, func(row [3]string) {
		r.heads[[2]string{row[0], row[1]}] = row[2]
	})
	if err != nil {
		return err
	}

	err = eachRow(ctx, r.conn, `SELECT DISTINCT CAST(operatorbundle_name AS TEXT), '', '' FROM properties WHERE CAST(type AS TEXT) = '`+propertyDeprecated+`'`, func(row [3]string) {
		r.deprecated[row[0]] = true
	})
	if err != nil {
		return err
	}

	for table, target := range map[string]*map[string][]int64{"properties": &r.properties, "dependencies": &r.dependencies, "related_image": &r.images} {
		if *target, err = rowsOf(ctx, r.conn, table); err != nil {
			return err
		}
	}

	if !r.served {
		return nil
	}
	if r.provided, err = loadAPIs(ctx, r.conn, "api_provider"); err != nil {
		return err
	}

	r.required, err = loadAPIs(ctx, r.conn, "api_requirer")
	return err
}

// eachRow calls f for every row of three columns.
func eachRow(ctx context.Context, q querier, query string, f func([3]string)) error {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return err
	}

	n := 0
	return scan(rows, func() error {
		if n++; n > maxRows {
			return fmt.Errorf("%w: a table has more than %d rows", ErrTooLarge, maxRows)
		}

		var a, b, c sql.NullString
		if err := rows.Scan(&a, &b, &c); err != nil {
			return err
		}

		f([3]string{a.String, b.String, c.String})
		return nil
	})
}

// rowsOf returns the rows of a table by the bundle that they hang on.
func rowsOf(ctx context.Context, q querier, table string) (map[string][]int64, error) {
	rows, err := q.QueryContext(ctx, `SELECT CAST(operatorbundle_name AS TEXT), rowid FROM `+table+` WHERE operatorbundle_name IS NOT NULL ORDER BY rowid LIMIT ?`, maxRows+1)
	if err != nil {
		return nil, err
	}

	found, n := map[string][]int64{}, 0
	err = scan(rows, func() error {
		var name string
		var id int64
		if err := rows.Scan(&name, &id); err != nil {
			return err
		}
		if n++; n > maxRows {
			return fmt.Errorf("%w: the table %s has more than %d rows", ErrTooLarge, table, maxRows)
		}

		found[name] = append(found[name], id)
		return nil
	})

	return found, err
}

// pkg yields a package.
func (r *reading) pkg(ctx context.Context, name string, channels map[string][]entry) error {
	graphs := map[string]channelGraph{}
	bundles := map[string]*listed{}
	for channel, entries := range channels {
		graphs[channel] = readGraph(r.heads[[2]string{name, channel}], entries)
		for bundle := range graphs[channel].edges {
			if _, known := bundles[bundle]; known {
				continue
			}
			found, err := r.find(ctx, bundle)
			if err != nil {
				return fmt.Errorf("bundle %q: %w", bundle, err)
			}
			bundles[bundle] = found
		}
	}

	icon, err := r.icon(ctx, graphs[r.packages[name]].head)
	if err != nil {
		return err
	}

	err = r.emit(fbc.Meta{Schema: fbc.SchemaPackage, Name: name},
		fbc.Package{Schema: fbc.SchemaPackage, Name: name, DefaultChannel: r.packages[name], Icon: icon})
	if err != nil {
		return err
	}

	for _, channel := range slices.Sorted(maps.Keys(graphs)) {
		blob := channelBlob(name, channel, graphs[channel], bundles)
		if len(blob.Entries) == 0 {
			continue
		}
		if err := r.emit(fbc.Meta{Schema: fbc.SchemaChannel, Package: name, Name: channel}, blob); err != nil {
			return err
		}
	}

	for _, bundle := range slices.Sorted(maps.Keys(bundles)) {
		if bundles[bundle] == nil {
			continue
		}
		blob, err := r.bundle(ctx, name, bundle, bundles[bundle])
		if err != nil {
			return fmt.Errorf("bundle %q: %w", bundle, err)
		}
		if !r.yield(fbc.Meta{Schema: fbc.SchemaBundle, Package: name, Name: bundle, Blob: blob}, nil) {
			return errStopped
		}
	}

	return nil
}

// emit yields a small blob.
func (r *reading) emit(meta fbc.Meta, blob any) error {
	var err error
	if meta.Blob, err = encode(blob); err != nil {
		return fmt.Errorf("%s: %w", meta, err)
	}
	if !r.yield(meta, nil) {
		return errStopped
	}
	return nil
}

// encode returns JSON in its canonical form.
func encode(value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	compact, _, err := jsontext.Compact(nil, raw, maxDepth)
	return compact, err
}
