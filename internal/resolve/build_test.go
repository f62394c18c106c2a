package resolve_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/resolve"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// pkg is the package of the builders.
const pkg = "example"

// bundle returns a bundle whose name ends in its version, as in "e.v1.2.3".
func bundle(name string) fbc.Bundle {
	_, version, _ := strings.Cut(name, ".v")
	return bundleOf(name, version, "")
}

func bundleOf(name, version, release string) fbc.Bundle {
	value, err := json.Marshal(fbc.PackageProperty{PackageName: pkg, Version: version, Release: release})
	if err != nil {
		panic(err)
	}
	return fbc.Bundle{
		Schema: fbc.SchemaBundle, Package: pkg, Name: name, Image: "registry.example.com/" + name,
		Properties: []fbc.Property{{Type: "other", Value: json.RawMessage(`{}`)}, {Type: fbc.PropertyPackage, Value: value}},
	}
}

func bundles(names ...string) []fbc.Bundle {
	var out []fbc.Bundle
	for _, name := range names {
		out = append(out, bundle(name))
	}
	return out
}

// contentOption is a piece of a catalog's content.
type contentOption func(*fbc.Content)

// catalog returns a catalog that has the package.
func catalog(name string, priority int32, parts ...contentOption) resolve.Catalog {
	c := &fbc.Content{Package: &fbc.Package{Schema: fbc.SchemaPackage, Name: pkg}}
	for _, p := range parts {
		p(c)
	}
	return resolve.Catalog{Name: name, Priority: priority, Content: c}
}

// withBundles adds bundles.
func withBundles(bs ...fbc.Bundle) contentOption {
	return func(c *fbc.Content) { c.Bundles = append(c.Bundles, bs...) }
}

// withChannel adds a channel.
func withChannel(name string, entries ...fbc.ChannelEntry) contentOption {
	return func(c *fbc.Content) {
		c.Channels = append(c.Channels, fbc.Channel{Schema: fbc.SchemaChannel, Package: pkg, Name: name, Entries: entries})
	}
}

// withFlatChannel adds a channel whose entries have no edges.
func withFlatChannel(name string, entries ...string) contentOption {
	var out []fbc.ChannelEntry
	for _, e := range entries {
		out = append(out, fbc.ChannelEntry{Name: e})
	}
	return withChannel(name, out...)
}

// withChainChannel adds a channel in which each entry replaces the previous one.
func withChainChannel(name string, entries ...string) contentOption {
	var out []fbc.ChannelEntry
	last := ""
	for _, e := range entries {
		out = append(out, fbc.ChannelEntry{Name: e, Replaces: last})
		last = e
	}
	return withChannel(name, out...)
}

// withDeprecation deprecates a package, channel or bundle.
func withDeprecation(schema, name, message string) contentOption {
	return func(c *fbc.Content) {
		if c.Deprecations == nil {
			c.Deprecations = &fbc.Deprecations{Schema: fbc.SchemaDeprecations, Package: pkg}
		}
		c.Deprecations.Entries = append(c.Deprecations.Entries, fbc.DeprecationEntry{
			Reference: fbc.DeprecationReference{Schema: schema, Name: name}, Message: message,
		})
	}
}

// installed returns an installed bundle whose name has the same form as that of bundle.
func installed(name string) *resolve.Installed {
	_, version, _ := strings.Cut(name, ".v")
	return &resolve.Installed{Name: name, Version: version}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}
