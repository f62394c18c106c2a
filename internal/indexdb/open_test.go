package indexdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func TestOpenRefuses(t *testing.T) {
	sound := newFixture(t)
	sound.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	content, err := os.ReadFile(sound.path)
	if err != nil {
		t.Fatal(err)
	}
	file := func(content []byte) func(*testing.T, *fixture) {
		return func(t *testing.T, d *fixture) {
			if err := os.WriteFile(d.path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	statements := func(statements ...string) func(*testing.T, *fixture) {
		return func(_ *testing.T, d *fixture) { d.execSQL(statements...) }
	}
	cases := map[string]struct {
		make func(*testing.T, *fixture)
		opts Options
		want error
		text string
	}{
		"a missing file":      {make: func(*testing.T, *fixture) {}, want: fs.ErrNotExist},
		"an empty file":       {make: file(nil), want: ErrNotDatabase},
		"a text":              {make: file([]byte("schema: olm.package\nname: p\n")), want: ErrNotDatabase},
		"a folder":            {make: func(t *testing.T, d *fixture) { mkdir(t, d.path) }, want: ErrNotDatabase},
		"a header alone":      {make: file([]byte(sqliteMagic)), want: ErrNotDatabase},
		"half a database":     {make: file(content[:len(content)/2]), want: ErrDamaged},
		"more than the limit": {make: file(content), opts: Options{MaxBytes: 1000}, want: ErrTooLarge},
		"another database":    {make: statements(`CREATE TABLE places (url TEXT)`), want: ErrNotIndex},
		"a later level": {
			make: statements(`CREATE TABLE operatorbundle (name TEXT)`, `CREATE TABLE schema_migrations (version bigint)`, `INSERT INTO schema_migrations VALUES (14)`),
			want: ErrUnsupportedLevel, text: "it is 14, the latest known is 13",
		},
		"no level": {make: statements(`CREATE TABLE operatorbundle (name TEXT)`, `CREATE TABLE schema_migrations (version bigint)`), want: ErrNotIndex},
		"a level that is not a number": {
			make: statements(`CREATE TABLE schema_migrations (version bigint)`, `INSERT INTO schema_migrations VALUES ('x'), (NULL)`), want: ErrNotIndex,
		},
		"a view in the place of a table": {
			make: statements(`CREATE VIEW operatorbundle AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n AS name FROM r`), want: ErrNotIndex,
		},
		"a virtual table":   {make: statements(`CREATE VIRTUAL TABLE operatorbundle USING fts5(name)`), want: ErrNotIndex},
		"generated columns": {make: statements(`CREATE TABLE operatorbundle (name TEXT, csv TEXT AS (zeroblob(1000000000)))`), want: ErrNotIndex},
		"too many tables": {make: func(_ *testing.T, d *fixture) {
			var tables []string
			for i := range maxSchemaObjects + 1 {
				tables = append(tables, fmt.Sprintf(`CREATE TABLE t%d (x)`, i))
			}
			d.execSQL(tables...)
		}, want: ErrNotIndex},
		"leftovers of another program": {make: func(t *testing.T, d *fixture) {
			file(content)(t, d)
			if err := os.WriteFile(d.path+"-wal", []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, text: "another program is writing it"},
		"tables without their columns": {
			make: statements(`CREATE TABLE operatorbundle (name TEXT)`, `CREATE TABLE schema_migrations (version bigint)`, `INSERT INTO schema_migrations VALUES (3)`),
			text: "migration to level 4: ",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			c.make(t, d)
			opts := c.opts
			opts.TempDir = t.TempDir()
			index, err := Open(context.Background(), d.path, opts)
			if err == nil {
				_ = index.Close()
				t.Fatal("got no error, want one")
			}
			for what, err := range map[string]error{"open": err, "edit": Edit(context.Background(), d.path, EditOptions{Options: opts}, func(*Editor) error { return nil })} {
				if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s: got error %v, want %v, %q", what, err, c.want, c.text)
				}
				if !strings.Contains(err.Error(), d.path) {
					t.Errorf("%s: got error %v, want one with the name of the file", what, err)
				}
			}
			if left, err := os.ReadDir(opts.TempDir); err != nil || len(left) > 0 {
				t.Errorf("got leftover files %v (error %v), want none", left, err)
			}
		})
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedPages checks that damage that the first check does not detect is detected when the
// pages are read.
func TestDamagedPages(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"}, bundleSpec{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"})
	content, err := os.ReadFile(d.path)
	if err != nil {
		t.Fatal(err)
	}

	const page = 4096
	found := 0
	for start := page; start < len(content); start += page {
		damaged := append([]byte{}, content...)
		for i := start; i < start+page; i++ {
			damaged[i] = 0xff
		}

		if err := os.WriteFile(d.path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}

		err := d.editIndex(func(*Editor) error { return nil })
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("page at %d: got error %v of an edit, want ErrDamaged", start, err)
		}
		if _, err := d.readMetas(); errors.Is(err, ErrDamaged) {
			found++
		}
	}

	if found == 0 {
		t.Error("got no damage detected while reading, want some")
	}
}

func TestIsDatabase(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	if is, err := IsDatabase(d.path); err != nil || !is {
		t.Errorf("a database: got %v (error %v), want true", is, err)
	}

	other := filepath.Join(t.TempDir(), "catalog.yaml")
	for _, content := range []string{"", "short", "schema: olm.package and more"} {
		if err := os.WriteFile(other, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if is, err := IsDatabase(other); err != nil || is {
			t.Errorf("%q: got %v (error %v), want false", content, is, err)
		}
	}

	if _, err := IsDatabase(other + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want %v", err, fs.ErrNotExist)
	}
}

// TestWriteAheadDatabase checks a database in write-ahead mode, which its header indicates.
func TestWriteAheadDatabase(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	d.execSQL(`PRAGMA journal_mode = WAL`, `PRAGMA wal_checkpoint(TRUNCATE)`)
	d.expectCatalog("p default a", "  a", "    p.v1.0.0")
	d.addBundles(replacesMode, bundleSpec{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0")
	d.checkIntegrity()
}

func TestEditIsAtomic(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(d.path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.path, 0o640); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(d.path)
	if err != nil {
		t.Fatal(err)
	}
	same := func(t *testing.T) {
		t.Helper()
		after, err := os.ReadFile(d.path)
		if err != nil {
			t.Fatal(err)
		}
		if string(after) != string(before) {
			t.Error("got a changed file, want it unchanged")
		}
		entries, err := os.ReadDir(filepath.Dir(d.path))
		if err != nil || len(entries) != 1 {
			t.Errorf("got files %v in its folder (error %v), want only the database", entries, err)
		}
	}
	add := func(version string) func(*Editor) error {
		return func(e *Editor) error {
			return e.Add(context.Background(), []Bundle{bundleSpec{version: version, channels: "b", defaultChannel: "a"}.newBundle(t)}, AddOptions{})
		}
	}
	t.Run("an error", func(t *testing.T) {
		wrong := errors.New("wrong")
		err := d.editIndex(func(e *Editor) error { return errors.Join(add("2.0.0")(e), wrong) })
		if !errors.Is(err, wrong) {
			t.Errorf("got error %v, want %v", err, wrong)
		}
		same(t)
	})
	t.Run("an end", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		err := Edit(ctx, d.path, EditOptions{}, func(e *Editor) error {
			err := add("2.0.0")(e)
			cancel()
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		same(t)
	})
	t.Run("changed by another", func(t *testing.T) {
		err := d.editIndex(func(e *Editor) error {
			return errors.Join(add("2.0.0")(e), os.Truncate(d.path, 100), os.WriteFile(d.path, append(before, 0), 0o640))
		})
		if !errors.Is(err, ErrChanged) {
			t.Errorf("got error %v, want %v", err, ErrChanged)
		}
		if err := os.WriteFile(d.path, before, 0o640); err != nil {
			t.Fatal(err)
		}
		same(t)
	})
	t.Run("changed by another, at the same time", func(t *testing.T) {
		info, err := os.Stat(d.path)
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func() error{
			"another size": func() error { return os.WriteFile(d.path, append(before, 0), 0o640) },
			"another file": func() error {
				return errors.Join(os.WriteFile(d.path+"x", before, 0o640), os.Rename(d.path+"x", d.path))
			},
		} {
			err := d.editIndex(func(e *Editor) error {
				return errors.Join(add("2.0.0")(e), change(), os.Chtimes(d.path, info.ModTime(), info.ModTime()))
			})
			if !errors.Is(err, ErrChanged) {
				t.Errorf("%s: got error %v, want %v", name, err, ErrChanged)
			}
			if err := errors.Join(os.WriteFile(d.path, before, 0o640), os.Chtimes(d.path, info.ModTime(), info.ModTime())); err != nil {
				t.Fatal(err)
			}
		}
		same(t)
	})
	t.Run("created by another", func(t *testing.T) {
		fresh := newFixture(t)
		err := fresh.editIndex(func(e *Editor) error {
			return errors.Join(add("2.0.0")(e), os.WriteFile(fresh.path, before, 0o640))
		})
		if !errors.Is(err, ErrChanged) {
			t.Errorf("got error %v, want %v", err, ErrChanged)
		}
	})
	t.Run("through a link", func(t *testing.T) {
		if err := Edit(context.Background(), link, EditOptions{}, add("2.0.0")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(link)
		if err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("got mode %v of the link (error %v), want a symbolic link", info.Mode(), err)
		}
		info, err = os.Stat(d.path)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("got mode %v of the file (error %v), want 640", info.Mode(), err)
		}
		d.expectCatalog("p default a", "  a", "    p.v1.0.0", "  b", "    p.v2.0.0")
	})
}

// TestEditIsReproducible checks that the same edits produce the same bytes.
func TestEditIsReproducible(t *testing.T) {
	var contents [2]string
	for i := range contents {
		d := newFixture(t)
		d.addBundles(replacesMode, threeBundles...)
		d.addBundles(semverMode, bundleSpec{pkg: "q", version: "1.0.0", channels: "a,b,c"})
		if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
			t.Fatal(err)
		}

		content, err := os.ReadFile(d.path)
		if err != nil {
			t.Fatal(err)
		}

		contents[i] = string(content)
	}

	if contents[0] != contents[1] {
		t.Error("got different files of the same edits, want the same bytes")
	}
}

// TestUntrustedTriggersAreDropped checks that triggers of a file never run, and are
// removed.
func TestUntrustedTriggersAreDropped(t *testing.T) {
	d := newThreePackagesFixture(t)
	d.execSQL(
		`CREATE TRIGGER evil AFTER DELETE ON package BEGIN DELETE FROM operatorbundle; END`,
		`DROP TRIGGER api_provider_cleanup`,
		`CREATE TRIGGER api_provider_cleanup AFTER DELETE ON api_provider BEGIN DELETE FROM package; END`,
	)
	err := d.editIndex(func(e *Editor) error { return e.RemovePackages(context.Background(), []string{"a"}, false) })
	if err != nil {
		t.Fatal(err)
	}

	d.expectCatalog("b default x", "  x", "    b.v1.0.0", "    b.v1.1.0 replaces b.v1.0.0", "c default x", "  x", "    c.v1.0.0", "    c.v1.1.0 replaces c.v1.0.0")
	if got := d.queryFirst(`SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1`); got != "api_provider_cleanup api_requirer_cleanup" {
		t.Errorf("got triggers %s, want api_provider_cleanup api_requirer_cleanup", got)
	}
	if got := d.queryFirst(apiGroups); got != "b.example c.example shared.example" {
		t.Errorf("got apis %s, want b.example c.example shared.example", got)
	}
}

// TestHiddenTrigger checks a schema that lists a trigger under a different name.
func TestHiddenTrigger(t *testing.T) {
	d := newThreePackagesFixture(t)
	d.execSQL(
		`CREATE TRIGGER evil AFTER DELETE ON package BEGIN DELETE FROM operatorbundle; END`,
		`PRAGMA writable_schema = 1`,
		`UPDATE sqlite_schema SET name = 'nothing', type = 'index' WHERE name = 'evil'`,
	)
	if err := d.editIndex(func(*Editor) error { return nil }); !errors.Is(err, ErrDamaged) {
		t.Errorf("got error %v, want %v", err, ErrDamaged)
	}
}

func TestTooManyRows(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	d.execSQL(fmt.Sprintf(`WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n <= %d)
		INSERT INTO channel_entry (package_name, channel_name, operatorbundle_name) SELECT 'p', 'a', 'p.v1.0.0' FROM r`, maxChannelEntries))
	if _, err := d.readMetas(); !errors.Is(err, ErrTooLarge) {
		t.Errorf("reading: got error %v, want %v", err, ErrTooLarge)
	}
	if err := d.tryAddBundles(replacesMode, bundleSpec{version: "1.1.0", channels: "a"}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("adding: got error %v, want %v", err, ErrTooLarge)
	}
}

func TestReadOddRows(t *testing.T) {
	start := func(t *testing.T) *fixture {
		d := newFixture(t)
		d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"}, bundleSpec{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"})
		return d
	}
	both := []string{"p default a", "  a", "    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0"}
	head := []string{"p default a", "  a", "    p.v1.1.0 replaces p.v1.0.0"}
	cases := map[string]struct {
		run     []string
		want    []string
		warning string
		err     string
	}{
		"no version":                {run: []string{`UPDATE operatorbundle SET version = NULL WHERE name = 'p.v1.0.0'`}, want: head, warning: "has no version"},
		"neither image nor content": {run: []string{`UPDATE operatorbundle SET bundlepath = NULL, csv = NULL, bundle = NULL WHERE name = 'p.v1.0.0'`}, want: head, warning: "neither an image nor manifests"},
		"content without an image":  {run: []string{`UPDATE operatorbundle SET bundlepath = NULL WHERE name = 'p.v1.0.0'`}, want: both},
		"no such bundle":            {run: []string{`DELETE FROM operatorbundle WHERE name = 'p.v1.0.0'`}, want: head},
		"entries without names":     {run: []string{`INSERT INTO channel_entry (package_name, channel_name) VALUES ('p', 'a'), ('p', NULL), (NULL, NULL)`}, want: both},
		"a package of no name":      {run: []string{`INSERT INTO package VALUES (NULL, NULL), ('', 'x')`}, want: both},
		"entries of no package":     {run: []string{`INSERT INTO channel_entry (package_name, channel_name, operatorbundle_name) VALUES ('q', 'a', 'p.v1.0.0')`}, want: both, warning: `channels of package "q" ignored`},
		"packages of no channel": {
			run: []string{`INSERT INTO package VALUES ('q', 'x'), ('a', 'x')`}, want: slices.Concat([]string{"a default x"}, both, []string{"q default x"}),
		},
		"no head":                         {run: []string{`UPDATE channel SET head_operatorbundle_name = NULL`}, want: both},
		"a head that is elsewhere":        {run: []string{`UPDATE channel SET head_operatorbundle_name = 'x'`}, want: both},
		"entries in a circle":             {run: []string{`UPDATE channel_entry SET replaces = 1 WHERE entry_id = 2`}, want: []string{"p default a", "  a", "    p.v1.0.0 replaces p.v1.1.0", "    p.v1.1.0 replaces p.v1.0.0"}},
		"entries that lead to themselves": {run: []string{`UPDATE channel_entry SET replaces = entry_id WHERE entry_id = 2`}, want: both},
		"numbers and blobs in the place of text": {run: []string{
			`UPDATE package SET default_channel = CAST('a' AS BLOB)`, `UPDATE operatorbundle SET skiprange = 5, csv = CAST(csv AS BLOB)`,
			`UPDATE properties SET value = CAST(value AS BLOB)`, `UPDATE channel_entry SET depth = 'deep'`, `INSERT INTO related_image VALUES (7, 'p.v1.0.0'), (NULL, 'p.v1.0.0')`,
			`INSERT INTO properties (type, value, operatorbundle_name) VALUES ('x', 5, 'p.v1.0.0'), (NULL, NULL, NULL), (NULL, '{}', 'p.v1.0.0'), ('y', NULL, 'p.v1.0.0')`,
		}, want: both},
		"a property that is no JSON": {run: []string{`INSERT INTO properties (type, value, operatorbundle_name) VALUES ('x', '{', 'p.v1.0.0')`}, err: `package "p": bundle "p.v1.0.0": property of type "x": its value is not JSON`},
		"a property of two values":   {run: []string{`INSERT INTO properties (type, value, operatorbundle_name) VALUES ('x', '{} {}', 'p.v1.0.0')`}, err: `its value is not JSON`},
		"a property that is nested too deep": {
			run: []string{`INSERT INTO properties (type, value, operatorbundle_name) VALUES ('x', replace(hex(zeroblob(100000)), '00', '['), 'p.v1.0.0')`}, err: `its value is not JSON`,
		},
		"a dependency that is no object": {run: []string{`INSERT INTO dependencies (type, value, operatorbundle_name) VALUES ('olm.gvk', '7', 'p.v1.0.0')`}, err: `dependency of type "olm.gvk"`},
		"manifests that are no JSON":     {run: []string{`UPDATE operatorbundle SET bundle = '{"a":1}{'`}, err: "its object 2 cannot be read"},
		"a CSV that is no JSON":          {run: []string{`UPDATE operatorbundle SET csv = 'x'`}, want: both, warning: "related images of bundle"},
		"an icon that is no icon":        {run: []string{`UPDATE operatorbundle SET csv = '{"spec":{"icon":[{"base64data":"*"}]}}'`}, want: both, warning: "icon of bundle"},
		"no icon":                        {run: []string{`UPDATE operatorbundle SET csv = '{"spec":{}}'`}, want: both},
		"a value above the limit":        {run: []string{`UPDATE operatorbundle SET bundle = zeroblob(70000000) WHERE name = 'p.v1.0.0'`}, err: "the database is too large"},
		"text that is not UTF-8":         {run: []string{`UPDATE operatorbundle SET skiprange = CAST(x'ff' AS TEXT)`}, want: both},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			d.execSQL(c.run...)
			if c.err != "" {
				_, err := d.readMetas()
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %s", err, c.err)
				}
				return
			}

			if got, want := d.renderCatalog(), strings.Join(append(c.want, ""), "\n"); got != want {
				t.Errorf("got catalog\n%s\nwant\n%s", got, want)
			}

			if c.warning != "" {
				expectContains(t, d.warnings, c.warning)
			} else if len(d.warnings) > 0 {
				t.Errorf("got warnings %q, want none", d.warnings)
			}
		})
	}
}

func TestIconWithBlanks(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	d.execSQL(`UPDATE operatorbundle SET csv = '{"spec":{"icon":[{"base64data":"aWNv bg= =","mediatype":"image/svg+xml"}]}}'`)
	metas, err := d.readMetas()
	if err != nil {
		t.Fatal(err)
	}

	p, err := fbc.DecodePackage(metas[0])
	if err != nil || p.Icon == nil || string(p.Icon.Data) != "icon" {
		t.Errorf("got package %+v (error %v), want its icon", p, err)
	}
}

func TestMetasStop(t *testing.T) {
	d := newThreePackagesFixture(t)
	index, err := Open(context.Background(), d.path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = index.Close() }()

	for n := range 9 {
		seen := 0
		for _, err := range index.Metas(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen > n {
				break
			}
		}
		if seen != n+1 {
			t.Errorf("got %d blobs, want %d", seen, n+1)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	var last error
	for _, err := range index.Metas(ctx) {
		cancel()
		last = err
	}

	if !errors.Is(last, context.Canceled) {
		t.Errorf("error %v", last)
	}
}
