package resolve_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

const (
	catalogProvided = olmv1.UpgradeConstraintPolicyCatalogProvided
	selfCertified   = olmv1.UpgradeConstraintPolicySelfCertified
)

// resolveCase is a request and either the expected bundle and catalog, or the expected
// error message.
type resolveCase struct {
	req         resolve.Request
	catalogs    []resolve.Catalog
	want, wantC string
	wantErr     string
}

func runResolve(t *testing.T, cases map[string]resolveCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.req.Package == "" {
				tc.req.Package = pkg
			}
			got, err := resolve.Resolve(tc.req, tc.catalogs)
			switch {
			case tc.wantErr != "":
				if err == nil {
					t.Fatalf("got the bundle %q, want the error %q", got.Bundle.Name, tc.wantErr)
				}
				if diff := cmp.Diff(tc.wantErr, err.Error()); diff != "" {
					t.Errorf("message (-want +got)\n%s", diff)
				}
				if len(resolve.Hints(err)) == 0 {
					t.Error("got no hint for the error, want one")
				}
			case err != nil:
				t.Fatalf("%v %q", err, resolve.Hints(err))
			default:
				if got.Bundle.Name != tc.want {
					t.Errorf("got the bundle %q, want %q", got.Bundle.Name, tc.want)
				}
				if tc.wantC != "" && got.Catalog != tc.wantC {
					t.Errorf("got the catalog %q, want %q", got.Catalog, tc.wantC)
				}
			}
		})
	}
}

func TestCatalogSelectionAndPriority(t *testing.T) {
	one := withBundles(bundle("e.v1.0.0"))
	old := withDeprecation(fbc.SchemaBundle, "e.v1.0.0", "old")
	runResolve(t, map[string]resolveCase{
		"a single catalog has the package": {
			catalogs: []resolve.Catalog{{Name: "empty"}, {Name: "hollow", Content: &fbc.Content{}}, catalog("a", 0, one)},
			want:     "e.v1.0.0", wantC: "a",
		},
		"the higher priority wins": {
			catalogs: []resolve.Catalog{catalog("a", 10, withBundles(bundle("e.v2.0.0"))), catalog("b", 1000, one)},
			want:     "e.v1.0.0", wantC: "b",
		},
		"priority spans all 32-bit integers": {
			catalogs: []resolve.Catalog{catalog("low", math.MinInt32, withBundles(bundle("e.v2.0.0"))), catalog("high", math.MaxInt32, one), catalog("zero", 0, one)},
			want:     "e.v1.0.0", wantC: "high",
		},
		"zero beats a negative priority": {
			catalogs: []resolve.Catalog{catalog("a", -1, one), catalog("b", 0, one)},
			want:     "e.v1.0.0", wantC: "b",
		},
		"a catalog without a match does not win by its priority": {
			req:      resolve.Request{Version: "1.x"},
			catalogs: []resolve.Catalog{catalog("a", 10, withBundles(bundle("e.v2.0.0"))), catalog("b", 0, one)},
			want:     "e.v1.0.0", wantC: "b",
		},
		"not deprecated in a low-priority catalog beats deprecated in a high-priority one": {
			catalogs: []resolve.Catalog{catalog("high", 100, one, old), catalog("low", -5, one)},
			want:     "e.v1.0.0", wantC: "low",
		},
		"all deprecated: priority decides": {
			catalogs: []resolve.Catalog{catalog("high", 100, one, old), catalog("low", -5, one, old)},
			want:     "e.v1.0.0", wantC: "high",
		},
		"a deprecated catalog drops out of a tie": {
			catalogs: []resolve.Catalog{catalog("a", 0, one, old), catalog("b", 0, one)},
			want:     "e.v1.0.0", wantC: "b",
		},
		"several catalogs of one priority are ambiguous": {
			catalogs: []resolve.Catalog{catalog("b", 0, one), catalog("a", 0, one)},
			wantErr:  `found bundles for package "example" in multiple catalogs with the same priority [a b]`,
		},
		"ambiguous even when the versions differ, and only the catalogs that tie are named": {
			req:      resolve.Request{Version: ">=1.0.0", Channels: []string{"stable", "fast"}},
			catalogs: []resolve.Catalog{catalog("b", 5, one, withFlatChannel("fast", "e.v1.0.0")), catalog("a", 5, withBundles(bundle("e.v2.0.0")), withFlatChannel("stable", "e.v2.0.0")), catalog("c", 1, one, withFlatChannel("stable", "e.v1.0.0"))},
			wantErr:  `found bundles for package "example" matching version ">=1.0.0" in channels [stable fast] in multiple catalogs with the same priority [a b]`,
		},
		"ambiguous while something is installed": {
			req:      resolve.Request{Installed: installed("e.v1.0.0")},
			catalogs: []resolve.Catalog{catalog("a", 0, one), catalog("b", 0, one)},
			wantErr:  `error upgrading from currently installed version "1.0.0": found bundles for package "example" in multiple catalogs with the same priority [a b]`,
		},
		"a version that only one catalog has resolves an ambiguity": {
			req:      resolve.Request{Version: "1.0.0"},
			catalogs: []resolve.Catalog{catalog("a", 0, one), catalog("b", 0, withBundles(bundle("e.v1.0.1")))},
			want:     "e.v1.0.0", wantC: "a",
		},
		"a priority resolves an ambiguity": {
			catalogs: []resolve.Catalog{catalog("a", 0, one), catalog("b", 1, one)},
			want:     "e.v1.0.0", wantC: "b",
		},
		"no catalog selected": {
			wantErr: `no bundles found for package "example"`,
		},
		"package in no catalog": {
			req:      resolve.Request{Package: "absent"},
			catalogs: []resolve.Catalog{{Name: "a"}, {Name: "b", Content: &fbc.Content{}}},
			wantErr:  `no bundles found for package "absent"`,
		},
	})
}

func TestVersionsAndChannels(t *testing.T) {
	all := catalog("a", 0,
		withBundles(bundles("e.v1.14.3", "e.v1.14.5", "e.v1.14.4", "e.v1.15.0", "e.v1.15.2", "e.v1.16.0", "e.v1.17.1", "e.v2.0.0-rc.1")...),
		withFlatChannel("latest", "e.v1.15.0", "e.v1.15.2", "e.v1.16.0", "e.v1.17.1"),
		withFlatChannel("pipelines-1.14", "e.v1.14.3", "e.v1.14.4", "e.v1.14.5"),
		withFlatChannel("candidate", "e.v2.0.0-rc.1"),
	)

	only := func(version string, channels ...string) resolve.Request {
		return resolve.Request{Version: version, Channels: channels}
	}
	from := func(bundle, version string) resolve.Request {
		return resolve.Request{Version: version, Policy: selfCertified, Installed: installed(bundle)}
	}
	cases := map[string]resolveCase{
		"a channel alone selects its highest version":      {req: only("", "pipelines-1.14"), want: "e.v1.14.5"},
		"several channels select the highest of all":       {req: only("", "pipelines-1.14", "latest"), want: "e.v1.17.1"},
		"an exact version selects that version":            {req: only("1.15.0"), want: "e.v1.15.0"},
		"an exact version pins":                            {req: from("e.v1.15.0", "1.15.0"), want: "e.v1.15.0"},
		"a pin changes when the version is edited":         {req: from("e.v1.15.0", "1.16.0"), want: "e.v1.16.0"},
		"a range selects the latest version within it":     {req: only(">1.14.4 <1.16"), want: "e.v1.15.2"},
		"channel and range must both hold":                 {req: only("<1.16", "latest"), want: "e.v1.15.2"},
		"a wildcard selects the newest patch":              {req: only("1.14.x"), want: "e.v1.14.5"},
		"an update within the range is made":               {req: from("e.v1.14.3", "1.14.x"), want: "e.v1.14.5"},
		"an update outside the range is not made":          {req: from("e.v1.14.5", "1.14.x"), want: "e.v1.14.5"},
		"a range above one minor starts at the next":       {req: only(">1.15, <1.17"), want: "e.v1.16.0"},
		"neither version nor channel":                      {req: only(""), want: "e.v2.0.0-rc.1"},
		"a range excludes pre-releases":                    {req: only(">=1.0.0"), want: "e.v1.17.1"},
		"a range that names a pre-release includes it":     {req: only(">=1.0.0-0"), want: "e.v2.0.0-rc.1"},
		"a channel without a range includes a pre-release": {req: only("", "candidate"), want: "e.v2.0.0-rc.1"},
		"an unknown version":                               {req: only("9.x"), wantErr: `no bundles found for package "example" matching version "9.x"`},
		"an unknown channel":                               {req: only("", "nope"), wantErr: `no bundles found for package "example" in channels [nope]`},
		"version and channel that exclude each other":      {req: only("1.14.x", "latest", "nope"), wantErr: `no bundles found for package "example" matching version "1.14.x" in channels [latest nope]`},
		"an unknown version while something is installed":  {req: from("e.v1.15.2", "9.x"), wantErr: `error upgrading from currently installed version "1.15.2": no bundles found for package "example" matching version "9.x"`},
		"a range that does not parse":                      {req: only("newest"), wantErr: `desired version range "newest" is invalid: improper constraint: "newest"`},
		"the word or is no operator":                       {req: only("<1.15 OR >1.16"), wantErr: `desired version range "<1.15 OR >1.16" is invalid: improper constraint: "<1.15 OR >1.16"`},
	}

	for name, tc := range cases {
		tc.catalogs = []resolve.Catalog{all}
		cases[name] = tc
	}

	runResolve(t, cases)
}

func TestUpgradeEdges(t *testing.T) {
	// Each bundle replaces the previous one. 1.2.0 and 3.0.0 are also successors of older bundles.
	graph := []resolve.Catalog{catalog("a", 0,
		withBundles(bundles("e.v1.0.0", "e.v1.1.0", "e.v1.2.0", "e.v1.3.0", "e.v2.0.0")...),
		withChannel("stable",
			fbc.ChannelEntry{Name: "e.v1.0.0"},
			fbc.ChannelEntry{Name: "e.v1.1.0", Replaces: "e.v1.0.0"},
			fbc.ChannelEntry{Name: "e.v1.2.0", Replaces: "e.v1.1.0", Skips: []string{"e.v1.0.0"}},
			fbc.ChannelEntry{Name: "e.v1.3.0", Replaces: "e.v1.2.0", SkipRange: ">=0.5.0 <0.9.0"},
			fbc.ChannelEntry{Name: "e.v2.0.0", Replaces: "e.v1.3.0"},
		),
		withFlatChannel("bare", "e.v1.1.0", "e.v2.0.0"),
	)}

	noChain := []resolve.Catalog{catalog("a", 0, withBundles(bundles("example.v3.0.0", "example.v2.0.0")...),
		withChannel("stable",
			fbc.ChannelEntry{Name: "example.v3.0.0", Skips: []string{"example.v2.0.0"}},
			fbc.ChannelEntry{Name: "example.v2.0.0", SkipRange: ">=1.0.0 <2.0.0"},
		))}
	// Every entry's range holds every other entry's version, as with nightly builds.
	sloppy := []resolve.Catalog{catalog("a", 0, withBundles(bundles("e.v4.17.0-1", "e.v4.17.0-2", "e.v4.17.0-3")...),
		withChannel("stable",
			fbc.ChannelEntry{Name: "e.v4.17.0-1", SkipRange: ">=4.8.0 <4.17.0"},
			fbc.ChannelEntry{Name: "e.v4.17.0-2", SkipRange: ">=4.8.0 <4.17.0"},
			fbc.ChannelEntry{Name: "e.v4.17.0-3", SkipRange: ">=4.8.0 <4.17.0"},
		),
		withDeprecation(fbc.SchemaBundle, "e.v4.17.0-3", "broken"))}

	req := func(from, version string, channels ...string) resolve.Request {
		return resolve.Request{Version: version, Channels: channels, Policy: catalogProvided, Installed: installed(from)}
	}
	force := func(from, version string) resolve.Request {
		r := req(from, version)
		r.Policy = selfCertified
		return r
	}
	unset := req("e.v1.0.0", "2.0.0")
	unset.Policy = ""
	otherName := req("e.v1.1.0", "1.1.0")
	otherName.Installed.Name = "known-elsewhere-by-another-name"
	unreadable := req("e.v1.0.0", "")
	unreadable.Installed.Version = "one"

	runResolve(t, map[string]resolveCase{
		"a successor by replaces":                                       {req: req("e.v1.1.0", ""), catalogs: graph, want: "e.v1.2.0"},
		"a successor by skips, the highest of several":                  {req: req("e.v1.0.0", ""), catalogs: graph, want: "e.v1.2.0"},
		"a successor by skipRange of a bundle no catalog has":           {req: req("e.v0.8.0", ""), catalogs: graph, want: "e.v1.3.0"},
		"the head of the channel stays":                                 {req: req("e.v2.0.0", ""), catalogs: graph, want: "e.v2.0.0"},
		"the range chooses among the successors":                        {req: req("e.v1.0.0", "1.1.x"), catalogs: graph, want: "e.v1.1.0"},
		"the installed version stays when the range holds it":           {req: req("e.v1.0.0", "1.0.0"), catalogs: graph, want: "e.v1.0.0"},
		"no chain of replaces is needed":                                {req: req("example.v1.0.0", ""), catalogs: noChain, want: "example.v2.0.0"},
		"and the skipping entry is the next step":                       {req: req("example.v2.0.0", ""), catalogs: noChain, want: "example.v3.0.0"},
		"an edge to another major version is followed":                  {req: req("e.v1.3.0", ""), catalogs: graph, want: "e.v2.0.0"},
		"no update to a major version without an edge":                  {req: req("e.v1.2.0", ""), catalogs: graph, want: "e.v1.3.0"},
		"a version without an edge is refused":                          {req: req("e.v1.0.0", "2.0.0"), catalogs: graph, wantErr: `error upgrading from currently installed version "1.0.0": no bundles found for package "example" matching version "2.0.0"`},
		"an unset policy is CatalogProvided":                            {req: unset, catalogs: graph, wantErr: `error upgrading from currently installed version "1.0.0": no bundles found for package "example" matching version "2.0.0"`},
		"SelfCertified needs no edge":                                   {req: force("e.v1.0.0", "2.0.0"), catalogs: graph, want: "e.v2.0.0"},
		"SelfCertified allows a downgrade":                              {req: force("e.v2.0.0", "1.0.0"), catalogs: graph, want: "e.v1.0.0"},
		"CatalogProvided refuses a downgrade":                           {req: req("e.v2.0.0", "1.0.0"), catalogs: graph, wantErr: `error upgrading from currently installed version "2.0.0": no bundles found for package "example" matching version "1.0.0"`},
		"no downgrade even if a skipRange covers the installed version": {req: req("e.v4.17.0-3", "4.17.0-1"), catalogs: sloppy, wantErr: `error upgrading from currently installed version "4.17.0-3": no bundles found for package "example" matching version "4.17.0-1"`},
		"no downgrade even if the installed bundle is deprecated":       {req: req("e.v4.17.0-3", ""), catalogs: sloppy, want: "e.v4.17.0-3"},
		"no update to a deprecated successor":                           {req: req("e.v4.17.0-2", ""), catalogs: sloppy, want: "e.v4.17.0-2"},
		"an update to a deprecated successor that is requested":         {req: req("e.v4.17.0-2", "4.17.0-3"), catalogs: sloppy, want: "e.v4.17.0-3"},
		"the edges of the requested channels count":                     {req: req("e.v1.3.0", "", "stable"), catalogs: graph, want: "e.v2.0.0"},
		"the edges of other channels do not count":                      {req: req("e.v1.3.0", "", "bare"), catalogs: graph, wantErr: `error upgrading from currently installed version "1.3.0": no bundles found for package "example" in channels [bare]`},
		"the installed bundle stays when the channel holds it":          {req: req("e.v1.1.0", "", "bare"), catalogs: graph, want: "e.v1.1.0"},
		"the installed bundle is recognized by its version too":         {req: otherName, catalogs: graph, want: "e.v1.1.0"},
		"an invalid installed version follows edges by name":            {req: unreadable, catalogs: graph, want: "e.v1.2.0"},
		"with nothing installed the policy does not matter":             {req: resolve.Request{Policy: catalogProvided}, catalogs: graph, want: "e.v2.0.0"},
		"a catalog without a successor does not hide that of another":   {req: req("e.v1.0.0", ">1.0.0"), catalogs: append([]resolve.Catalog{catalog("b", 9, withBundles(bundle("e.v1.9.0")))}, graph...), want: "e.v1.2.0", wantC: "a"},
		"an exact version is reached along the edges":                   {req: req("e.v1.3.0", "2.0.0"), catalogs: graph, want: "e.v2.0.0"},
	})
}

func TestDeprecatedBundlesComeLast(t *testing.T) {
	three := withBundles(bundles("e.v1.0.0", "e.v1.1.0", "e.v1.2.0")...)
	runResolve(t, map[string]resolveCase{
		"a bundle is preferred to a higher deprecated one": {
			catalogs: []resolve.Catalog{catalog("a", 0, three, withDeprecation(fbc.SchemaBundle, "e.v1.2.0", "x"))},
			want:     "e.v1.1.0",
		},
		"a deprecated bundle is chosen when only it matches": {
			req:      resolve.Request{Version: "1.2.0"},
			catalogs: []resolve.Catalog{catalog("a", 0, three, withDeprecation(fbc.SchemaBundle, "e.v1.2.0", "x"))},
			want:     "e.v1.2.0",
		},
		"of deprecated bundles the highest": {
			req:      resolve.Request{Version: ">=1.1.0"},
			catalogs: []resolve.Catalog{catalog("a", 0, three, withDeprecation(fbc.SchemaBundle, "e.v1.2.0", "x"), withDeprecation(fbc.SchemaBundle, "e.v1.1.0", "x"))},
			want:     "e.v1.2.0",
		},
		"a deprecated channel or package does not count against its bundles": {
			catalogs: []resolve.Catalog{catalog("a", 1, three, withFlatChannel("stable", "e.v1.2.0"), withDeprecation(fbc.SchemaChannel, "stable", "x"), withDeprecation(fbc.SchemaPackage, "", "x"), withDeprecation(fbc.SchemaChannel, "e.v1.2.0", "x")), catalog("b", 0, three)},
			want:     "e.v1.2.0", wantC: "a",
		},
	})
}

func TestWhatRunsComesFirst(t *testing.T) {
	needing := func(b fbc.Bundle, least string) fbc.Bundle {
		b.Properties = append(b.Properties, fbc.Property{Type: fbc.PropertyCSVMetadata, Value: json.RawMessage(`{"minKubeVersion":"` + least + `"}`)})
		return b
	}
	two := withBundles(needing(bundle("e.v1.0.0"), "old"), needing(bundle("e.v2.0.0"), "new"), needing(bundle("e.v3.0.0"), "new"))
	request := func(version, installed string) resolve.Request {
		r := resolve.Request{Version: version, Policy: olmv1.UpgradeConstraintPolicySelfCertified, RunsOn: func(least string) bool { return least != "new" }}
		if installed != "" {
			r.Installed = &resolve.Installed{Name: installed, Version: strings.TrimPrefix(installed, "e.v")}
		}
		return r
	}

	runResolve(t, map[string]resolveCase{
		"the highest compatible bundle":                               {req: request("", ""), catalogs: []resolve.Catalog{catalog("a", 0, two)}, want: "e.v1.0.0"},
		"the installed bundle stays while no newer one is compatible": {req: request("", "e.v1.0.0"), catalogs: []resolve.Catalog{catalog("a", 0, two)}, want: "e.v1.0.0"},
		"the highest when none is compatible":                         {req: request(">1", ""), catalogs: []resolve.Catalog{catalog("a", 0, two)}, want: "e.v3.0.0"},
		"a deprecated compatible bundle": {
			req: request("", ""), catalogs: []resolve.Catalog{catalog("a", 0, two, withDeprecation(fbc.SchemaBundle, "e.v1.0.0", "x"))}, want: "e.v1.0.0",
		},
		"a catalog without a compatible bundle does not win by its priority": {
			req:      request("", ""),
			catalogs: []resolve.Catalog{catalog("a", 9, withBundles(needing(bundle("e.v3.0.0"), "new"))), catalog("b", 0, two)}, want: "e.v1.0.0", wantC: "b",
		},
		"a bundle without a minimum version is compatible": {req: request("", ""), catalogs: []resolve.Catalog{catalog("a", 0, two, withBundles(bundle("e.v4.0.0")))}, want: "e.v4.0.0"},
		"an unknown version of the cluster":                {catalogs: []resolve.Catalog{catalog("a", 0, two)}, want: "e.v3.0.0"},
	})
}

func TestReleaseDecidesAfterVersion(t *testing.T) {
	runResolve(t, map[string]resolveCase{
		"any release is higher than none": {
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("b", "1.0.0", "1"), bundleOf("a", "1.0.0", "")))},
			want:     "b",
		},
		"releases compare by number": {
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.0", "9"), bundleOf("b", "1.0.0", "10"), bundleOf("c", "1.0.0", "10.0.0"), bundleOf("d", "1.0.0", "10.0")))},
			want:     "c",
		},
		"the version counts more than the release": {
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.1", ""), bundleOf("b", "1.0.0", "99")))},
			want:     "a",
		},
		"build metadata is a release where there is no other": {
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.0+3", ""), bundleOf("b", "1.0.0+12", ""), bundleOf("c", "1.0.0", "")))},
			want:     "b",
		},
		"build metadata that is no release does not order": {
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("b", "1.0.0+003", ""), bundleOf("a", "1.0.0+007", "")))},
			want:     "a",
		},
		"a full version with build metadata means that build": {
			req:      resolve.Request{Version: "1.0.0+3"},
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.0+3", ""), bundleOf("b", "1.0.0+12", ""), bundleOf("c", "1.0.0", "")))},
			want:     "a",
		},
		"a full version without build metadata means every build": {
			req:      resolve.Request{Version: "1.0.0"},
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.0+3", ""), bundleOf("c", "1.0.0", "")))},
			want:     "a",
		},
		"the installed bundle stays among equal ones": {
			req:      resolve.Request{Policy: selfCertified, Installed: &resolve.Installed{Name: "b", Version: "1.0.0"}},
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.0", ""), bundleOf("b", "1.0.0", ""), bundleOf("c", "1.0.0", "")))},
			want:     "b",
		},
		"another release of the installed version is another bundle": {
			req:      resolve.Request{Installed: &resolve.Installed{Name: "a", Version: "1.0.0", Release: "1"}},
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.0", "1"), bundleOf("b", "1.0.0", "2")))},
			want:     "a",
		},
		"a downgrade to an older release is refused too": {
			req: resolve.Request{Version: "1.0.0", Installed: &resolve.Installed{Name: "b", Version: "1.0.0", Release: "2"}},
			catalogs: []resolve.Catalog{catalog("a", 0, withBundles(bundleOf("a", "1.0.0", "1")),
				withChannel("stable", fbc.ChannelEntry{Name: "a", Replaces: "b"}))},
			wantErr: `error upgrading from currently installed version "1.0.0": no bundles found for package "example" matching version "1.0.0"`,
		},
	})
}

func TestResultTellsWhatWasChosen(t *testing.T) {
	c := catalog("a", 3, withBundles(bundleOf("b", "1.2.3", "4"), bundle("e.v1.0.0"), bundle("nonsense")),
		withFlatChannel("stable", "b"), withFlatChannel("fast", "b"), withFlatChannel("slow", "e.v1.0.0"), withFlatChannel("alpha", "b"), withFlatChannel("fast", "b"),
		withDeprecation(fbc.SchemaPackage, "", "gone"))
	got, err := resolve.Resolve(resolve.Request{Package: pkg, Channels: []string{"stable", "fast", "slow"}}, []resolve.Catalog{c})
	if err != nil {
		t.Fatal(err)
	}
	if got.Bundle.Image != "registry.example.com/b" || got.Version.String() != "1.2.3" || got.Release != "4" || got.Catalog != "a" {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"fast", "stable"}, got.Channels); diff != "" {
		t.Errorf("channels (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(c.Content.Deprecations, got.Deprecations); diff != "" {
		t.Errorf("deprecations (-want +got)\n%s", diff)
	}

	want := []string{`catalog "a": bundle "nonsense": invalid version "": Version string empty; the bundle is left out`}
	if diff := cmp.Diff(want, got.Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
}
