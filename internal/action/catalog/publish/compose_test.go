package publish

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

// newMember returns a member named p.v<version> in the channel stable of the package p.
func newMember(version string, edit ...func(*bundle.Bundle)) catalogMember {
	b := &bundle.Bundle{Package: "p", Channels: []string{"stable"}, DefaultChannel: "stable", Version: semver.MustParse(version)}
	b.CSV.Name = "p.v" + version
	for _, f := range edit {
		f(b)
	}
	return catalogMember{bundle: b, blob: fbc.Bundle{Schema: fbc.SchemaBundle, Package: b.Package, Name: b.Name(), Image: "r/" + version}}
}

func replaces(name string) func(*bundle.Bundle) {
	return func(b *bundle.Bundle) { b.CSV.Spec.Replaces = name }
}

func skips(names ...string) func(*bundle.Bundle) {
	return func(b *bundle.Bundle) { b.CSV.Spec.Skips = names }
}

func skipRange(text string) func(*bundle.Bundle) {
	return func(b *bundle.Bundle) { b.CSV.Annotations = map[string]string{bundle.AnnotationSkipRange: text} }
}

func inChannels(defaultChannel string, channels ...string) func(*bundle.Bundle) {
	return func(b *bundle.Bundle) { b.Channels, b.DefaultChannel = channels, defaultChannel }
}

func inPackage(name string) func(*bundle.Bundle) { return func(b *bundle.Bundle) { b.Package = name } }

func named(name string) func(*bundle.Bundle) { return func(b *bundle.Bundle) { b.CSV.Name = name } }

func TestComposeCatalog(t *testing.T) {
	type channels map[string][]fbc.ChannelEntry
	cases := map[string]struct {
		members  []catalogMember
		channels channels
		// warning is a part of the only warning; "" means that there is none.
		warning string
	}{
		"a chain, given in any order": {
			members: []catalogMember{newMember("0.10.0", replaces("p.v0.9.0")), newMember("0.8.0", replaces("p.v0.7.0")), newMember("0.9.0", replaces("p.v0.8.0"))},
			channels: channels{"stable": {
				{Name: "p.v0.8.0", Replaces: "p.v0.7.0"}, {Name: "p.v0.9.0", Replaces: "p.v0.8.0"}, {Name: "p.v0.10.0", Replaces: "p.v0.9.0"},
			}},
		},
		"skips leave one head": {
			members: []catalogMember{newMember("1.0.0"), newMember("1.1.0", replaces("p.v1.0.0")), newMember("1.1.1", replaces("p.v1.0.0"), skips("p.v1.1.0", ""))},
			channels: channels{"stable": {
				{Name: "p.v1.0.0"}, {Name: "p.v1.1.0", Replaces: "p.v1.0.0"}, {Name: "p.v1.1.1", Replaces: "p.v1.0.0", Skips: []string{"p.v1.1.0"}},
			}},
		},
		"ranges alone: linked without a warning": {
			members: []catalogMember{newMember("1.0.0", skipRange(">=0.5.0 <1.0.0")), newMember("1.1.0", skipRange(">=0.5.0 <1.1.0")), newMember("1.2.0", skipRange(">=0.5.0 <1.2.0"))},
			channels: channels{"stable": {
				{Name: "p.v1.0.0", SkipRange: ">=0.5.0 <1.0.0"},
				{Name: "p.v1.1.0", Replaces: "p.v1.0.0", SkipRange: ">=0.5.0 <1.1.0"},
				{Name: "p.v1.2.0", Replaces: "p.v1.1.0", SkipRange: ">=0.5.0 <1.2.0"},
			}},
		},
		"no edges: linked with a warning": {
			members:  []catalogMember{newMember("1.2.1-up.4"), newMember("1.2.1-up.3"), newMember("1.2.2-up.1")},
			channels: channels{"stable": {{Name: "p.v1.2.1-up.3"}, {Name: "p.v1.2.1-up.4", Replaces: "p.v1.2.1-up.3"}, {Name: "p.v1.2.2-up.1", Replaces: "p.v1.2.1-up.4"}}},
			warning:  "no bundle replaces or skips p.v1.2.1-up.3, p.v1.2.1-up.4;",
		},
		"a head whose next version replaces something else is skipped by it": {
			members:  []catalogMember{newMember("1.0.0"), newMember("1.2.0", replaces("p.v1.1.0"))},
			channels: channels{"stable": {{Name: "p.v1.0.0"}, {Name: "p.v1.2.0", Replaces: "p.v1.1.0", Skips: []string{"p.v1.0.0"}}}},
			warning:  "no bundle replaces or skips p.v1.0.0;",
		},
		"a head that replaces a higher version is not linked into a circle": {
			members: []catalogMember{newMember("1.0.0", replaces("p.v3.0.0")), newMember("2.0.0"), newMember("3.0.0")},
			channels: channels{"stable": {
				{Name: "p.v1.0.0", Replaces: "p.v3.0.0"}, {Name: "p.v2.0.0", Replaces: "p.v1.0.0"}, {Name: "p.v3.0.0"},
			}},
			warning: "p.v1.0.0",
		},
		"several channels, each with its own members": {
			members: []catalogMember{
				newMember("1.0.0", inChannels("v1", "v1", "all", "v1")), newMember("2.0.0", inChannels("v2", "v2", "all"), replaces("p.v1.0.0")),
			},
			channels: channels{
				"all": {{Name: "p.v1.0.0"}, {Name: "p.v2.0.0", Replaces: "p.v1.0.0"}},
				"v1":  {{Name: "p.v1.0.0"}},
				"v2":  {{Name: "p.v2.0.0", Replaces: "p.v1.0.0"}},
			},
		},
		"no channel but a default one": {
			members:  []catalogMember{newMember("1.0.0", inChannels("beta"))},
			channels: channels{"beta": {{Name: "p.v1.0.0"}}},
		},
		"versions that differ in build metadata only": {
			members:  []catalogMember{newMember("1.0.0+b", replaces("p.v1.0.0+a")), newMember("1.0.0+a")},
			channels: channels{"stable": {{Name: "p.v1.0.0+a"}, {Name: "p.v1.0.0+b", Replaces: "p.v1.0.0+a"}}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := composeCatalog(c.members)
			if err != nil {
				t.Fatal(err)
			}
			entries := channels{}
			for _, channel := range got.Channels {
				entries[channel.Name] = channel.Entries
				if heads := findChannelHeads(channel.Entries); len(heads) != 1 {
					t.Errorf("channel %s: got heads %v, want one", channel.Name, heads)
				}
			}
			if diff := cmp.Diff(c.channels, entries); diff != "" {
				t.Errorf("channels (-want +got):\n%s", diff)
			}
			expectWarning(t, got.Warnings, c.warning)
		})
	}
}

func expectWarning(t *testing.T, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("warnings: %q", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("got warnings %q, want one with %q", got, want)
	}
}

func TestComposePackage(t *testing.T) {
	icon := func(data string) func(*bundle.Bundle) {
		return func(b *bundle.Bundle) { b.CSV.Spec.Icon = []v1alpha1.Icon{{Data: data, MediaType: "image/png"}} }
	}
	described := func(b *bundle.Bundle) { b.CSV.Spec.Description = "what it is" }
	cases := map[string]struct {
		members []catalogMember
		want    fbc.Package
		warning string
	}{
		"of the newest bundle": {
			members: []catalogMember{newMember("1.0.0", inChannels("old", "old", "new"), replaces("x")), newMember("1.1.0", inChannels("new", "new"), replaces("p.v1.0.0"), described, icon("aW\nNv\n"))},
			want:    fbc.Package{DefaultChannel: "new", Description: "what it is", Icon: &fbc.Icon{Data: []byte("ico"), MediaType: "image/png"}},
		},
		"the newest names none, and there is one": {
			members: []catalogMember{newMember("1.0.0", inChannels("", "only"))},
			want:    fbc.Package{DefaultChannel: "only"},
		},
		"the newest names none, and there are several": {
			members: []catalogMember{newMember("1.0.0", inChannels("b", "a", "b")), newMember("2.0.0", inChannels("", "a"), replaces("p.v1.0.0"))},
			want:    fbc.Package{DefaultChannel: "b"},
			warning: `p.v2.0.0 names no default channel; "b" is used`,
		},
		"the newest names one that does not exist": {
			members: []catalogMember{newMember("1.0.0", inChannels("stable-3.x", "stable"))},
			want:    fbc.Package{DefaultChannel: "stable"},
			warning: `names "stable-3.x" as default channel, which no bundle is in; "stable" is used`,
		},
		"a broken icon is omitted": {
			members: []catalogMember{newMember("1.0.0", icon("%%%"))},
			want:    fbc.Package{DefaultChannel: "stable"},
			warning: "the icon of p.v1.0.0 is left out",
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := composeCatalog(c.members)
			if err != nil {
				t.Fatal(err)
			}

			c.want.Schema, c.want.Name = fbc.SchemaPackage, "p"
			if diff := cmp.Diff([]fbc.Package{c.want}, got.Packages); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}

			expectWarning(t, got.Warnings, c.warning)
		})
	}
}

func TestComposeInvalid(t *testing.T) {
	cases := map[string]struct {
		members []catalogMember
		want    string
	}{
		"two of one version":                           {members: []catalogMember{newMember("1.0.0"), newMember("1.0.0", named("other"))}, want: `bundles "other" and "p.v1.0.0" both have version 1.0.0`},
		"two of one name":                              {members: []catalogMember{newMember("1.0.0"), newMember("1.1.0", named("p.v1.0.0"))}, want: `two bundles are named "p.v1.0.0", versions 1.0.0 and 1.1.0`},
		"in no channel":                                {members: []catalogMember{newMember("1.0.0", inChannels(""))}, want: `bundle "p.v1.0.0" is in no channel`},
		"updates form a cycle":                         {members: []catalogMember{newMember("1.0.0", replaces("p.v2.0.0")), newMember("2.0.0", replaces("p.v1.0.0"))}, want: "form a cycle"},
		"names the package":                            {members: []catalogMember{newMember("1.0.0", inPackage("q"), inChannels(""))}, want: `package "q"`},
		"the same name and version in another package": {members: []catalogMember{newMember("1.0.0"), newMember("1.0.0", inPackage("q"))}},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := composeCatalog(c.members)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("error %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestEncodeBlobs(t *testing.T) {
	composition, err := composeCatalog([]catalogMember{newMember("1.0.0", inPackage("b")), newMember("1.0.0", inPackage("a")), newMember("0.1.0", inPackage("b"))})
	if err != nil {
		t.Fatal(err)
	}

	blobs, err := composition.encodeBlobs()
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, blob := range blobs {
		got = append(got, blob.String())
	}

	want := []string{
		`blob of schema olm.package, name "a"`, `blob of schema olm.channel, package "a", name "stable"`,
		`blob of schema olm.bundle, package "a", name "p.v1.0.0"`,
		`blob of schema olm.package, name "b"`, `blob of schema olm.channel, package "b", name "stable"`,
		`blob of schema olm.bundle, package "b", name "p.v0.1.0"`, `blob of schema olm.bundle, package "b", name "p.v1.0.0"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}

	files := layOutCatalogFiles("/configs", blobs)
	if len(files) != 2 || files[0].Path != "/configs/a/catalog.json" || files[1].Path != "/configs/b/catalog.json" {
		t.Fatalf("got files %v", files)
	}

	// Written blobs are read back unchanged.
	var read []fbc.Meta
	for _, file := range files {
		for meta, err := range fbc.Read(strings.NewReader(string(file.Content)), file.Path, fbc.Limits{}) {
			if err != nil {
				t.Fatal(err)
			}
			meta.At = fbc.Place{}
			read = append(read, meta)
		}
	}

	asJSON := cmp.Transformer("JSON", func(blob json.RawMessage) (value any) {
		if err := json.Unmarshal(blob, &value); err != nil {
			t.Error(err)
		}
		return value
	})
	if diff := cmp.Diff(blobs, read, asJSON); diff != "" {
		t.Errorf("blobs (-want +got):\n%s", diff)
	}
}

func TestVersionTag(t *testing.T) {
	cases := map[string]string{
		"1.2.3":                               "v1.2.3",
		"1.2.1-up.3":                          "v1.2.1-up.3",
		"1.2.3+build.4":                       "v1.2.3_build.4",
		"0.0.0-x+" + strings.Repeat("a", 119): "v0.0.0-x_" + strings.Repeat("a", 119),
		"0.0.0-x+" + strings.Repeat("a", 120): "",
	}

	for version, want := range cases {
		got, err := versionTag(semver.MustParse(version))
		if got != want && err == nil || (err != nil) != (want == "") {
			t.Errorf("%s: got %q and error %v, want %q", version, got, err, want)
		}
	}
}

func TestDecodeIcon(t *testing.T) {
	want := "\x89PNG"
	text := base64.StdEncoding.EncodeToString([]byte(want))
	for _, written := range []string{text, " " + text[:3] + "\n  " + text[3:] + "\n"} {
		if got, err := decodeIcon(written); err != nil || string(got) != want {
			t.Errorf("%q: got %q and error %v", written, got, err)
		}
	}

	for _, bad := range []string{"", " \n", "no base64!"} {
		if got, err := decodeIcon(bad); err == nil {
			t.Errorf("%q: got %q without an error", bad, got)
		}
	}
}

func TestRepositoryOf(t *testing.T) {
	cases := map[string]string{
		"quay.io/org/catalog:v1":                        "quay.io/org/catalog",
		"localhost:5000/catalog":                        "localhost:5000/catalog",
		"localhost:5000/catalog:v1":                     "localhost:5000/catalog",
		"localhost:5000/a/catalog:v1@sha256:0123456789": "localhost:5000/a/catalog",
		"catalog:v1":                                    "catalog",
		"":                                              "",
	}

	for ref, want := range cases {
		if got := catalogs.RepositoryOf(ref); got != want {
			t.Errorf("%q: got %q, want %q", ref, got, want)
		}
	}
}
