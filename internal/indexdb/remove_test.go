package indexdb

import (
	"context"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// newThreePackagesFixture returns a database with three packages that share an API: a and b
// provide "shared", c requires it.
func newThreePackagesFixture(t *testing.T) *fixture {
	d := newFixture(t)
	var bundles []Bundle
	for _, pkg := range []string{"a", "b", "c"} {
		for _, version := range []string{"1.0.0", "1.1.0"} {
			g := bundleSpec{pkg: pkg, version: version, channels: "x"}
			if version == "1.1.0" {
				g.replaces = pkg + ".v1.0.0"
			}

			b := g.newBundle(t)
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

	if err := d.editIndex(func(e *Editor) error { return e.Add(context.Background(), bundles, AddOptions{}) }); err != nil {
		t.Fatal(err)
	}

	return d
}

const apiGroups = `SELECT group_name FROM api ORDER BY 1`

func TestRemovePackages(t *testing.T) {
	d := newThreePackagesFixture(t)
	if got := d.queryFirst(`SELECT plural FROM api WHERE kind = 'Shared'`); got != "shares" {
		t.Errorf("got plural %q, want shares", got)
	}

	remove := func(permissive bool, packages ...string) error {
		return d.editIndex(func(e *Editor) error { return e.RemovePackages(context.Background(), packages, permissive) })
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

	d.expectCatalog(restOf("b", "c"))
	d.checkIntegrity()
	if got := d.queryFirst(apiGroups); got != "b.example c.example shared.example" {
		t.Errorf("got apis %s, want b.example c.example shared.example", got)
	}

	err := remove(false, "b", "nope")
	if want := "error deleting packages from database: error removing operator package nope: no package found for packagename nope"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}

	d.expectCatalog(restOf("b", "c"))
	if err := remove(true, "b", "nope"); err != nil {
		t.Error(err)
	}

	expectContains(t, d.warnings, "no package found for packagename nope")
	d.expectCatalog(restOf("c"))
	if got := d.queryFirst(apiGroups); got != "c.example shared.example" {
		t.Errorf("got apis %s, want c.example shared.example", got)
	}
	if err := remove(false, "c"); err != nil {
		t.Fatal(err)
	}

	for _, table := range []string{"operatorbundle", "package", "channel", "channel_entry", "api", "api_provider", "api_requirer", "related_image", "dependencies", "properties"} {
		if got := d.queryFirst(`SELECT count(*) FROM ` + table); got != "0" {
			t.Errorf("table %s: got %s rows, want none", table, got)
		}
	}

	d.checkIntegrity()
}

func TestPrunePackages(t *testing.T) {
	d := newThreePackagesFixture(t)
	err := d.editIndex(func(e *Editor) error {
		return e.PrunePackages(context.Background(), []string{"b", "unknown"}, false)
	})
	if err != nil {
		t.Fatal(err)
	}

	d.expectCatalog("b default x", "  x", "    b.v1.0.0", "    b.v1.1.0 replaces b.v1.0.0")
	if got := d.queryFirst(apiGroups); got != "b.example shared.example" {
		t.Errorf("got apis %s, want b.example shared.example", got)
	}

	d.checkIntegrity()
}

func TestPruneStranded(t *testing.T) {
	d := newThreePackagesFixture(t)
	d.execSQL(
		`INSERT INTO operatorbundle (name, version, bundlepath) VALUES ('stranded', '1.0.0', 'i1'), ('marked', '1.0.0', 'i2'), ('homeless', '1.0.0', 'i3')`,
		`INSERT INTO properties (type, value, operatorbundle_name) VALUES ('olm.package', '{"packageName":"gone"}', 'homeless'), ('olm.package', 'no json', 'marked'), ('x', '{}', 'stranded')`,
		`INSERT INTO related_image (image, operatorbundle_name) VALUES ('i', 'stranded')`,
		`INSERT INTO deprecated (operatorbundle_name) VALUES ('marked'), ('homeless'), ('nothing')`,
	)

	before := d.renderCatalog()
	if err := d.editIndex(func(e *Editor) error { return e.PruneStranded(context.Background()) }); err != nil {
		t.Fatal(err)
	}
	if got := d.renderCatalog(); got != before {
		t.Errorf("got a changed catalog, want it unchanged:\n%s", got)
	}
	if got := d.queryFirst(`SELECT name FROM operatorbundle WHERE name NOT LIKE '%.v1.%'`); got != "marked" {
		t.Errorf("got remaining rows %s, want marked", got)
	}
	if got := d.queryFirst(`SELECT operatorbundle_name FROM deprecated`); got != "marked" {
		t.Errorf("got remaining deprecation marks %s, want marked", got)
	}
	if got := d.queryFirst(`SELECT count(*) FROM properties WHERE operatorbundle_name = 'stranded'`); got != "0" {
		t.Errorf("got remaining properties %s, want 0", got)
	}

	d.checkIntegrity()
}

// newChainFixture returns a database with a package. Its channel stable has four bundles, its
// channel mid the lower two, and its channel old the lowest one.
func newChainFixture(t *testing.T) *fixture {
	d := newFixture(t)
	d.addBundles(replacesMode,
		bundleSpec{version: "1.0.0", channels: "stable,old", defaultChannel: "stable"},
		bundleSpec{version: "1.1.0", channels: "stable,mid", replaces: "p.v1.0.0"},
		bundleSpec{version: "1.2.0", channels: "stable", replaces: "p.v1.1.0"},
		bundleSpec{version: "1.3.0", channels: "stable", defaultChannel: "stable", replaces: "p.v1.2.0"},
	)

	return d
}

func (d *fixture) deprecateImages(opts DeprecateOptions, images ...string) error {
	return d.editIndex(func(e *Editor) error { return e.DeprecateTruncate(context.Background(), images, opts) })
}

func TestDeprecateTruncate(t *testing.T) {
	d := newChainFixture(t)
	if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}

	// The channel whose head it was is removed. The lower bundles remain in another channel.
	d.expectCatalog("p default stable", "  old", "    p.v1.0.0", "  stable", "    p.v1.2.0 replaces p.v1.1.0", "    p.v1.3.0 replaces p.v1.2.0")
	if got := d.queryFirst(`SELECT name FROM channel ORDER BY 1`); got != "old stable" {
		t.Errorf("got channels %s, want old stable", got)
	}
	if got := d.queryFirst(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.1.0" {
		t.Errorf("got deprecated %s, want p.v1.1.0", got)
	}
	if got := d.queryFirst(`SELECT operatorbundle_name || value FROM properties WHERE type = 'olm.deprecated'`); got != "p.v1.1.0{}" {
		t.Errorf("got properties %s, want p.v1.1.0{}", got)
	}
	if got := d.queryFirst(`SELECT coalesce(replaces, 'none') FROM operatorbundle WHERE name = 'p.v1.1.0'`); got != "none" {
		t.Errorf("got replaces %s, want none", got)
	}

	d.checkIntegrity()
	// Deprecating the bundle again changes nothing.
	before := d.renderCatalog()
	if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}
	if got := d.renderCatalog(); got != before {
		t.Errorf("got a changed catalog, want it unchanged:\n%s", got)
	}
	if got := d.queryFirst(`SELECT count(*) FROM properties WHERE type = 'olm.deprecated'`); got != "1" {
		t.Errorf("got number of deprecation marks %s, want 1", got)
	}
	// Deprecating a higher bundle removes it, with its mark.
	if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v1.2.0"); err != nil {
		t.Fatal(err)
	}

	d.expectCatalog("p default stable", "  old", "    p.v1.0.0", "  stable", "    p.v1.3.0 replaces p.v1.2.0")
	if got := d.queryFirst(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.2.0" {
		t.Errorf("got deprecated %s, want p.v1.2.0", got)
	}
	if got := d.queryFirst(`SELECT name FROM operatorbundle ORDER BY 1`); got != "p.v1.0.0 p.v1.2.0 p.v1.3.0" {
		t.Errorf("got bundles %s, want p.v1.0.0 p.v1.2.0 p.v1.3.0", got)
	}

	d.checkIntegrity()
}

func TestDeprecateRemovesBundlesOfNoOtherChannel(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode,
		bundleSpec{version: "1.0.0", channels: "stable"},
		bundleSpec{version: "1.1.0", channels: "stable", replaces: "p.v1.0.0"},
		bundleSpec{version: "1.2.0", channels: "stable", replaces: "p.v1.1.0"},
		bundleSpec{version: "1.3.0", channels: "stable", replaces: "p.v1.2.0", skips: "p.v1.0.0"},
	)
	// The head also leads to 1.0.0, so that clusters with 1.0.0 can update.
	if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v1.2.0", "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}

	d.expectCatalog("p default stable", "  stable", "    p.v1.0.0", "    p.v1.3.0 replaces p.v1.2.0 skips p.v1.0.0")
	if got := d.queryFirst(`SELECT name FROM operatorbundle ORDER BY 1`); got != "p.v1.0.0 p.v1.2.0 p.v1.3.0" {
		t.Errorf("got bundles %s, want p.v1.0.0 p.v1.2.0 p.v1.3.0", got)
	}

	d.checkIntegrity()
}

func TestDeprecateHeadOfTheDefaultChannel(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode,
		bundleSpec{version: "1.0.0", channels: "a,b", defaultChannel: "b"},
		bundleSpec{version: "1.1.0", channels: "b", replaces: "p.v1.0.0", defaultChannel: "b"},
		bundleSpec{pkg: "q", version: "1.0.0", channels: "x"},
	)
	before := d.renderCatalog()
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
			if err := d.deprecateImages(c.opts, c.images...); err == nil || err.Error() != c.err {
				t.Errorf("got error %v, want %s", err, c.err)
			}
			if got := d.renderCatalog(); got != before {
				t.Errorf("got a changed catalog, want it unchanged:\n%s", got)
			}
		})
	}

	if err := d.deprecateImages(DeprecateOptions{AllowPackageRemoval: true}, head, other); err != nil {
		t.Fatal(err)
	}

	d.expectCatalog("q default x", "  x", "    q.v1.0.0")
	if got := d.queryFirst(`SELECT name FROM operatorbundle`); got != "q.v1.0.0" {
		t.Errorf("got bundles %s, want q.v1.0.0", got)
	}

	d.checkIntegrity()
}

// TestDeprecateWithCyclicUpdates checks that bundles which lead to each other are not below
// themselves.
func TestDeprecateWithCyclicUpdates(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode,
		bundleSpec{version: "1.0.0", channels: "a", defaultChannel: "a"},
		bundleSpec{version: "1.1.0", channels: "a,b", replaces: "p.v1.0.0"},
		bundleSpec{version: "1.2.0", channels: "a", replaces: "p.v1.1.0", defaultChannel: "a"},
	)
	d.execSQL(`INSERT INTO channel_entry (channel_name, package_name, operatorbundle_name, replaces, depth)
		SELECT 'b', 'p', 'p.v1.0.0', entry_id, 9 FROM channel_entry WHERE channel_name = 'b' AND operatorbundle_name = 'p.v1.1.0' LIMIT 1`)
	if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}
	if got := d.queryFirst(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.1.0" {
		t.Errorf("got deprecated %q, want p.v1.1.0", got)
	}

	d.expectCatalog("p default a", "  a", "    p.v1.2.0 replaces p.v1.1.0")
}

func TestDeprecatePermissive(t *testing.T) {
	d := newChainFixture(t)
	if err := d.deprecateImages(DeprecateOptions{Permissive: true}, "unknown", "registry.example/p.v1.3.0", "registry.example/p.v1.1.0"); err != nil {
		t.Fatal(err)
	}
	expectContains(t, d.warnings, "missing from registry: [unknown]")
	expectContains(t, d.warnings, "causing default channel removal")
	d.expectCatalog("p default stable", "  old", "    p.v1.0.0", "  stable", "    p.v1.2.0 replaces p.v1.1.0", "    p.v1.3.0 replaces p.v1.2.0")
}

func TestAddAfterDeprecation(t *testing.T) {
	for _, mode := range []Mode{ModeReplaces, ModeSemver, ModeSemverSkipPatch} {
		t.Run(string(mode), func(t *testing.T) {
			d := newChainFixture(t)
			d.execSQL(`UPDATE operatorbundle SET skips = 'p.v0.1.0' WHERE name = 'p.v1.1.0'`)
			if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v1.1.0"); err != nil {
				t.Fatal(err)
			}

			d.addBundles(AddOptions{Mode: mode}, bundleSpec{version: "1.4.0", channels: "stable", replaces: "p.v1.3.0", defaultChannel: "stable"})
			d.expectCatalog("p default stable", "  old", "    p.v1.0.0", "  stable",
				"    p.v1.2.0 replaces p.v1.1.0", "    p.v1.3.0 replaces p.v1.2.0", "    p.v1.4.0 replaces p.v1.3.0")
			if got := d.queryFirst(`SELECT operatorbundle_name FROM deprecated`); got != "p.v1.1.0" {
				t.Errorf("got deprecated %s, want p.v1.1.0", got)
			}

			d.checkIntegrity()
			if got := d.queryFirst(`SELECT count(*) FROM channel_entry WHERE operatorbundle_name = 'p.v0.1.0'`); got != "0" {
				t.Error("got a row of a skipped bundle of the deprecated bundle, want none")
			}

			// No bundle can be added below a deprecated bundle.
			err := d.tryAddBundles(AddOptions{Mode: mode}, bundleSpec{version: "1.0.5", channels: "stable"})
			if err == nil || !strings.Contains(err.Error(), "add prunes bundle p.v1.0.5") {
				t.Errorf("got error %v, want one with \"add prunes bundle p.v1.0.5\"", err)
			}
		})
	}
}

// TestOverwriteOfDeprecatedHead checks that a bundle with the deprecated property is
// deprecated until it is overwritten.
func TestOverwriteOfDeprecatedHead(t *testing.T) {
	d := newFixture(t)
	deprecated := []fbc.Property{{Type: propertyDeprecated, Value: []byte("{}")}}
	d.addBundles(replacesMode,
		bundleSpec{version: "1.0.0", channels: "a", defaultChannel: "a"},
		bundleSpec{version: "1.1.0", channels: "b", properties: deprecated})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0")
	overwrite := AddOptions{OverwriteLatest: true}
	// If another bundle is overwritten, the mark remains.
	d.addBundles(overwrite, bundleSpec{version: "1.0.0", channels: "a", defaultChannel: "a", image: "new"})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0")
	d.addBundles(overwrite, bundleSpec{version: "1.1.0", channels: "b", image: "newer"})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0", "  b", "    p.v1.1.0")
	if got := d.queryFirst(`SELECT count(*) FROM deprecated`); got != "0" {
		t.Errorf("got number of deprecation marks %s, want 0", got)
	}

	d.checkIntegrity()
}

// TestOverwriteOfBundleWithoutChannel checks that a bundle whose channel was removed by its
// deprecation can be overwritten, but not added again.
func TestOverwriteOfBundleWithoutChannel(t *testing.T) {
	d := newChainFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "0.9.0", channels: "alone"})
	if err := d.deprecateImages(DeprecateOptions{}, "registry.example/p.v0.9.0"); err != nil {
		t.Fatal(err)
	}
	if err := d.tryAddBundles(replacesMode, bundleSpec{version: "0.9.0", channels: "alone", image: "new"}); err == nil || !strings.Contains(err.Error(), "is in no channel") {
		t.Errorf("got error %v, want one with \"is in no channel\"", err)
	}

	d.addBundles(AddOptions{OverwriteLatest: true}, bundleSpec{version: "0.9.0", channels: "alone", image: "new"})
	if got := d.renderCatalog(); !strings.Contains(got, "  alone\n    p.v0.9.0\n") {
		t.Errorf("got catalog\n%s\nwant the channel alone with p.v0.9.0", got)
	}

	d.checkIntegrity()
}
