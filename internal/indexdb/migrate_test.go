package indexdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// levelZero is a database of the earliest programs: two bundles with their manifests, a
// channel, and APIs that refer to entries.
var levelZero = []string{
	`CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT UNIQUE, bundle TEXT)`,
	`CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT, FOREIGN KEY(name, default_channel) REFERENCES channel(package_name,name))`,
	`CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT, PRIMARY KEY(name, package_name),
		FOREIGN KEY(package_name) REFERENCES package(name), FOREIGN KEY(head_operatorbundle_name) REFERENCES operatorbundle(name))`,
	`CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT, operatorbundle_name TEXT, replaces INTEGER, depth INTEGER,
		FOREIGN KEY(replaces) REFERENCES channel_entry(entry_id) DEFERRABLE INITIALLY DEFERRED, FOREIGN KEY(channel_name, package_name) REFERENCES channel(name, package_name))`,
	`CREATE TABLE api (group_name TEXT, version TEXT, kind TEXT, plural TEXT NOT NULL, PRIMARY KEY(group_name,version,kind))`,
	`CREATE TABLE api_provider (group_name TEXT, version TEXT, kind TEXT, channel_entry_id INTEGER,
		FOREIGN KEY(channel_entry_id) REFERENCES channel_entry(entry_id), FOREIGN KEY(group_name,version,kind) REFERENCES api(group_name, version, kind))`,
	`CREATE TABLE schema_migrations (version bigint NOT NULL, timestamp DATETIME DEFAULT CURRENT_TIMESTAMP)`,
	`INSERT INTO schema_migrations (version) VALUES (0)`,

	`INSERT INTO operatorbundle (name, csv, bundle) VALUES ('p.v1', '` + oldCSVText("1.0.0") + `', '` + oldCSVText("1.0.0") + `{"kind":"ConfigMap"}
'), ('p.v2', '` + oldCSVText("2.0.0") + `', '` + oldCSVText("2.0.0") + `'), ('broken', 'no json', NULL)`,
	`INSERT INTO package (name, default_channel) VALUES ('p', 'x')`,
	`INSERT INTO channel (name, package_name, head_operatorbundle_name) VALUES ('x', 'p', 'p.v2')`,
	`INSERT INTO channel_entry (entry_id, channel_name, package_name, operatorbundle_name, replaces, depth) VALUES
		(1, 'x', 'p', 'p.v2', 4, 0), (2, 'x', 'p', 'a-skipped', NULL, 1), (3, 'x', 'p', 'p.v2', 2, 1), (4, 'x', 'p', 'p.v1', NULL, 2)`,
	`INSERT INTO api (group_name, version, kind, plural) VALUES ('g', 'v1', 'Thing', 'things')`,
	`INSERT INTO api_provider (group_name, version, kind, channel_entry_id) VALUES ('g', 'v1', 'Thing', 1), ('g', 'v1', 'Thing', 4)`,
}

func oldCSVText(version string) string {
	return `{"kind":"ClusterServiceVersion","metadata":{"name":"p","annotations":{"olm.skipRange":"<` + version + `"}},"spec":{"version":"` + version + `",` +
		`"customresourcedefinitions":{"required":[{"name":"others.h","kind":"Other","version":"v1"}]},` +
		`"relatedImages":[{"name":"named","image":"registry.example/named"}],` +
		`"install":{"strategy":"deployment","spec":{"deployments":[{"name":"d","spec":{"template":{"spec":{"containers":[{"image":"registry.example/main"}],"initContainers":[{"image":"registry.example/first"}]}}}}]}}}}`
}

// newFixtureAtLevel returns a database of a level, with the content of levelZero.
func newFixtureAtLevel(t *testing.T, level int) *fixture {
	t.Helper()
	d := newFixture(t)
	d.execSQL(levelZero...)
	if err := d.migrateBy(migrations[:level+1]); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *fixture) migrateBy(steps []migration) error {
	ctx := context.Background()
	conn, err := openConnection(ctx, d.path, readWrite)
	if err != nil {
		return err
	}
	defer conn.close()
	return conn.migrateWithSteps(ctx, d.indexOptions(), steps)
}

func TestMigrateFromEveryLevel(t *testing.T) {
	for level := range LatestLevel + 1 {
		t.Run(strconv.Itoa(level), func(t *testing.T) {
			d := newFixtureAtLevel(t, level)
			if got := d.queryFirst(`SELECT version FROM schema_migrations`); got != strconv.Itoa(level) {
				t.Fatalf("got level %s, want %d", got, level)
			}

			// Reading migrates a copy.
			d.expectMigrated()
			if got := d.queryFirst(`SELECT version FROM schema_migrations`); got != strconv.Itoa(level) {
				t.Errorf("got level %s after reading, want it unchanged", got)
			}
			// Writing migrates the database itself.
			if err := d.editIndex(func(*Editor) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if got := d.queryFirst(`SELECT version FROM schema_migrations`); got != "13" {
				t.Errorf("got level %s after an edit, want the latest", got)
			}

			d.expectMigrated()
			d.checkIntegrity()
		})
	}
}

func (d *fixture) expectMigrated() {
	d.t.Helper()
	d.expectCatalog("p default x", "  x", "    p.v1", "    p.v2 replaces p.v1 skips a-skipped")
	metas, err := d.readMetas()
	if err != nil {
		d.t.Fatal(err)
	}

	b, err := fbc.DecodeBundle(metas[2])
	if err != nil {
		d.t.Fatal(err)
	}

	got := []string{b.Name}
	for _, p := range b.Properties {
		if p.Type != fbc.PropertyBundleObject {
			got = append(got, p.Type+string(p.Value))
		}
	}

	for _, image := range b.RelatedImages {
		got = append(got, image.Name+" "+image.Image)
	}

	want := []string{
		"p.v1",
		`olm.gvk{"group":"g","kind":"Thing","version":"v1"}`,
		`olm.gvk.required{"group":"h","kind":"Other","version":"v1"}`,
		`olm.package{"packageName":"p","version":"1.0.0"}`,
		"named registry.example/named", " registry.example/first", " registry.example/main",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		d.t.Errorf("bundle (-want +got):\n%s", diff)
	}
}

func TestSkipMigrate(t *testing.T) {
	for level, want := range map[int]string{12: "", 8: "no such table: properties"} {
		d := newFixtureAtLevel(t, level)
		index, err := Open(t.Context(), d.path, Options{SkipMigrate: true, TempDir: "/does/not/exist"})
		if err != nil {
			t.Fatal(err)
		}

		var failure error
		for _, err := range index.Metas(t.Context()) {
			failure = errors.Join(failure, err)
		}

		if (failure == nil) != (want == "") || failure != nil && !strings.Contains(failure.Error(), want) {
			t.Errorf("level %d: got error %v, want %q", level, failure, want)
		}
		if err := index.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMigratedRows(t *testing.T) {
	d := newFixtureAtLevel(t, LatestLevel)
	for query, want := range map[string]string{
		`SELECT name || ':' || coalesce(replaces, '-') || ':' || coalesce(skips, '-') || ':' || coalesce(version, '-') || ':' || coalesce(skiprange, '-') FROM operatorbundle ORDER BY name`: "broken:-:-:-:- p.v1:-:-:1.0.0:<1.0.0 p.v2:p.v1:a-skipped:2.0.0:<2.0.0",
		`SELECT group_name || plural FROM api ORDER BY 1`:                                                                         "gthings hothers",
		`SELECT operatorbundle_name || operatorbundle_version || coalesce(operatorbundle_path, '-') FROM api_provider ORDER BY 1`: "p.v11.0.0- p.v22.0.0-",
		`SELECT operatorbundle_name FROM api_requirer ORDER BY 1`:                                                                 "p.v1 p.v2",
		`SELECT DISTINCT typeof(value) || CAST(value AS TEXT) FROM dependencies`:                                                  `blob{"group":"h","kind":"Other","version":"v1"}`,
		`SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1`:                                                        "api_provider_cleanup api_requirer_cleanup",
	} {
		if got := d.queryFirst(query); got != want {
			t.Errorf("%s:\n got %s\nwant %s", query, got, want)
		}
	}

	expectContains(t, d.warnings, `bundle ignored by a migration: bundle "broken"`)
}

func TestMigrateSteps(t *testing.T) {
	t.Run("from nothing", func(t *testing.T) {
		d := newFixture(t)
		if err := d.editIndex(func(*Editor) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got := d.queryFirst(`SELECT version || timestamp FROM schema_migrations`); got != "131970-01-01 00:00:00" {
			t.Errorf("got level %s, want 131970-01-01 00:00:00", got)
		}
		golden.Check(t, "schema.txt", []byte(d.describeSchema()))
	})

	t.Run("at the latest", func(t *testing.T) {
		d := newFixtureAtLevel(t, LatestLevel)
		if err := d.migrateBy([]migration{{LatestLevel, func(context.Context, *migrationTx) error { return errors.New("ran again") }}}); err != nil {
			t.Error(err)
		}
	})

	t.Run("out of order", func(t *testing.T) {
		d := newFixture(t)
		d.execSQL(levelZero...)
		err := d.migrateBy(slices.Concat(migrations[:2], migrations[3:4]))
		if err == nil || !strings.Contains(err.Error(), "migration applied out of order") {
			t.Errorf("got error %v, want one with \"migration applied out of order\"", err)
		}
		if got := d.queryFirst(`SELECT version FROM schema_migrations`); got != "0" {
			t.Errorf("got level %s after a failure, want no migration kept", got)
		}
	})

	t.Run("that fail", func(t *testing.T) {
		d := newFixture(t)
		d.execSQL(levelZero...)
		d.execSQL(`DROP TABLE api_provider`)
		before := d.queryFirst(`SELECT sql FROM sqlite_schema ORDER BY name`)
		err := d.editIndex(func(*Editor) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "migration to level 4: ") {
			t.Errorf("got error %v, want one with \"migration to level 4:\"", err)
		}
		if got := d.queryFirst(`SELECT sql FROM sqlite_schema ORDER BY name`); got != before {
			t.Errorf("got a changed schema, want it unchanged:\n%s", got)
		}
	})

	t.Run("before levels were counted", func(t *testing.T) {
		d := newFixture(t)
		d.execSQL(levelZero...)
		d.execSQL(`DROP TABLE schema_migrations`)
		d.expectMigrated()
	})
}

// describeSchema describes the tables of a database.
func (d *fixture) describeSchema() string {
	var out strings.Builder
	for _, table := range d.queryRows(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`) {
		fmt.Fprintln(&out, table)
		for _, query := range []string{
			`SELECT printf('%s %s%s%s', name, type, iif("notnull", ' not null', ''), iif(pk, printf(' key %d', pk), '')) FROM pragma_table_info(?) ORDER BY cid`,
			`SELECT printf('(%s) -> %s (%s) on delete %s', group_concat("from", ','), "table", group_concat("to", ','), on_delete) FROM pragma_foreign_key_list(?) GROUP BY id ORDER BY "table"`,
			`SELECT printf('unique index %s', name) FROM pragma_index_list(?) WHERE origin = 'c' ORDER BY name`,
		} {
			for _, line := range d.queryRows(query, table) {
				fmt.Fprintln(&out, "  "+line)
			}
		}
	}

	return out.String()
}
