package indexdb

import (
	"slices"
	"strings"
	"testing"
)

var alpha = AddOptions{EnableAlpha: true}

// threeBundles are the bundles of one channel.
var threeBundles = []bundleSpec{
	{version: "1.0.0", channels: "a"},
	{version: "1.1.0", channels: "a", replaces: "p.v1.0.0"},
	{version: "1.2.0", channels: "a", replaces: "p.v1.1.0", skips: "p.v1.0.0"},
}

func TestSubstitute(t *testing.T) {
	cases := map[string]struct {
		// add are batches.
		add  [][]bundleSpec
		want []string
		// skips is the value in the row of the head.
		skips string
		err   string
	}{
		"of the head": {
			add: [][]bundleSpec{threeBundles, {{version: "1.2.0+1", channels: "a", replaces: "p.v1.1.0", substitutesFor: "p.v1.2.0"}}},
			want: []string{
				"    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0", "    p.v1.2.0", "    p.v1.2.0+1 replaces p.v1.1.0 skips p.v1.2.0",
			},
		},
		"of the head, without a replaced bundle": {
			add: [][]bundleSpec{threeBundles, {{version: "1.2.0+1", channels: "a", substitutesFor: "p.v1.2.0"}}},
			want: []string{
				"    p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0", "    p.v1.2.0", "    p.v1.2.0+1 replaces p.v1.1.0 skips p.v1.2.0",
			},
		},
		"of another": {
			add: [][]bundleSpec{threeBundles, {{version: "1.1.0+1", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"}}},
			want: []string{
				"    p.v1.0.0", "    p.v1.1.0", "    p.v1.1.0+1 replaces p.v1.0.0 skips p.v1.1.0", "    p.v1.2.0 replaces p.v1.1.0+1 skips p.v1.0.0",
			},
		},
		"of one that is skipped": {
			add: [][]bundleSpec{threeBundles, {{version: "1.0.0+1", channels: "a", substitutesFor: "p.v1.0.0"}}},
			want: []string{
				"    p.v1.0.0", "    p.v1.0.0+1 skips p.v1.0.0", "    p.v1.1.0 replaces p.v1.0.0+1", "    p.v1.2.0 replaces p.v1.1.0 skips p.v1.0.0,p.v1.0.0+1",
			},
		},
		"a second rebuild": {
			add: [][]bundleSpec{
				threeBundles, {{version: "1.1.0+1", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"}},
				{{version: "1.1.0+2", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"}},
			},
			want: rebuiltTwice,
		},
		"a rebuild of a rebuild": {
			add: [][]bundleSpec{
				threeBundles, {{version: "1.1.0+1", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"}},
				{{version: "1.1.0+2", channels: "a", replaces: "p.v1.1.0+1", substitutesFor: "p.v1.1.0+1"}},
			},
			want: rebuiltTwice,
		},
		"in one batch": {
			add: [][]bundleSpec{slices.Concat([]bundleSpec{
				{version: "1.1.0+2", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"},
				{version: "1.1.0+1", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"},
			}, threeBundles)},
			want: rebuiltTwice,
		},
		"in the wrong order": {
			add: [][]bundleSpec{
				threeBundles[:2], {{version: "1.1.0+2", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"}},
				{{version: "1.1.0+1", channels: "a", replaces: "p.v1.0.0", substitutesFor: "p.v1.1.0"}}, threeBundles[2:],
			},
			want: rebuiltTwice,
		},
		"before the substituted bundle": {
			add: [][]bundleSpec{
				{{version: "1.1.0+1", channels: "a", substitutesFor: "p.v1.1.0"}},
				{{version: "1.2.0", channels: "a", replaces: "p.v1.1.0"}},
			},
			want: []string{"    p.v1.1.0+1 skips p.v1.1.0", "    p.v1.2.0 replaces p.v1.1.0+1"},
		},
		"of one that is replaced and skipped": {
			add: [][]bundleSpec{
				threeBundles[:2], {{version: "1.2.0", channels: "a", replaces: "p.v1.1.0", skips: "p.v1.1.0,p.v1.1.0+1"}},
				{{version: "1.1.0+1", channels: "a", substitutesFor: "p.v1.1.0"}},
			},
			want: []string{
				"    p.v1.0.0", "    p.v1.1.0", "    p.v1.1.0+1 replaces p.v1.0.0 skips p.v1.1.0", "    p.v1.2.0 replaces p.v1.1.0+1 skips p.v1.1.0",
			},
			skips: "p.v1.1.0",
		},
		"two of the same version": {
			add: [][]bundleSpec{threeBundles, {
				{name: "x", version: "1.1.0+1", channels: "a", substitutesFor: "p.v1.1.0"},
				{name: "y", version: "1.1.0+1", channels: "a", substitutesFor: "p.v1.1.0"},
			}},
			err: "cannot determine latest substitution because of duplicate versions",
		},
		"each other": {
			add: [][]bundleSpec{{{name: "x", version: "1.0.0+1", channels: "a", substitutesFor: "y"}, {name: "y", version: "1.0.0+2", channels: "a", substitutesFor: "x"}}},
			err: "cyclic substitutesFor chain detected involving ",
		},
		"itself": {
			add: [][]bundleSpec{{{name: "x", version: "1.0.0+1", channels: "a", substitutesFor: "x"}}},
			err: `cyclic substitutesFor chain detected involving "x"`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			for i, batch := range c.add {
				err := d.tryAddBundles(alpha, batch...)
				switch {
				case c.err != "" && i == len(c.add)-1:
					if err == nil || !strings.Contains(err.Error(), c.err) {
						t.Errorf("got error %v, want %s", err, c.err)
					}
					return
				case err != nil:
					t.Fatal(err)
				}
				d.validateCatalog()
				d.checkIntegrity()
			}
			d.expectCatalog(append([]string{"p default a", "  a"}, c.want...)...)
			if got := d.queryFirst(`SELECT skips FROM operatorbundle WHERE name = 'p.v1.2.0'`); c.skips != "" && got != c.skips {
				t.Errorf("got skips %s of the head, want %s", got, c.skips)
			}
		})
	}
}

var rebuiltTwice = []string{
	"    p.v1.0.0", "    p.v1.1.0", "    p.v1.1.0+1",
	"    p.v1.1.0+2 replaces p.v1.0.0 skips p.v1.1.0,p.v1.1.0+1", "    p.v1.2.0 replaces p.v1.1.0+2 skips p.v1.0.0",
}
