package indexdb

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
)

var replacesMode, semverMode, skipPatchMode = AddOptions{}, AddOptions{Mode: ModeSemver}, AddOptions{Mode: ModeSemverSkipPatch}

func TestReplacesHeadsAndDefault(t *testing.T) {
	bundles := []bundleSpec{
		{version: "1.0.0", channels: "slow"},
		{version: "1.1.0", channels: "slow,stable", defaultChannel: "stable", replaces: "p.v1.0.0"},
		{version: "2.1.0", channels: "edge", defaultChannel: "stable", replaces: "p.v1.1.0"},
	}
	want := []string{
		"p default stable",
		"  edge",
		"    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0", "    p.v2.1.0 replaces p.v1.1.0",
		"  slow",
		"    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0",
		"  stable",
		"    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0",
	}

	t.Run("one by one", func(t *testing.T) {
		d := newFixture(t)
		d.addEachBundle(replacesMode, bundles...)
		d.expectCatalog(want...)
		d.checkIntegrity()
		if got := d.queryFirst(`SELECT name || '=' || head_operatorbundle_name FROM channel ORDER BY 1`); got != "edge=p.v2.1.0 slow=p.v1.1.0 stable=p.v1.1.0" {
			t.Errorf("got heads %s, want edge=p.v2.1.0 slow=p.v1.1.0 stable=p.v1.1.0", got)
		}
	})

	t.Run("in one batch, in any order", func(t *testing.T) {
		d := newFixture(t)
		d.addBundles(replacesMode, bundles[2], bundles[0], bundles[1])
		d.expectCatalog(want...)
	})
}

func TestReplacesRows(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode,
		bundleSpec{version: "1.0.0", channels: "stable"},
		bundleSpec{version: "1.1.0", channels: "stable", replaces: "p.v1.0.0"},
		bundleSpec{version: "1.2.0", channels: "stable", replaces: "p.v1.0.0", skips: "p.v1.1.0,p.v0.9.0"},
	)
	// Depth, bundle, and the bundle that the row leads to.
	got := d.queryFirst(`SELECT e.depth || ':' || e.operatorbundle_name || '>' || coalesce(t.operatorbundle_name, '')
		FROM channel_entry e LEFT JOIN channel_entry t ON t.entry_id = e.replaces ORDER BY e.entry_id`)
	want := "0:p.v1.2.0>p.v1.0.0 1:p.v1.1.0> 1:p.v1.2.0>p.v1.1.0 2:p.v0.9.0> 2:p.v1.2.0>p.v0.9.0 3:p.v1.0.0>"
	if got != want {
		t.Errorf("rows:\n got %s\nwant %s", got, want)
	}

	d.expectCatalog("p default stable", "  stable",
		"    p.v1.0.0", "    p.v1.1.0", "    p.v1.2.0 replaces p.v1.0.0 skips p.v1.1.0,p.v0.9.0")
}

func TestReplacesVersions(t *testing.T) {
	cases := map[string]struct {
		bundles []bundleSpec
		heads   string
		err     string
	}{
		"one without a version": {bundles: []bundleSpec{{name: "a", channels: "x"}}, heads: "x=a"},
		"two without a version": {
			bundles: []bundleSpec{{name: "a", channels: "x"}, {name: "b", channels: "x", replaces: "a"}},
			err:     "more than one bundle with maximum version 0.0.0-z",
		},
		"one without a version and 0.0.1": {
			bundles: []bundleSpec{{name: "a", channels: "x"}, {name: "b", version: "0.0.1", channels: "x", replaces: "a"}}, heads: "x=b",
		},
		"equal versions in a channel": {
			bundles: []bundleSpec{{name: "a", version: "1.0.0", channels: "x"}, {name: "b", version: "1.0.0", channels: "x"}, {name: "c", version: "2.0.0", channels: "y", defaultChannel: "y"}},
			err:     "more than one potential channel head for x",
		},
		"equal versions that are the highest, in two channels": {
			bundles: []bundleSpec{{name: "a", version: "1.0.0", channels: "x", defaultChannel: "x"}, {name: "b", version: "1.0.0", channels: "y"}},
			err:     "more than one bundle with maximum version 1.0.0",
		},
		"equal versions in two channels below the highest": {
			bundles: []bundleSpec{{name: "a", version: "1.0.0", channels: "x", defaultChannel: "x"}, {name: "b", version: "1.0.0", channels: "y"}, {name: "c", version: "1.1.0", channels: "x", replaces: "a"}},
			heads:   "x=c y=b",
		},
		"builds and pre-releases": {
			bundles: []bundleSpec{
				{version: "1.0.0", channels: "x"}, {version: "1.0.0+1", channels: "x", replaces: "p.v1.0.0"}, {version: "1.0.0+2", channels: "x", replaces: "p.v1.0.0+1"},
				{version: "2.0.0-pre", channels: "y", defaultChannel: "x", replaces: "p.v1.0.0+2"},
			},
			heads: "x=p.v1.0.0+2 y=p.v2.0.0-pre",
		},
		"build numbers are numbers": {
			bundles: []bundleSpec{{version: "1.0.0+9", channels: "x"}, {version: "1.0.0+10", channels: "x", replaces: "p.v1.0.0+9"}},
			heads:   "x=p.v1.0.0+10",
		},
		"no version at all": {
			bundles: []bundleSpec{{name: "a", version: "bogus", channels: "x"}}, err: "error parsing bundle a version bogus: ",
		},
		"no default channel": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x,y"}}, err: "no default channel specified for p",
		},
		"an unknown default channel": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x,y", defaultChannel: "z"}}, err: "unable to determine default channel among channel heads: ",
		},
		"a single channel is the default": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x", defaultChannel: "z"}}, heads: "x=p.v1.0.0",
		},
		"a cycle": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x", replaces: "p.v1.1.0"}, {version: "1.1.0", channels: "x", replaces: "p.v1.0.0"}},
			err:     "Cycle detected, p.v1.0.0 replaces p.v1.1.0",
		},
		"replaces itself": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x", replaces: "p.v1.0.0"}}, err: "Cycle detected, p.v1.0.0 replaces p.v1.0.0",
		},
		"replaces a missing bundle": {
			bundles: []bundleSpec{{version: "0.22.2", channels: "x", replaces: "p.v0.15.0"}},
			err:     "Invalid bundle p.v0.22.2, replaces nonexistent bundle p.v0.15.0",
		},
		"skips itself": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x", skips: "p.v1.0.0"}}, heads: "x=p.v1.0.0",
		},
		"replaces the head": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x", replaces: "p.v2.0.0"}, {version: "2.0.0", channels: "x"}},
			err:     "add prunes bundle p.v1.0.0 (registry.example/p.v1.0.0) from package p, channel x: this may be due to incorrect channel head (p.v2.0.0)",
		},
		"no channel": {bundles: []bundleSpec{{version: "1.0.0"}}, err: `failed to add bundle "p.v1.0.0": it names no channel`},
		"substitutes without the option": {
			bundles: []bundleSpec{{version: "1.0.0", channels: "x", substitutesFor: "y"}}, err: "SubstitutesFor is an alpha-only feature",
		},
		"edge to another package": {
			bundles: []bundleSpec{
				{pkg: "a", version: "1.0.0", channels: "x", skips: "other"}, {pkg: "b", version: "1.0.0", channels: "x", skips: "other"},
			},
			err: "bundle other must belong to exactly one package, found on: [a b]",
		},
		"the same name twice":  {bundles: []bundleSpec{{name: "a", channels: "x", image: "i1"}, {name: "a", channels: "x", image: "i2"}}, err: "Bundle already added that provides package and csv"},
		"the same image twice": {bundles: []bundleSpec{{name: "a", channels: "x", image: "i"}, {name: "b", channels: "x", image: "i"}}, err: "Bundle i already exists"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			err := d.tryAddBundles(replacesMode, c.bundles...)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got error %v, want %s", err, c.err)
				}
				if _, err := os.Stat(d.path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("after a failed add: got error %v for the database file, want that it does not exist", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := d.queryFirst(`SELECT name || '=' || head_operatorbundle_name FROM channel ORDER BY 1`); got != c.heads {
				t.Errorf("got heads %s, want %s", got, c.heads)
			}
			if got := d.queryFirst(`SELECT count(*) FROM channel_entry e JOIN channel_entry t ON t.entry_id = e.replaces AND t.operatorbundle_name = e.operatorbundle_name`); got != "0" {
				t.Errorf("got %s entries that lead to their own bundle, want none", got)
			}
			d.checkIntegrity()
		})
	}
}

func TestEdgeToAPackageOfTheIndex(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{pkg: "a", version: "1.0.0", channels: "x"})
	err := d.tryAddBundles(replacesMode, bundleSpec{pkg: "b", version: "1.1.0", channels: "x", replaces: "a.v1.0.0"})
	want := "bundle a.v1.0.0 belongs to package a on index, cannot be added as an edge for package b"
	if err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}

	err = d.tryAddBundles(replacesMode, bundleSpec{pkg: "b", name: "a.v1.0.0", version: "1.1.0", channels: "x", image: "other"})
	if want := `failed to add bundle "a.v1.0.0": package a has a bundle of this name`; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}

func TestSemver(t *testing.T) {
	etcd := []bundleSpec{
		{version: "0.6.1", channels: "alpha"},
		{version: "0.9.0", channels: "alpha", replaces: "p.v0.6.1"},
		{version: "0.9.2", channels: "alpha", replaces: "p.v0.9.0"},
	}
	cases := map[string]struct {
		before []bundleSpec
		mode   AddOptions
		add    []bundleSpec
		want   []string
		err    string
	}{
		"above": {
			before: []bundleSpec{{version: "0.9.2", channels: "alpha"}}, add: []bundleSpec{{version: "0.9.3", channels: "alpha", replaces: "ignored", skips: "ignored"}}, mode: semverMode,
			want: []string{"    p.v0.9.2", "    p.v0.9.3 replaces p.v0.9.2"},
		},
		"below": {
			before: []bundleSpec{{version: "0.9.3", channels: "alpha"}}, add: []bundleSpec{{version: "0.6.1", channels: "alpha"}}, mode: semverMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.3 replaces p.v0.6.1"},
		},
		"between": {
			before: etcd, add: []bundleSpec{{version: "0.9.1", channels: "alpha"}}, mode: semverMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0 replaces p.v0.6.1", "    p.v0.9.1 replaces p.v0.9.0", "    p.v0.9.2 replaces p.v0.9.1"},
		},
		"several, in any order": {
			add: []bundleSpec{etcd[2], etcd[0], etcd[1]}, mode: semverMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0 replaces p.v0.6.1", "    p.v0.9.2 replaces p.v0.9.0"},
		},
		"skips patches": {
			before: etcd, add: []bundleSpec{{version: "0.9.3", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.2", "    p.v0.9.3 replaces p.v0.6.1 skips p.v0.9.0,p.v0.9.2"},
		},
		"skips patches and their pre-releases, one batch": {
			add: append([]bundleSpec{{version: "0.9.3-rc1", channels: "alpha"}, {version: "0.9.3", channels: "alpha"}}, etcd...), mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.2", "    p.v0.9.3 replaces p.v0.6.1 skips p.v0.9.0,p.v0.9.2,p.v0.9.3-rc1", "    p.v0.9.3-rc1"},
		},
		"skips patches of its own major version": {
			before: etcd, add: []bundleSpec{{version: "1.9.3", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0 replaces p.v0.6.1", "    p.v0.9.2 replaces p.v0.9.0", "    p.v1.9.3 replaces p.v0.9.2"},
		},
		"the next patch skips the skipped bundles, except for the chain": {
			before: []bundleSpec{
				{version: "0.5.0", channels: "alpha"}, {version: "0.6.1", channels: "alpha", replaces: "p.v0.5.0"}, {version: "0.9.0", channels: "alpha", replaces: "p.v0.6.1"},
				{version: "0.9.2", channels: "alpha", replaces: "p.v0.9.0", skips: "p.v0.6.1,p.v0.5.0,p.v0.4.0"},
			},
			add: []bundleSpec{{version: "0.9.3", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{
				"    p.v0.5.0", "    p.v0.6.1 replaces p.v0.5.0", "    p.v0.9.0", "    p.v0.9.2", "    p.v0.9.3 replaces p.v0.6.1 skips p.v0.9.0,p.v0.9.2,p.v0.4.0",
			},
		},
		"a lower patch in skippatch": {
			before: etcd, add: []bundleSpec{{version: "0.9.1", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.1 replaces p.v0.6.1 skips p.v0.9.0", "    p.v0.9.2 replaces p.v0.9.1"},
		},
		"an existing version": {
			before: etcd, add: []bundleSpec{{name: "other", version: "0.9.2", channels: "alpha"}}, mode: semverMode, err: "Bundle version 0.9.2 already added to index",
		},
		"a version with other build metadata": {
			before: etcd, add: []bundleSpec{{version: "0.9.2+1", channels: "alpha"}}, mode: semverMode, err: "Bundle version 0.9.2+1 already added to index",
		},
		"not a version": {before: etcd, add: []bundleSpec{{name: "other", version: "x", channels: "alpha"}}, mode: semverMode, err: "Bundle version x is not valid"},
		"no version":    {before: etcd, add: []bundleSpec{{name: "other", channels: "alpha"}}, mode: semverMode, err: "Bundle version  is not valid"},
		"a default that is not a channel": {
			before: etcd, add: []bundleSpec{{version: "0.9.3", channels: "alpha", defaultChannel: "none"}}, mode: semverMode, err: "Default channel is missing and can't be inferred",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			d.addEachBundle(replacesMode, c.before...)
			err := d.tryAddBundles(c.mode, c.add...)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d.expectCatalog(append([]string{"p default alpha", "  alpha"}, c.want...)...)
			d.checkIntegrity()
		})
	}
}

func TestSkipPatchAgain(t *testing.T) {
	d := newFixture(t)
	for _, version := range []string{"0.6.1", "0.9.0", "0.9.2", "0.9.3", "1.0.0", "0.9.1"} {
		d.addBundles(skipPatchMode, bundleSpec{version: version, channels: "alpha"})
		d.validateCatalog()
	}

	d.expectCatalog("p default alpha", "  alpha",
		"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.1 replaces p.v0.6.1 skips p.v0.9.0", "    p.v0.9.2",
		"    p.v0.9.3 replaces p.v0.9.1 skips p.v0.9.0,p.v0.9.2", "    p.v1.0.0 replaces p.v0.9.3")
}

func TestSemverDefaultChannel(t *testing.T) {
	d := newFixture(t)
	d.addBundles(semverMode, bundleSpec{version: "1.0.0", channels: "b,a"})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0", "  b", "    p.v1.0.0")
	d.addBundles(semverMode, bundleSpec{version: "1.1.0", channels: "b", defaultChannel: "b"})
	d.addBundles(semverMode, bundleSpec{version: "1.2.0", channels: "c"})
	d.expectCatalog("p default b", "  a", "    p.v1.0.0", "  b", "    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0", "  c", "    p.v1.2.0")
	d.checkIntegrity()
}

// TestSemverModesKeepManifestsOfHeads checks that semver modes keep the manifests of heads
// only, and replaces mode all.
func TestSemverModesKeepManifestsOfHeads(t *testing.T) {
	const kept = `SELECT name FROM operatorbundle WHERE bundle IS NOT NULL AND csv IS NOT NULL ORDER BY 1`
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"}, bundleSpec{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"})
	if got := d.queryFirst(kept); got != "p.v1.0.0 p.v1.1.0" {
		t.Errorf("after mode replaces: got bundles with manifests %s, want both", got)
	}

	d.addBundles(semverMode, bundleSpec{version: "1.2.0", channels: "a"})
	if got := d.queryFirst(kept); got != "p.v1.2.0" {
		t.Errorf("after mode semver: got bundles with manifests %s, want p.v1.2.0", got)
	}
	if got := d.queryFirst(`SELECT DISTINCT typeof(csv) || typeof(bundle) FROM operatorbundle WHERE csv IS NOT NULL`); got != "blobblob" {
		t.Errorf("got types %s, want blobblob", got)
	}
}

func TestAddWhatIsThere(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	var image *ImageAddedError
	if err := d.tryAddBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"}); !errors.As(err, &image) || ExitCode(err) != 2 || err.Error() != "Bundle registry.example/p.v1.0.0 already exists" {
		t.Errorf("the same image: got unexpected error %v", err)
	}

	var version *VersionAddedError
	if err := d.tryAddBundles(semverMode, bundleSpec{version: "1.0.0", channels: "a", image: "other"}); !errors.As(err, &version) || ExitCode(err) != 3 {
		t.Errorf("the same name: got unexpected error %v", err)
	}
	// If one bundle of a batch cannot be added, none is.
	if err := d.tryAddBundles(replacesMode, bundleSpec{pkg: "q", version: "1.0.0", channels: "a"}, bundleSpec{version: "1.0.0", channels: "a"}); !errors.As(err, &image) {
		t.Errorf("in a batch: got unexpected error %v", err)
	}

	d.expectCatalog("p default a", "  a", "    p.v1.0.0")
	// With the option, the bundles that can be added are added.
	permissive := AddOptions{Permissive: true}
	d.addBundles(permissive, bundleSpec{pkg: "q", version: "1.0.0", channels: "a"}, bundleSpec{version: "1.0.0", channels: "a"})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0", "q default a", "  a", "    q.v1.0.0")
	expectContains(t, d.warnings, "permissive mode enabled: Bundle registry.example/p.v1.0.0 already exists")
	// Nothing of the other bundles remains.
	d.addBundles(permissive, bundleSpec{pkg: "r", version: "1.0.0", channels: "a", replaces: "r.none"})
	expectContains(t, d.warnings, "Invalid bundle r.v1.0.0, replaces nonexistent bundle r.none")
	if got := d.queryFirst(`SELECT name FROM operatorbundle ORDER BY 1`); got != "p.v1.0.0 q.v1.0.0" {
		t.Errorf("got bundles %s, want p.v1.0.0 q.v1.0.0", got)
	}

	d.checkIntegrity()
}

func TestOverwrite(t *testing.T) {
	overwrite := AddOptions{OverwriteLatest: true}
	start := func(t *testing.T) *fixture {
		d := newFixture(t)
		d.addBundles(replacesMode,
			bundleSpec{version: "1.0.0", channels: "a", defaultChannel: "a"},
			bundleSpec{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"},
			bundleSpec{version: "1.2.0", channels: "b", replaces: "p.v1.0.0"})
		return d
	}

	for _, mode := range []Mode{ModeReplaces, ModeSemver, ModeSemverSkipPatch} {
		t.Run("head, "+string(mode), func(t *testing.T) {
			d := start(t)
			d.addBundles(AddOptions{OverwriteLatest: true, Mode: mode}, bundleSpec{version: "1.1.0", channels: "a", replaces: "p.v1.0.0", image: "new"})
			d.expectCatalog("p default a", "  a", "    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0", "  b", "    p.v1.0.0", "    p.v1.2.0 replaces p.v1.0.0")
			if got := d.queryFirst(`SELECT bundlepath FROM operatorbundle WHERE name = 'p.v1.1.0'`); got != "new" {
				t.Errorf("got image %s, want new", got)
			}

			d.checkIntegrity()
		})
	}

	cases := map[string]struct {
		add []bundleSpec
		err string
	}{
		"not a head": {[]bundleSpec{{version: "1.0.0", channels: "a", image: "new"}}, "Cannot overwrite a bundle that is not at the head of a channel using --overwrite-latest"},
		"two heads of a package": {
			[]bundleSpec{{version: "1.1.0", channels: "a", replaces: "p.v1.0.0", image: "n1"}, {version: "1.2.0", channels: "b", replaces: "p.v1.0.0", image: "n2"}},
			"Cannot overwrite more than one bundle at a time for a given package using --overwrite-latest",
		},
		"the same image": {[]bundleSpec{{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"}}, "Bundle registry.example/p.v1.1.0 already exists"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			before := d.renderCatalog()
			if err := d.tryAddBundles(overwrite, c.add...); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got error %v, want %s", err, c.err)
			}
			if got := d.renderCatalog(); got != before {
				t.Errorf("got a changed catalog, want it unchanged:\n%s", got)
			}
		})
	}
}

func TestOverwriteKeepsWhatTheHeadSkipped(t *testing.T) {
	d := newFixture(t)
	for _, version := range []string{"1.0.0", "1.0.1", "1.0.2"} {
		d.addBundles(skipPatchMode, bundleSpec{version: version, channels: "a"})
	}

	d.addBundles(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, bundleSpec{version: "1.0.2", channels: "a", image: "new"})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0", "    p.v1.0.1", "    p.v1.0.2 skips p.v1.0.0,p.v1.0.1")
	// If a bundle is overwritten with another channel, its previous channel is removed with its last bundle.
	err := d.tryAddBundles(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, bundleSpec{version: "1.0.2", channels: "b", image: "newer"})
	if err == nil || !strings.Contains(err.Error(), `package p has no channel "a"`) {
		t.Errorf("error %v", err)
	}

	d.addBundles(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, bundleSpec{version: "1.0.2", channels: "b", defaultChannel: "b", image: "newer"})
	d.expectCatalog("p default b", "  b", "    p.v1.0.2")
	d.checkIntegrity()
}

// TestOverwriteLeavesAChannel checks that after a head moves to another channel, the next
// head skips what it skipped.
func TestOverwriteLeavesAChannel(t *testing.T) {
	d := newFixture(t)
	for _, version := range []string{"0.9.0", "1.0.0", "1.0.1"} {
		d.addBundles(skipPatchMode, bundleSpec{version: version, channels: "a"})
	}
	d.addBundles(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, bundleSpec{version: "1.0.1", channels: "b", image: "new"})
	d.expectCatalog("p default a", "  a", "    p.v0.9.0 skips p.v1.0.0", "    p.v1.0.0", "  b", "    p.v1.0.1")
	d.checkIntegrity()
}

func TestSemverOnOtherGraphs(t *testing.T) {
	cases := map[string]struct {
		before []bundleSpec
		run    []string
		add    bundleSpec
		want   []string
		err    string
	}{
		"a chain that is not in the order of versions": {
			before: []bundleSpec{{version: "2.0.0", channels: "a"}, {version: "1.0.0", channels: "a", replaces: ""}, {version: "3.0.0", channels: "a", replaces: "p.v1.0.0"}},
			run: []string{`INSERT INTO channel_entry (entry_id, channel_name, package_name, operatorbundle_name, depth) VALUES (99, 'a', 'p', 'p.v2.0.0', 9)`,
				`UPDATE channel_entry SET replaces = 99 WHERE operatorbundle_name = 'p.v1.0.0'`},
			add: bundleSpec{version: "2.5.0", channels: "a"},
			err: "Invalid graph: some (non-bottom) nodes defined in the graph were not mentioned as replacements of any node (4 != 3)",
		},
		"a bundle without a version": {
			before: []bundleSpec{{name: "none", channels: "a"}}, add: bundleSpec{version: "1.0.0", channels: "a"}, err: "Bundle version  is not valid",
		},
		"a bundle without a version in another channel": {
			before: []bundleSpec{{name: "none", channels: "b", defaultChannel: "b"}}, add: bundleSpec{version: "1.0.0", channels: "a"},
			want: []string{"p default b", "  a", "    p.v1.0.0", "  b", "    none"},
		},
		"a name without a bundle": {
			before: []bundleSpec{{version: "1.0.0", channels: "a", skips: "nobody"}}, add: bundleSpec{version: "1.1.0", channels: "a"},
			want: []string{"p default a", "  a", "    p.v1.0.0 skips nobody", "    p.v1.1.0 replaces p.v1.0.0"},
		},
		"a skipped bundle stays skipped": {
			before: []bundleSpec{{version: "1.0.0", channels: "a"}, {version: "1.2.0", channels: "a", skips: "p.v1.0.0"}}, add: bundleSpec{version: "1.1.0", channels: "a"},
			want: []string{"p default a", "  a", "    p.v1.0.0", "    p.v1.1.0", "    p.v1.2.0 replaces p.v1.1.0 skips p.v1.0.0"},
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			before := c.before
			if len(before) == 3 {
				d.addBundles(replacesMode, before[1:]...)
				b := before[0].newBundle(t)
				d.execSQL(`INSERT INTO operatorbundle (name, version, bundlepath) VALUES ('` + b.Name + `', '` + b.Version + `', 'i')`)
			} else {
				d.addBundles(replacesMode, before...)
			}

			d.execSQL(c.run...)
			err := d.tryAddBundles(semverMode, c.add)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %s", err, c.err)
				}
				return
			}

			if err != nil {
				t.Fatal(err)
			}
			if got, want := d.renderCatalog(), strings.Join(append(c.want, ""), "\n"); got != want {
				t.Errorf("catalog:\n%s\nwant:\n%s", got, want)
			}

			d.checkIntegrity()
		})
	}
}

// TestDeprecationMarkSurvivesBundle checks that a remaining deprecation mark applies to a
// bundle that is added again.
func TestDeprecationMarkSurvivesBundle(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a"})
	d.execSQL(`INSERT INTO deprecated (operatorbundle_name) VALUES ('p.v1.1.0')`)
	d.addBundles(replacesMode, bundleSpec{version: "1.1.0", channels: "b", defaultChannel: "a"})
	d.expectCatalog("p default a", "  a", "    p.v1.0.0")
	if got := d.queryFirst(`SELECT operatorbundle_name || value FROM properties WHERE type = 'olm.deprecated'`); got != "p.v1.1.0{}" {
		t.Errorf("got properties %s, want p.v1.1.0{}", got)
	}
}

func TestParseMode(t *testing.T) {
	for _, text := range []string{"replaces", "semver", "semver-skippatch"} {
		if mode, err := ParseMode(text); err != nil || string(mode) != text {
			t.Errorf("%s: got mode %s (error %v), want the same", text, mode, err)
		}
	}

	if _, err := ParseMode("other"); err == nil || err.Error() != "Invalid channel update mode other specified" {
		t.Errorf("got error %v, want Invalid channel update mode other specified", err)
	}

	d := newFixture(t)
	if err := d.tryAddBundles(AddOptions{Mode: "other"}, bundleSpec{version: "1.0.0", channels: "a"}); err == nil || ExitCode(err) != 1 {
		t.Errorf("error %v", err)
	}
}

// TestRowsOfABundle checks the columns of a bundle that no catalog contains.
func TestRowsOfABundle(t *testing.T) {
	d := newFixture(t)
	d.addBundles(replacesMode, bundleSpec{version: "1.0.0", channels: "a", properties: []fbc.Property{
		{Type: fbc.PropertyGVKRequired, Value: []byte(`{"group":"g","kind":"K","version":"v1"}`)},
		{Type: fbc.PropertyPackageRequired, Value: []byte(`{"packageName":"q","versionRange":">=1.0.0"}`)},
		{Type: fbc.PropertyConstraint, Value: []byte(`{"cel":{"rule":"a < b"}}`)},
	}, dependencies: []fbc.Property{{Type: fbc.PropertyConstraint, Value: []byte(`{"cel":{"rule":"c"}}`)}}})
	if got, want := d.queryFirst(`SELECT type || typeof(value) || CAST(value AS TEXT) FROM dependencies ORDER BY 1`),
		`olm.constraintblob{"cel":{"rule":"c"}} olm.gvkblob{"group":"g","kind":"K","version":"v1"} olm.packageblob{"packageName":"q","version":">=1.0.0"}`; got != want {
		t.Errorf("got dependencies %s, want %s", got, want)
	}
	if got, want := d.queryFirst(`SELECT type FROM properties ORDER BY 1`), `olm.constraint olm.gvk olm.package`; got != want {
		t.Errorf("got properties %s, want %s", got, want)
	}
	if got, want := d.queryFirst(`SELECT group_name || version || kind || plural FROM api`), `p.examplev1Thingthings`; got != want {
		t.Errorf("got apis %s, want %s", got, want)
	}

	index, err := Open(context.Background(), d.path, d.indexOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = index.Close() }()

	apis, err := index.APIs(context.Background())
	if err != nil || len(apis) != 1 || apis[0] != (API{"p.example", "v1", "Thing", "things"}) {
		t.Errorf("got APIs %v (error %v), want Thing of p.example", apis, err)
	}

	metas, err := d.readMetas()
	if err != nil {
		t.Fatal(err)
	}

	b, err := fbc.DecodeBundle(metas[len(metas)-1])
	if err != nil {
		t.Fatal(err)
	}

	var types []string
	for _, p := range b.Properties {
		types = append(types, p.Type)
	}

	want := "olm.bundle.object olm.constraint olm.constraint olm.gvk olm.gvk.required olm.package olm.package.required"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("got types %s, want %s", got, want)
	}
	if len(b.RelatedImages) != 1 || b.RelatedImages[0].Name != "operator" {
		t.Errorf("got related images %v, want operator", b.RelatedImages)
	}

	p, err := fbc.DecodePackage(metas[0])
	if err != nil || p.Icon == nil || string(p.Icon.Data) != "icon" || p.Icon.MediaType != "image/png" {
		t.Errorf("got package %+v (error %v), want its icon", p, err)
	}
}
