package indexdb

import (
	"context"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// threePackages share an API: each of a and b provides "shared", c requires it.
func threePackages(t *testing.T) *database {
	d := newDatabase(t)
	var bundles []Bundle
	for _, pkg := range []string{"a", "b", "c"} {
		for _, version := range []string{"1.0.0", "1.1.0"} {
			g := given{pkg: pkg, version: version, channels: "x"}
			if version == "1.1.0" {
				g.replaces = pkg + ".v1.0.0"
			}

			b := g.bundle(t)
			shared := API{"shared.example", "v1", "Shared", ""}
			if pkg == "b" {
				shared.Plural = "shares"
			}

			if pkg == "c" {
				b.Requires = append(b.Requires, shared)
			} else {
				b.Provides = append(b.Provides, shared)
			}

			bundles = append(bundles, b)
		}
	}

	if err := d.edit(func(e *Editor) error { return e.Add(context.Background(), bundles, AddOptions{}) }); err != nil {
		t.Fatal(err)
	}

	return d
}

const apiGroups = `SELECT group_name FROM api ORDER BY 1`

func TestRemovePackages(t *testing.T) {
	d := threePackages(t)
	if got := d.query(`SELECT plural FROM api WHERE kind = 'Shared'`); got != "shares" {
		t.Errorf("plural %q", got)
	}

	remove := func(permissive bool, packages ...string) error {
		return d.edit(func(e *Editor) error { return e.RemovePackages(context.Background(), packages, permissive) })
	}
	restOf := func(packages ...string) string {
		var lines []string
		for _, pkg := range packages {
			lines = append(lines, pkg+" default x", "  x", "    "+pkg+".v1.0.0", "    "+pkg+".v1.1.0 replaces "+pkg+".v1.0.0")
		}
		return strings.Join(lines, "\n")
	}
	if err := remove(false, "a"); err != nil {
		t.Fatal(err)
	}

	d.expect(restOf("b", "c"))
	d.sound()
	if got := d.query(apiGroups); got != "b.example c.example shared.example" {
		t.Errorf("apis %s", got)
	}

	err := remove(false, "b", "nope")
	if want := "error deleting packages from database: error removing operator package nope: no package found for packagename nope"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}

	d.expect(restOf("b", "c"))
	if err := remove(true, "b", "nope"); err != nil {
		t.Error(err)
	}

	contains(t, d.warnings, "no package found for packagename nope")
	d.expect(restOf("c"))
	if got := d.query(apiGroups); got != "c.example shared.example" {
		t.Errorf("apis %s", got)
	}
	if err := remove(false, "c"); err != nil {
		t.Fatal(err)
	}

	for _, table := range []string{"operatorbundle", "package", "channel", "channel_entry", "api", "api_provider", "api_requirer", "related_image", "dependencies", "properties"} {
		if got := d.query(`SELECT count(*) FROM ` + table); got != "0" {
			t.Errorf("%s has %s rows", table, got)
		}
	}

	d.sound()
}

func TestPrunePackages(t *testing.T) {
	d := threePackages(t)
	err := d.edit(func(e *Editor) error {
		return e.PrunePackages(context.Background(), []string{"b", "unknown"}, false)
	})
	if err != nil {
		t.Fatal(err)
	}

	d.expect("b default x", "  x", "    b.v1.0.0", "    b.v1.1.0 replaces b.v1.0.0")
	if got := d.query(apiGroups); got != "b.example shared.example" {
		t.Errorf("apis %s", got)
	}

	d.sound()
}

func TestPruneStranded(t *testing.T) {
	d := threePackages(t)
	d.run(
		`INSERT INTO operatorbundle (name, version, bundlepath) VALUES ('stranded', '1.0.0', 'i1'), ('marked', '1.0.0', 'i2'), ('homeless', '1.0.0', 'i3')`,
		`INSERT INTO properties (type, value, operatorbundle_name) VALUES ('olm.package', '{"packageName":"gone"}', 'homeless'), ('olm.package', 'no json', 'marked'), ('x', '{}', 'stranded')`,
		`INSERT INTO related_image (image, operatorbundle_name) VALUES ('i', 'stranded')`,
		`INSERT INTO deprecated (operatorbundle_name) VALUES ('marked'), ('homeless'), ('nothing')`,
	)

	before := d.catalog()
	if err := d.edit(func(e *Editor) error { return e.PruneStranded(context.Background()) }); err != nil {
		t.Fatal(err)
	}
	if got := d.catalog(); got != before {
		t.Errorf("the catalog changed:\n%s", got)
	}
	if got := d.query(`SELECT name FROM operatorbundle WHERE name NOT LIKE '%.v1.%'`); got != "marked" {
		t.Errorf("left: %s", got)
	}
	if got := d.query(`SELECT operatorbundle_name FROM deprecated`); got != "marked" {
		t.Errorf("marks left: %s", got)
	}
	if got := d.query(`SELECT count(*) FROM properties WHERE operatorbundle_name = 'stranded'`); got != "0" {
		t.Errorf("properties left: %s", got)
	}

	d.sound()
}

// chain is a package with a channel of four bundles, one of the lower two, and one that the
// second heads.
func chain(t *testing.T) *database {
	d := newDatabase(t)
	d.add(replacesMode,
		given{version: "1.0.0", channels: "stable,old", defaultChannel: "stable"},
		given{version: "1.1.0", channels: "stable,mid", replaces: "p.v1.0.0"},
		given{version: "1.2.0", channels: "stable", replaces: "p.v1.1.0"},
		given{version: "1.3.0", channels: "stable", defaultChannel: "stable", replaces: "p.v1.2.0"},
	)

	return d
}

func (d *database) deprecate(opts DeprecateOptions, images ...string) error {
	return d.edit(func(e *Editor) error { return e.DeprecateTruncate(context.Background(), images, opts) })
}

func TestDeprecateTruncate(t *testing.T) {
	d := chain(t)
	if err := d.deprecate(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}

	// The channel that it headed is gone. What lay below it stays in another channel.
	d.expect("p default stable", "  old", "    p.v1.0.0", "  stable", "    p.v1.2.0 replaces p.v1.1.0", "    p.v1.3.0 replaces p.v1.2.0")
	if got := d.query(`SELECT name FROM channel ORDER BY 1`); got != "old stable" {
		t.Errorf("channels %s", got)
	}
	if got := d.query(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.1.0" {
		t.Errorf("deprecated %s", got)
	}
	if got := d.query(`SELECT operatorbundle_name || value FROM properties WHERE type = 'olm.deprecated'`); got != "p.v1.1.0{}" {
		t.Errorf("properties %s", got)
	}
	if got := d.query(`SELECT coalesce(replaces, 'none') FROM operatorbundle WHERE name = 'p.v1.1.0'`); got != "none" {
		t.Errorf("replaces %s", got)
	}

	d.sound()
	// Again it changes nothing.
	before := d.catalog()
	if err := d.deprecate(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}
	if got := d.catalog(); got != before {
		t.Errorf("changed:\n%s", got)
	}
	if got := d.query(`SELECT count(*) FROM properties WHERE type = 'olm.deprecated'`); got != "1" {
		t.Errorf("%s marks", got)
	}
	// One above it removes it, with its mark.
	if err := d.deprecate(DeprecateOptions{}, "registry.example/p.v1.2.0"); err != nil {
		t.Fatal(err)
	}

	d.expect("p default stable", "  old", "    p.v1.0.0", "  stable", "    p.v1.3.0 replaces p.v1.2.0")
	if got := d.query(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.2.0" {
		t.Errorf("deprecated %s", got)
	}
	if got := d.query(`SELECT name FROM operatorbundle ORDER BY 1`); got != "p.v1.0.0 p.v1.2.0 p.v1.3.0" {
		t.Errorf("bundles %s", got)
	}

	d.sound()
}

func TestDeprecateRemovesBundlesOfNoOtherChannel(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode,
		given{version: "1.0.0", channels: "stable"},
		given{version: "1.1.0", channels: "stable", replaces: "p.v1.0.0"},
		given{version: "1.2.0", channels: "stable", replaces: "p.v1.1.0"},
		given{version: "1.3.0", channels: "stable", replaces: "p.v1.2.0", skips: "p.v1.0.0"},
	)
	// The head leads to 1.0.0 as well: whoever has it can update.
	if err := d.deprecate(DeprecateOptions{}, "registry.example/p.v1.2.0", "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}

	d.expect("p default stable", "  stable", "    p.v1.0.0", "    p.v1.3.0 replaces p.v1.2.0 skips p.v1.0.0")
	if got := d.query(`SELECT name FROM operatorbundle ORDER BY 1`); got != "p.v1.0.0 p.v1.2.0 p.v1.3.0" {
		t.Errorf("bundles %s", got)
	}

	d.sound()
}

func TestDeprecateHeadOfTheDefaultChannel(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode,
		given{version: "1.0.0", channels: "a,b", defaultChannel: "b"},
		given{version: "1.1.0", channels: "b", replaces: "p.v1.0.0", defaultChannel: "b"},
		given{pkg: "q", version: "1.0.0", channels: "x"},
	)
	before := d.catalog()
	head, other := "registry.example/p.v1.1.0", "registry.example/p.v1.0.0"
	for name, c := range map[string]struct {
		opts   DeprecateOptions
		images []string
		err    string
	}{
		"not allowed":     {images: []string{head, other}, err: "error deprecating bundle " + head + ": Bundle deprecation causing default channel removal"},
		"not all heads":   {opts: DeprecateOptions{AllowPackageRemoval: true}, images: []string{head}, err: "cannot deprecate default channel head from package without removing all other channel heads in package p: must deprecate p.v1.0.0, head of channel a"},
		"unknown bundles": {images: []string{other, "x", "y"}, err: "target bundlepaths for deprecation missing from registry: [x y]"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := d.deprecate(c.opts, c.images...); err == nil || err.Error() != c.err {
				t.Errorf("error %v, want %s", err, c.err)
			}
			if got := d.catalog(); got != before {
				t.Errorf("the catalog changed:\n%s", got)
			}
		})
	}

	if err := d.deprecate(DeprecateOptions{AllowPackageRemoval: true}, head, other); err != nil {
		t.Fatal(err)
	}

	d.expect("q default x", "  x", "    q.v1.0.0")
	if got := d.query(`SELECT name FROM operatorbundle`); got != "q.v1.0.0" {
		t.Errorf("bundles %s", got)
	}

	d.sound()
}

// Bundles that lead to each other are not below themselves.
func TestDeprecateInACircle(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode,
		given{version: "1.0.0", channels: "a", defaultChannel: "a"},
		given{version: "1.1.0", channels: "a,b", replaces: "p.v1.0.0"},
		given{version: "1.2.0", channels: "a", replaces: "p.v1.1.0", defaultChannel: "a"},
	)
	d.run(`INSERT INTO channel_entry (channel_name, package_name, operatorbundle_name, replaces, depth)
		SELECT 'b', 'p', 'p.v1.0.0', entry_id, 9 FROM channel_entry WHERE channel_name = 'b' AND operatorbundle_name = 'p.v1.1.0' LIMIT 1`)
	if err := d.deprecate(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}
	if got := d.query(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.1.0" {
		t.Errorf("deprecated %q", got)
	}

	d.expect("p default a", "  a", "    p.v1.2.0 replaces p.v1.1.0")
}

func TestDeprecatePermissive(t *testing.T) {
	d := chain(t)
	if err := d.deprecate(DeprecateOptions{Permissive: true}, "unknown", "registry.example/p.v1.3.0", "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}
	contains(t, d.warnings, "missing from registry: [unknown]")
	contains(t, d.warnings, "causing default channel removal")
	d.expect("p default stable", "  old", "    p.v1.0.0", "  stable", "    p.v1.2.0 replaces p.v1.1.0", "    p.v1.3.0 replaces p.v1.2.0")
}

func TestAddAfterDeprecation(t *testing.T) {
	for _, mode := range []Mode{ModeReplaces, ModeSemver, ModeSemverSkipPatch} {
		t.Run(string(mode), func(t *testing.T) {
			d := chain(t)
			d.run(`UPDATE operatorbundle SET skips = 'p.v0.1.0' WHERE name = 'p.v1.1.0'`)
			if err := d.deprecate(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
				t.Fatal(err)
			}

			d.add(AddOptions{Mode: mode}, given{version: "1.4.0", channels: "stable", replaces: "p.v1.3.0", defaultChannel: "stable"})
			d.expect("p default stable", "  old", "    p.v1.0.0", "  stable",
				"    p.v1.2.0 replaces p.v1.1.0", "    p.v1.3.0 replaces p.v1.2.0", "    p.v1.4.0 replaces p.v1.3.0")
			if got := d.query(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.1.0" {
				t.Errorf("deprecated %s", got)
			}

			d.sound()
			if got := d.query(`SELECT count(*) FROM channel_entry WHERE operatorbundle_name = 'p.v0.1.0'`); got != "0" {
				t.Error("a deprecated bundle skips")
			}

			// Below a deprecated bundle there is no place.
			err := d.tryAdd(AddOptions{Mode: mode}, given{version: "1.0.5", channels: "stable"})
			if err == nil || !strings.Contains(err.Error(), "add prunes bundle p.v1.0.5") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A bundle is deprecated by its own property as well, and until it is overwritten.
func TestOverwriteOfDeprecatedHead(t *testing.T) {
	d := newDatabase(t)
	deprecated := []fbc.Property{{Type: propertyDeprecated, Value: []byte("{}")}}
	d.add(replacesMode,
		given{version: "1.0.0", channels: "a", defaultChannel: "a"},
		given{version: "1.1.0", channels: "b", properties: deprecated})
	d.expect("p default a", "  a", "    p.v1.0.0")
	overwrite := AddOptions{OverwriteLatest: true}
	// Another bundle is overwritten: the mark stays.
	d.add(overwrite, given{version: "1.0.0", channels: "a", defaultChannel: "a", image: "new"})
	d.expect("p default a", "  a", "    p.v1.0.0")
	d.add(overwrite, given{version: "1.1.0", channels: "b", image: "newer"})
	d.expect("p default a", "  a", "    p.v1.0.0", "  b", "    p.v1.1.0")
	if got := d.query(`SELECT count(*) FROM deprecated`); got != "0" {
		t.Errorf("%s marks", got)
	}

	d.sound()
}

// A bundle whose channel went with its deprecation can be overwritten, not added again.
func TestOverwriteWhatIsInNoChannel(t *testing.T) {
	d := chain(t)
	d.add(replacesMode, given{version: "0.9.0", channels: "alone"})
	if err := d.deprecate(DeprecateOptions{}, "registry.example/p.v0.9.0"); err != nil {
		t.Fatal(err)
	}
	if err := d.tryAdd(replacesMode, given{version: "0.9.0", channels: "alone", image: "new"}); err == nil || !strings.Contains(err.Error(), "is in no channel") {
		t.Errorf("error %v", err)
	}

	d.add(AddOptions{OverwriteLatest: true}, given{version: "0.9.0", channels: "alone", image: "new"})
	if got := d.catalog(); !strings.Contains(got, "  alone\n    p.v0.9.0\n") {
		t.Errorf("catalog:\n%s", got)
	}

	d.sound()
}
