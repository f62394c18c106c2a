package indexdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// bundleSpec describes a bundle in one line of a test.
type bundleSpec struct {
	name, version  string
	channels       string // separated by commas
	defaultChannel string
	replaces       string
	skips          string // separated by commas
	substitutesFor string
	image          string // default: derived from the name
	pkg            string // default: p
	properties     []fbc.Property
	dependencies   []fbc.Property
}

// imageTag converts a version to a valid tag.
func imageTag(version string) string { return strings.ReplaceAll(version, "+", "-") }

func (g bundleSpec) newBundle(t testing.TB) Bundle {
	t.Helper()
	if g.pkg == "" {
		g.pkg = "p"
	}
	if g.name == "" {
		g.name = g.pkg + ".v" + g.version
	}
	if g.image == "" {
		g.image = "registry.example/" + imageTag(g.name)
	}

	csv := map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": map[string]any{"name": g.name},
		"spec": map[string]any{
			"version":       g.version,
			"icon":          []any{map[string]any{"base64data": "aWNvbg==", "mediatype": "image/png"}},
			"relatedImages": []any{map[string]any{"name": "operator", "image": "registry.example/operator:v" + imageTag(g.version)}},
		},
	}

	raw, err := json.Marshal(csv)
	if err != nil {
		t.Fatal(err)
	}

	value, err := encodeCanonical(fbc.PackageProperty{PackageName: g.pkg, Version: g.version})
	if err != nil {
		t.Fatal(err)
	}

	return Bundle{
		Package: g.pkg, Name: g.name, Version: g.version, Image: g.image,
		Channels: splitNameList(g.channels), DefaultChannel: g.defaultChannel,
		Replaces: g.replaces, Skips: splitNameList(g.skips), SubstitutesFor: g.substitutesFor,
		CSV: raw, Objects: []json.RawMessage{raw},
		Properties: append([]fbc.Property{
			{Type: fbc.PropertyPackage, Value: value},
			{Type: fbc.PropertyGVK, Value: json.RawMessage(`{"group":"` + g.pkg + `.example","kind":"Thing","version":"v1"}`)},
		}, g.properties...),
		Dependencies:  g.dependencies,
		Provides:      []API{{g.pkg + ".example", "v1", "Thing", "things"}},
		RelatedImages: []string{"registry.example/operator:v" + imageTag(g.version)},
	}
}

// fixture is a database file with helpers for tests.
type fixture struct {
	t    *testing.T
	path string
	// warnings are the warnings of all edits and reads.
	warnings []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t: t, path: filepath.Join(t.TempDir(), "index.db")}
}

func (d *fixture) indexOptions() Options {
	return Options{TempDir: d.t.TempDir(), Warn: func(message string, err error) {
		if err != nil {
			message += ": " + err.Error()
		}
		d.warnings = append(d.warnings, message)
	}}
}

func (d *fixture) editIndex(edit func(*Editor) error) error {
	return Edit(context.Background(), d.path, EditOptions{Options: d.indexOptions(), CreateIfMissing: true}, edit)
}

func (d *fixture) tryAddBundles(opts AddOptions, bundles ...bundleSpec) error {
	d.t.Helper()
	var list []Bundle
	for _, g := range bundles {
		list = append(list, g.newBundle(d.t))
	}
	return d.editIndex(func(e *Editor) error { return e.Add(context.Background(), list, opts) })
}

func (d *fixture) addBundles(opts AddOptions, bundles ...bundleSpec) {
	d.t.Helper()
	if err := d.tryAddBundles(opts, bundles...); err != nil {
		d.t.Fatal(err)
	}
}

// addEachBundle adds bundles one by one.
func (d *fixture) addEachBundle(opts AddOptions, bundles ...bundleSpec) {
	d.t.Helper()
	for _, b := range bundles {
		d.addBundles(opts, b)
	}
}

func (d *fixture) readMetas() ([]fbc.Meta, error) {
	index, err := Open(context.Background(), d.path, d.indexOptions())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := index.Close(); err != nil {
			d.t.Error(err)
		}
	}()

	var metas []fbc.Meta
	for meta, err := range index.Metas(context.Background()) {
		if err != nil {
			return metas, err
		}
		metas = append(metas, meta)
	}

	return metas, nil
}

// renderCatalog returns the packages as text: a line for each package, channel and entry.
func (d *fixture) renderCatalog() string {
	d.t.Helper()
	metas, err := d.readMetas()
	if err != nil {
		d.t.Fatal(err)
	}

	var out strings.Builder
	for _, meta := range metas {
		switch meta.Schema {
		case fbc.SchemaPackage:
			p, err := fbc.DecodePackage(meta)
			if err != nil {
				d.t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s default %s\n", p.Name, p.DefaultChannel)
		case fbc.SchemaChannel:
			c, err := fbc.DecodeChannel(meta)
			if err != nil {
				d.t.Fatal(err)
			}
			fmt.Fprintf(&out, "  %s\n", c.Name)
			for _, e := range c.Entries {
				line := "    " + e.Name
				if e.Replaces != "" {
					line += " replaces " + e.Replaces
				}
				if len(e.Skips) > 0 {
					line += " skips " + strings.Join(e.Skips, ",")
				}
				fmt.Fprintln(&out, line)
			}
		case fbc.SchemaBundle:
		default:
			d.t.Errorf("got unexpected blob %s", meta)
		}
	}

	return out.String()
}

// expectCatalog compares the catalog with lines, and validates it as a catalog.
func (d *fixture) expectCatalog(lines ...string) {
	d.t.Helper()
	if diff := cmp.Diff(strings.Join(append(lines, ""), "\n"), d.renderCatalog()); diff != "" {
		d.t.Errorf("catalog (-want +got):\n%s", diff)
	}
	d.validateCatalog()
}

func (d *fixture) validateCatalog() {
	d.t.Helper()
	metas, err := d.readMetas()
	if err != nil {
		d.t.Fatal(err)
	}

	err = fbc.Validate(func(yield func(fbc.Meta, error) bool) {
		for _, meta := range metas {
			if !yield(meta, nil) {
				return
			}
		}
	})
	if err != nil {
		d.t.Error(err)
	}
}

// queryFirst returns the first column of a query's rows, joined.
func (d *fixture) queryFirst(query string, args ...any) string {
	d.t.Helper()
	return strings.Join(d.queryRows(query, args...), " ")
}

func (d *fixture) queryRows(query string, args ...any) []string {
	d.t.Helper()
	db, err := sql.Open("sqlite", d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()

	values, err := queryTexts(context.Background(), db, query, args...)
	if err != nil {
		d.t.Fatal(err)
	}

	return values
}

// execSQL runs statements like another program.
func (d *fixture) execSQL(statements ...string) {
	d.t.Helper()
	db, err := sql.Open("sqlite", d.path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()

	db.SetMaxOpenConns(1)
	for _, statement := range append([]string{`PRAGMA synchronous = 0`}, statements...) {
		if _, err := db.Exec(statement); err != nil {
			d.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// checkIntegrity checks the integrity of the database, and that it has the final schema.
func (d *fixture) checkIntegrity() {
	d.t.Helper()
	if got := d.queryFirst(`PRAGMA integrity_check`); got != "ok" {
		d.t.Errorf("got integrity_check %s, want ok", got)
	}
	if got := d.queryFirst(`SELECT "table" FROM pragma_foreign_key_check`); got != "" {
		d.t.Errorf("got rows of %s in foreign_key_check, want none", got)
	}
	if got := d.queryFirst(`SELECT name FROM sqlite_schema WHERE name LIKE 'edit_%' OR name LIKE 'rebuilt_%'`); got != "" {
		d.t.Errorf("got leftover tables %s, want none", got)
	}
}

func expectContains(t *testing.T, list []string, part string) {
	t.Helper()
	if !slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) }) {
		t.Errorf("got %[2]q, want %[1]q in it", part, list)
	}
}
