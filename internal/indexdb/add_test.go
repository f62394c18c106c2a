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
	bundles := []given{
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
		d := newDatabase(t)
		d.addEach(replacesMode, bundles...)
		d.expect(want...)
		d.sound()
		if got := d.query(`SELECT name || '=' || head_operatorbundle_name FROM channel ORDER BY 1`); got != "edge=p.v2.1.0 slow=p.v1.1.0 stable=p.v1.1.0" {
			t.Errorf("heads: %s", got)
		}
	})

	t.Run("in one batch, in any order", func(t *testing.T) {
		d := newDatabase(t)
		d.add(replacesMode, bundles[2], bundles[0], bundles[1])
		d.expect(want...)
	})
}

func TestReplacesRows(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode,
		given{version: "1.0.0", channels: "stable"},
		given{version: "1.1.0", channels: "stable", replaces: "p.v1.0.0"},
		given{version: "1.2.0", channels: "stable", replaces: "p.v1.0.0", skips: "p.v1.1.0,p.v0.9.0"},
	)
	// Depth, bundle, and the bundle that the row leads to.
	got := d.query(`SELECT e.depth || ':' || e.operatorbundle_name || '>' || coalesce(t.operatorbundle_name, '')
		FROM channel_entry e LEFT JOIN channel_entry t ON t.entry_id = e.replaces ORDER BY e.entry_id`)
	want := "0:p.v1.2.0>p.v1.0.0 1:p.v1.1.0> 1:p.v1.2.0>p.v1.1.0 2:p.v0.9.0> 2:p.v1.2.0>p.v0.9.0 3:p.v1.0.0>"
	if got != want {
		t.Errorf("rows:\n got %s\nwant %s", got, want)
	}

	d.expect("p default stable", "  stable",
		"    p.v1.0.0", "    p.v1.1.0", "    p.v1.2.0 replaces p.v1.0.0 skips p.v1.1.0,p.v0.9.0")
}

func TestReplacesVersions(t *testing.T) {
	cases := map[string]struct {
		bundles []given
		heads   string
		err     string
	}{
		"one without a version": {bundles: []given{{name: "a", channels: "x"}}, heads: "x=a"},
		"two without a version": {
			bundles: []given{{name: "a", channels: "x"}, {name: "b", channels: "x", replaces: "a"}},
			err:     "more than one bundle with maximum version 0.0.0-z",
		},
		"one without a version and 0.0.1": {
			bundles: []given{{name: "a", channels: "x"}, {name: "b", version: "0.0.1", channels: "x", replaces: "a"}}, heads: "x=b",
		},
		"equal versions in a channel": {
			bundles: []given{{name: "a", version: "1.0.0", channels: "x"}, {name: "b", version: "1.0.0", channels: "x"}, {name: "c", version: "2.0.0", channels: "y", defaultChannel: "y"}},
			err:     "more than one potential channel head for x",
		},
		"equal versions that are the highest, in two channels": {
			bundles: []given{{name: "a", version: "1.0.0", channels: "x", defaultChannel: "x"}, {name: "b", version: "1.0.0", channels: "y"}},
			err:     "more than one bundle with maximum version 1.0.0",
		},
		"equal versions in two channels below the highest": {
			bundles: []given{{name: "a", version: "1.0.0", channels: "x", defaultChannel: "x"}, {name: "b", version: "1.0.0", channels: "y"}, {name: "c", version: "1.1.0", channels: "x", replaces: "a"}},
			heads:   "x=c y=b",
		},
		"builds and pre-releases": {
			bundles: []given{
				{version: "1.0.0", channels: "x"}, {version: "1.0.0+1", channels: "x", replaces: "p.v1.0.0"}, {version: "1.0.0+2", channels: "x", replaces: "p.v1.0.0+1"},
				{version: "2.0.0-pre", channels: "y", defaultChannel: "x", replaces: "p.v1.0.0+2"},
			},
			heads: "x=p.v1.0.0+2 y=p.v2.0.0-pre",
		},
		"build numbers are numbers": {
			bundles: []given{{version: "1.0.0+9", channels: "x"}, {version: "1.0.0+10", channels: "x", replaces: "p.v1.0.0+9"}},
			heads:   "x=p.v1.0.0+10",
		},
		"no version at all": {
			bundles: []given{{name: "a", version: "bogus", channels: "x"}}, err: "error parsing bundle a version bogus: ",
		},
		"no default channel": {
			bundles: []given{{version: "1.0.0", channels: "x,y"}}, err: "no default channel specified for p",
		},
		"a default channel that is none": {
			bundles: []given{{version: "1.0.0", channels: "x,y", defaultChannel: "z"}}, err: "unable to determine default channel among channel heads: ",
		},
		"a single channel is the default": {
			bundles: []given{{version: "1.0.0", channels: "x", defaultChannel: "z"}}, heads: "x=p.v1.0.0",
		},
		"a cycle": {
			bundles: []given{{version: "1.0.0", channels: "x", replaces: "p.v1.1.0"}, {version: "1.1.0", channels: "x", replaces: "p.v1.0.0"}},
			err:     "Cycle detected, p.v1.0.0 replaces p.v1.1.0",
		},
		"replaces itself": {
			bundles: []given{{version: "1.0.0", channels: "x", replaces: "p.v1.0.0"}}, err: "Cycle detected, p.v1.0.0 replaces p.v1.0.0",
		},
		"replaces what is not there": {
			bundles: []given{{version: "0.22.2", channels: "x", replaces: "p.v0.15.0"}},
			err:     "Invalid bundle p.v0.22.2, replaces nonexistent bundle p.v0.15.0",
		},
		"skips itself": {
			bundles: []given{{version: "1.0.0", channels: "x", skips: "p.v1.0.0"}}, heads: "x=p.v1.0.0",
		},
		"stands above the head": {
			bundles: []given{{version: "1.0.0", channels: "x", replaces: "p.v2.0.0"}, {version: "2.0.0", channels: "x"}},
			err:     "add prunes bundle p.v1.0.0 (registry.example/p.v1.0.0) from package p, channel x: this may be due to incorrect channel head (p.v2.0.0)",
		},
		"no channel": {bundles: []given{{version: "1.0.0"}}, err: `failed to add bundle "p.v1.0.0": it names no channel`},
		"substitutes without leave": {
			bundles: []given{{version: "1.0.0", channels: "x", substitutesFor: "y"}}, err: "SubstitutesFor is an alpha-only feature",
		},
		"edge to another package": {
			bundles: []given{
				{pkg: "a", version: "1.0.0", channels: "x", skips: "other"}, {pkg: "b", version: "1.0.0", channels: "x", skips: "other"},
			},
			err: "bundle other must belong to exactly one package, found on: [a b]",
		},
		"the same name twice":  {bundles: []given{{name: "a", channels: "x", image: "i1"}, {name: "a", channels: "x", image: "i2"}}, err: "Bundle already added that provides package and csv"},
		"the same image twice": {bundles: []given{{name: "a", channels: "x", image: "i"}, {name: "b", channels: "x", image: "i"}}, err: "Bundle i already exists"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			err := d.tryAdd(replacesMode, c.bundles...)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %s", err, c.err)
				}
				if _, err := os.Stat(d.path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a failed add made a database: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := d.query(`SELECT name || '=' || head_operatorbundle_name FROM channel ORDER BY 1`); got != c.heads {
				t.Errorf("heads %s, want %s", got, c.heads)
			}
			if got := d.query(`SELECT count(*) FROM channel_entry e JOIN channel_entry t ON t.entry_id = e.replaces AND t.operatorbundle_name = e.operatorbundle_name`); got != "0" {
				t.Errorf("%s entries lead to their own bundle", got)
			}
			d.sound()
		})
	}
}

func TestEdgeToAPackageOfTheIndex(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode, given{pkg: "a", version: "1.0.0", channels: "x"})
	err := d.tryAdd(replacesMode, given{pkg: "b", version: "1.1.0", channels: "x", replaces: "a.v1.0.0"})
	want := "bundle a.v1.0.0 belongs to package a on index, cannot be added as an edge for package b"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}

	err = d.tryAdd(replacesMode, given{pkg: "b", name: "a.v1.0.0", version: "1.1.0", channels: "x", image: "other"})
	if want := `failed to add bundle "a.v1.0.0": package a has a bundle of this name`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestSemver(t *testing.T) {
	etcd := []given{
		{version: "0.6.1", channels: "alpha"},
		{version: "0.9.0", channels: "alpha", replaces: "p.v0.6.1"},
		{version: "0.9.2", channels: "alpha", replaces: "p.v0.9.0"},
	}
	cases := map[string]struct {
		before []given
		mode   AddOptions
		add    []given
		want   []string
		err    string
	}{
		"above": {
			before: []given{{version: "0.9.2", channels: "alpha"}}, add: []given{{version: "0.9.3", channels: "alpha", replaces: "ignored", skips: "ignored"}}, mode: semverMode,
			want: []string{"    p.v0.9.2", "    p.v0.9.3 replaces p.v0.9.2"},
		},
		"below": {
			before: []given{{version: "0.9.3", channels: "alpha"}}, add: []given{{version: "0.6.1", channels: "alpha"}}, mode: semverMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.3 replaces p.v0.6.1"},
		},
		"between": {
			before: etcd, add: []given{{version: "0.9.1", channels: "alpha"}}, mode: semverMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0 replaces p.v0.6.1", "    p.v0.9.1 replaces p.v0.9.0", "    p.v0.9.2 replaces p.v0.9.1"},
		},
		"several, in any order": {
			add: []given{etcd[2], etcd[0], etcd[1]}, mode: semverMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0 replaces p.v0.6.1", "    p.v0.9.2 replaces p.v0.9.0"},
		},
		"skips patches": {
			before: etcd, add: []given{{version: "0.9.3", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.2", "    p.v0.9.3 replaces p.v0.6.1 skips p.v0.9.0,p.v0.9.2"},
		},
		"skips patches and their pre-releases, one batch": {
			add: append([]given{{version: "0.9.3-rc1", channels: "alpha"}, {version: "0.9.3", channels: "alpha"}}, etcd...), mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.2", "    p.v0.9.3 replaces p.v0.6.1 skips p.v0.9.0,p.v0.9.2,p.v0.9.3-rc1", "    p.v0.9.3-rc1"},
		},
		"skips patches of its own major version": {
			before: etcd, add: []given{{version: "1.9.3", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0 replaces p.v0.6.1", "    p.v0.9.2 replaces p.v0.9.0", "    p.v1.9.3 replaces p.v0.9.2"},
		},
		"what was skipped is skipped by the next patch, but for the chain": {
			before: []given{
				{version: "0.5.0", channels: "alpha"}, {version: "0.6.1", channels: "alpha", replaces: "p.v0.5.0"}, {version: "0.9.0", channels: "alpha", replaces: "p.v0.6.1"},
				{version: "0.9.2", channels: "alpha", replaces: "p.v0.9.0", skips: "p.v0.6.1,p.v0.5.0,p.v0.4.0"},
			},
			add: []given{{version: "0.9.3", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{
				"    p.v0.5.0", "    p.v0.6.1 replaces p.v0.5.0", "    p.v0.9.0", "    p.v0.9.2", "    p.v0.9.3 replaces p.v0.6.1 skips p.v0.9.0,p.v0.9.2,p.v0.4.0",
			},
		},
		"a lower patch in skippatch": {
			before: etcd, add: []given{{version: "0.9.1", channels: "alpha"}}, mode: skipPatchMode,
			want: []string{"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.1 replaces p.v0.6.1 skips p.v0.9.0", "    p.v0.9.2 replaces p.v0.9.1"},
		},
		"a version that is there": {
			before: etcd, add: []given{{name: "other", version: "0.9.2", channels: "alpha"}}, mode: semverMode, err: "Bundle version 0.9.2 already added to index",
		},
		"a version that differs by its build": {
			before: etcd, add: []given{{version: "0.9.2+1", channels: "alpha"}}, mode: semverMode, err: "Bundle version 0.9.2+1 already added to index",
		},
		"not a version": {before: etcd, add: []given{{name: "other", version: "x", channels: "alpha"}}, mode: semverMode, err: "Bundle version x is not valid"},
		"no version":    {before: etcd, add: []given{{name: "other", channels: "alpha"}}, mode: semverMode, err: "Bundle version  is not valid"},
		"a default that is no channel": {
			before: etcd, add: []given{{version: "0.9.3", channels: "alpha", defaultChannel: "none"}}, mode: semverMode, err: "Default channel is missing and can't be inferred",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.addEach(replacesMode, c.before...)
			err := d.tryAdd(c.mode, c.add...)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d.expect(append([]string{"p default alpha", "  alpha"}, c.want...)...)
			d.sound()
		})
	}
}

func TestSkipPatchAgain(t *testing.T) {
	d := newDatabase(t)
	for _, version := range []string{"0.6.1", "0.9.0", "0.9.2", "0.9.3", "1.0.0", "0.9.1"} {
		d.add(skipPatchMode, given{version: version, channels: "alpha"})
		d.validate()
	}

	d.expect("p default alpha", "  alpha",
		"    p.v0.6.1", "    p.v0.9.0", "    p.v0.9.1 replaces p.v0.6.1 skips p.v0.9.0", "    p.v0.9.2",
		"    p.v0.9.3 replaces p.v0.9.1 skips p.v0.9.0,p.v0.9.2", "    p.v1.0.0 replaces p.v0.9.3")
}

func TestSemverDefaultChannel(t *testing.T) {
	d := newDatabase(t)
	d.add(semverMode, given{version: "1.0.0", channels: "b,a"})
	d.expect("p default a", "  a", "    p.v1.0.0", "  b", "    p.v1.0.0")
	d.add(semverMode, given{version: "1.1.0", channels: "b", defaultChannel: "b"})
	d.add(semverMode, given{version: "1.2.0", channels: "c"})
	d.expect("p default b", "  a", "    p.v1.0.0", "  b", "    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0", "  c", "    p.v1.2.0")
	d.sound()
}

// Semver modes keep the manifests of heads only, replaces mode all.
func TestManifestsThatAreKept(t *testing.T) {
	const kept = `SELECT name FROM operatorbundle WHERE bundle IS NOT NULL AND csv IS NOT NULL ORDER BY 1`
	d := newDatabase(t)
	d.add(replacesMode, given{version: "1.0.0", channels: "a"}, given{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"})
	if got := d.query(kept); got != "p.v1.0.0 p.v1.1.0" {
		t.Errorf("after replaces: %s", got)
	}

	d.add(semverMode, given{version: "1.2.0", channels: "a"})
	if got := d.query(kept); got != "p.v1.2.0" {
		t.Errorf("after semver: %s", got)
	}
	if got := d.query(`SELECT DISTINCT typeof(csv) || typeof(bundle) FROM operatorbundle WHERE csv IS NOT NULL`); got != "blobblob" {
		t.Errorf("types: %s", got)
	}
}

func TestAddWhatIsThere(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode, given{version: "1.0.0", channels: "a"})
	var image *ImageAddedError
	if err := d.tryAdd(replacesMode, given{version: "1.0.0", channels: "a"}); !errors.As(err, &image) || ExitCode(err) != 2 || err.Error() != "Bundle registry.example/p.v1.0.0 already exists" {
		t.Errorf("the same image: %v", err)
	}

	var version *VersionAddedError
	if err := d.tryAdd(semverMode, given{version: "1.0.0", channels: "a", image: "other"}); !errors.As(err, &version) || ExitCode(err) != 3 {
		t.Errorf("the same name: %v", err)
	}
	// In one batch with what could be added, nothing is.
	if err := d.tryAdd(replacesMode, given{pkg: "q", version: "1.0.0", channels: "a"}, given{version: "1.0.0", channels: "a"}); !errors.As(err, &image) {
		t.Errorf("in a batch: %v", err)
	}

	d.expect("p default a", "  a", "    p.v1.0.0")
	// With leave, what can be added is.
	permissive := AddOptions{Permissive: true}
	d.add(permissive, given{pkg: "q", version: "1.0.0", channels: "a"}, given{version: "1.0.0", channels: "a"})
	d.expect("p default a", "  a", "    p.v1.0.0", "q default a", "  a", "    q.v1.0.0")
	contains(t, d.warnings, "permissive mode enabled: Bundle registry.example/p.v1.0.0 already exists")
	// Of what cannot be, nothing is left.
	d.add(permissive, given{pkg: "r", version: "1.0.0", channels: "a", replaces: "r.none"})
	contains(t, d.warnings, "Invalid bundle r.v1.0.0, replaces nonexistent bundle r.none")
	if got := d.query(`SELECT name FROM operatorbundle ORDER BY 1`); got != "p.v1.0.0 q.v1.0.0" {
		t.Errorf("bundles %s", got)
	}

	d.sound()
}

func TestOverwrite(t *testing.T) {
	overwrite := AddOptions{OverwriteLatest: true}
	start := func(t *testing.T) *database {
		d := newDatabase(t)
		d.add(replacesMode,
			given{version: "1.0.0", channels: "a", defaultChannel: "a"},
			given{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"},
			given{version: "1.2.0", channels: "b", replaces: "p.v1.0.0"})
		return d
	}

	for _, mode := range []Mode{ModeReplaces, ModeSemver, ModeSemverSkipPatch} {
		t.Run("head, "+string(mode), func(t *testing.T) {
			d := start(t)
			d.add(AddOptions{OverwriteLatest: true, Mode: mode}, given{version: "1.1.0", channels: "a", replaces: "p.v1.0.0", image: "new"})
			d.expect("p default a", "  a", "    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0", "  b", "    p.v1.0.0", "    p.v1.2.0 replaces p.v1.0.0")
			if got := d.query(`SELECT bundlepath FROM operatorbundle WHERE name = 'p.v1.1.0'`); got != "new" {
				t.Errorf("image %s", got)
			}

			d.sound()
		})
	}

	cases := map[string]struct {
		add []given
		err string
	}{
		"not a head": {[]given{{version: "1.0.0", channels: "a", image: "new"}}, "Cannot overwrite a bundle that is not at the head of a channel using --overwrite-latest"},
		"two heads of a package": {
			[]given{{version: "1.1.0", channels: "a", replaces: "p.v1.0.0", image: "n1"}, {version: "1.2.0", channels: "b", replaces: "p.v1.0.0", image: "n2"}},
			"Cannot overwrite more than one bundle at a time for a given package using --overwrite-latest",
		},
		"the same image": {[]given{{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"}}, "Bundle registry.example/p.v1.1.0 already exists"},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			before := d.catalog()
			if err := d.tryAdd(overwrite, c.add...); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %s", err, c.err)
			}
			if got := d.catalog(); got != before {
				t.Errorf("the catalog changed:\n%s", got)
			}
		})
	}
}

func TestOverwriteKeepsWhatTheHeadSkipped(t *testing.T) {
	d := newDatabase(t)
	for _, version := range []string{"1.0.0", "1.0.1", "1.0.2"} {
		d.add(skipPatchMode, given{version: version, channels: "a"})
	}

	d.add(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, given{version: "1.0.2", channels: "a", image: "new"})
	d.expect("p default a", "  a", "    p.v1.0.0", "    p.v1.0.1", "    p.v1.0.2 skips p.v1.0.0,p.v1.0.1")
	// Overwritten with another channel, the channel that it leaves goes with its last bundle.
	err := d.tryAdd(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, given{version: "1.0.2", channels: "b", image: "newer"})
	if err == nil || !strings.Contains(err.Error(), `package p has no channel "a"`) {
		t.Errorf("error %v", err)
	}

	d.add(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, given{version: "1.0.2", channels: "b", defaultChannel: "b", image: "newer"})
	d.expect("p default b", "  b", "    p.v1.0.2")
	d.sound()
}

// A head that moves to another channel leaves to the next what it skipped.
func TestOverwriteLeavesAChannel(t *testing.T) {
	d := newDatabase(t)
	for _, version := range []string{"0.9.0", "1.0.0", "1.0.1"} {
		d.add(skipPatchMode, given{version: version, channels: "a"})
	}
	d.add(AddOptions{Mode: ModeSemver, OverwriteLatest: true}, given{version: "1.0.1", channels: "b", image: "new"})
	d.expect("p default a", "  a", "    p.v0.9.0 skips p.v1.0.0", "    p.v1.0.0", "  b", "    p.v1.0.1")
	d.sound()
}

func TestSemverOnOtherGraphs(t *testing.T) {
	cases := map[string]struct {
		before []given
		run    []string
		add    given
		want   []string
		err    string
	}{
		"a chain that is not in the order of versions": {
			before: []given{{version: "2.0.0", channels: "a"}, {version: "1.0.0", channels: "a", replaces: ""}, {version: "3.0.0", channels: "a", replaces: "p.v1.0.0"}},
			run: []string{`INSERT INTO channel_entry (entry_id, channel_name, package_name, operatorbundle_name, depth) VALUES (99, 'a', 'p', 'p.v2.0.0', 9)`,
				`UPDATE channel_entry SET replaces = 99 WHERE operatorbundle_name = 'p.v1.0.0'`},
			add: given{version: "2.5.0", channels: "a"},
			err: "Invalid graph: some (non-bottom) nodes defined in the graph were not mentioned as replacements of any node (4 != 3)",
		},
		"a bundle without a version": {
			before: []given{{name: "none", channels: "a"}}, add: given{version: "1.0.0", channels: "a"}, err: "Bundle version  is not valid",
		},
		"a bundle without a version in another channel": {
			before: []given{{name: "none", channels: "b", defaultChannel: "b"}}, add: given{version: "1.0.0", channels: "a"},
			want: []string{"p default b", "  a", "    p.v1.0.0", "  b", "    none"},
		},
		"a name without a bundle": {
			before: []given{{version: "1.0.0", channels: "a", skips: "nobody"}}, add: given{version: "1.1.0", channels: "a"},
			want: []string{"p default a", "  a", "    p.v1.0.0 skips nobody", "    p.v1.1.0 replaces p.v1.0.0"},
		},
		"a skipped bundle stays skipped": {
			before: []given{{version: "1.0.0", channels: "a"}, {version: "1.2.0", channels: "a", skips: "p.v1.0.0"}}, add: given{version: "1.1.0", channels: "a"},
			want: []string{"p default a", "  a", "    p.v1.0.0", "    p.v1.1.0", "    p.v1.2.0 replaces p.v1.1.0 skips p.v1.0.0"},
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			before := c.before
			if len(before) == 3 {
				d.add(replacesMode, before[1:]...)
				b := before[0].bundle(t)
				d.run(`INSERT INTO operatorbundle (name, version, bundlepath) VALUES ('` + b.Name + `', '` + b.Version + `', 'i')`)
			} else {
				d.add(replacesMode, before...)
			}

			d.run(c.run...)
			err := d.tryAdd(semverMode, c.add)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s", err, c.err)
				}
				return
			}

			if err != nil {
				t.Fatal(err)
			}
			if got, want := d.catalog(), strings.Join(append(c.want, ""), "\n"); got != want {
				t.Errorf("catalog:\n%s\nwant:\n%s", got, want)
			}

			d.sound()
		})
	}
}

// A mark of deprecation that is left is found again when its bundle is.
func TestMarkSurvivesTheBundle(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode, given{version: "1.0.0", channels: "a"})
	d.run(`INSERT INTO deprecated (operatorbundle_name) VALUES ('p.v1.1.0')`)
	d.add(replacesMode, given{version: "1.1.0", channels: "b", defaultChannel: "a"})
	d.expect("p default a", "  a", "    p.v1.0.0")
	if got := d.query(`SELECT operatorbundle_name || value FROM properties WHERE type = 'olm.deprecated'`); got != "p.v1.1.0{}" {
		t.Errorf("properties %s", got)
	}
}

func TestParseMode(t *testing.T) {
	for _, text := range []string{"replaces", "semver", "semver-skippatch"} {
		if mode, err := ParseMode(text); err != nil || string(mode) != text {
			t.Errorf("%s: %s, %v", text, mode, err)
		}
	}

	if _, err := ParseMode("other"); err == nil || err.Error() != "Invalid channel update mode other specified" {
		t.Errorf("error %v", err)
	}

	d := newDatabase(t)
	if err := d.tryAdd(AddOptions{Mode: "other"}, given{version: "1.0.0", channels: "a"}); err == nil || ExitCode(err) != 1 {
		t.Errorf("error %v", err)
	}
}

// What a bundle's row holds that no catalog shows.
func TestRowsOfABundle(t *testing.T) {
	d := newDatabase(t)
	d.add(replacesMode, given{version: "1.0.0", channels: "a", properties: []fbc.Property{
		{Type: fbc.PropertyGVKRequired, Value: []byte(`{"group":"g","kind":"K","version":"v1"}`)},
		{Type: fbc.PropertyPackageRequired, Value: []byte(`{"packageName":"q","versionRange":">=1.0.0"}`)},
		{Type: fbc.PropertyConstraint, Value: []byte(`{"cel":{"rule":"a < b"}}`)},
	}})
	if got, want := d.query(`SELECT type || typeof(value) || CAST(value AS TEXT) FROM dependencies ORDER BY 1`),
		`olm.gvkblob{"group":"g","kind":"K","version":"v1"} olm.packageblob{"packageName":"q","version":">=1.0.0"}`; got != want {
		t.Errorf("dependencies %s, want %s", got, want)
	}
	if got, want := d.query(`SELECT type FROM properties ORDER BY 1`), `olm.constraint olm.gvk olm.package`; got != want {
		t.Errorf("properties %s, want %s", got, want)
	}
	if got, want := d.query(`SELECT group_name || version || kind || plural FROM api`), `p.examplev1Thingthings`; got != want {
		t.Errorf("apis %s, want %s", got, want)
	}

	index, err := Open(context.Background(), d.path, d.options())
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = index.Close() }()
	apis, err := index.APIs(context.Background())
	if err != nil || len(apis) != 1 || apis[0] != (API{"p.example", "v1", "Thing", "things"}) {
		t.Errorf("APIs %v, error %v", apis, err)
	}

	metas, err := d.metas()
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

	want := "olm.bundle.object olm.constraint olm.gvk olm.gvk.required olm.package olm.package.required"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("types %s, want %s", got, want)
	}
	if len(b.RelatedImages) != 1 || b.RelatedImages[0].Name != "operator" {
		t.Errorf("related images %v", b.RelatedImages)
	}

	p, err := fbc.DecodePackage(metas[0])
	if err != nil || p.Icon == nil || string(p.Icon.Data) != "icon" || p.Icon.MediaType != "image/png" {
		t.Errorf("package %+v, error %v", p, err)
	}
}
