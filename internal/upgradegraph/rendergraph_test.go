package upgradegraph_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got)\n%s", path, diff)
	}
}

func TestWriteMermaid(t *testing.T) {
	zebra := upgradegraph.New("zebra", []fbc.Channel{
		channel("stable", fbc.ChannelEntry{Name: "z.v1.0.0"}),
	}, versionFromName)
	example := upgradegraph.New("example", []fbc.Channel{
		channel("stable",
			fbc.ChannelEntry{Name: "e.v1.0.0"},
			fbc.ChannelEntry{Name: "e.v1.1.0", Replaces: "e.v1.0.0"},
			fbc.ChannelEntry{Name: "e.v1.2.0", Replaces: "e.v1.0.0", Skips: []string{"e.v1.1.0"}, SkipRange: "<1.2.0"},
		),
		channel("alpha",
			fbc.ChannelEntry{Name: `odd"]; click "x`, Replaces: "line\nbreak"},
			fbc.ChannelEntry{Name: "e.v2.0.0", SkipRange: "broken"},
		),
	}, versionFromName)

	var out bytes.Buffer
	err := upgradegraph.WriteMermaid(&out,
		upgradegraph.Drawing{Graph: zebra, Deprecations: &fbc.Deprecations{Entries: []fbc.DeprecationEntry{
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaPackage}},
		}}},
		upgradegraph.Drawing{Graph: example, Deprecations: &fbc.Deprecations{Entries: []fbc.DeprecationEntry{
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: "alpha"}},
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: "e.v1.1.0"}},
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: "e.v1.0.0"}},
		}}},
	)
	if err != nil {
		t.Fatal(err)
	}

	checkGolden(t, "packages.mermaid", out.Bytes())
}

// TestMermaidBuildMetadata checks that entries which differ only in build metadata keep the order
// of the channel, which determines the skipped ones.
func TestMermaidBuildMetadata(t *testing.T) {
	old := fbc.ChannelEntry{Name: "e.v1.0.0"}
	rebuilt := fbc.ChannelEntry{Name: "e.v1.0.0+1", Skips: []string{"e.v1.0.0"}}
	for name, c := range map[string]struct {
		entries []fbc.ChannelEntry
		skipped bool
	}{
		"rebuild first": {[]fbc.ChannelEntry{rebuilt, old}, true},
		"rebuild last":  {[]fbc.ChannelEntry{old, rebuilt}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := upgradegraph.New("example", []fbc.Channel{channel("stable", c.entries...)}, versionFromName)
			var out bytes.Buffer
			if err := (upgradegraph.Mermaid{V0Semantics: true}).Write(&out, upgradegraph.Drawing{Graph: g}); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(out.String(), "class example-stable-e.v1.0.0 skipped"); got != c.skipped {
				t.Errorf("e.v1.0.0 is marked as skipped: %t, want %t:\n%s", got, c.skipped, out.String())
			}
		})
	}
}

// drawSample returns the drawing of one package with two channels. One of the bundles is skipped
// twice and another is deprecated.
func drawSample(t *testing.T, m upgradegraph.Mermaid) ([]byte, error) {
	t.Helper()
	g := upgradegraph.New("example", []fbc.Channel{
		channel("stable",
			fbc.ChannelEntry{Name: "e.v1.0.0", Replaces: "e.v0.9.0"},
			fbc.ChannelEntry{Name: "e.v1.1.0", Replaces: "e.v1.0.0"},
			fbc.ChannelEntry{Name: "e.v1.2.0", Replaces: "e.v1.1.0", SkipRange: ">=1.0.0 <1.2.0"},
			fbc.ChannelEntry{Name: "e.v1.3.0", Replaces: "e.v1.0.0", Skips: []string{"e.v1.1.0", "e.v1.2.0"}, SkipRange: ">=1.0.0 <1.3.0"},
			fbc.ChannelEntry{Name: "e.v1.4.0", Replaces: "e.v1.3.0", Skips: []string{"e.v1.2.0"}},
		),
		channel("alpha", fbc.ChannelEntry{Name: "e.v1.0.0"}, fbc.ChannelEntry{Name: "e.v1.1.0", Skips: []string{"e.v1.0.0"}}),
		channel("old", fbc.ChannelEntry{Name: "e.v0.9.0"}),
	}, versionFromName)

	other := upgradegraph.New("other", []fbc.Channel{channel("stable", fbc.ChannelEntry{Name: "o.v9.0.0"})}, versionFromName)
	var out bytes.Buffer
	err := m.Write(&out, upgradegraph.Drawing{Graph: other}, upgradegraph.Drawing{Graph: g, Deprecations: &fbc.Deprecations{
		Entries: []fbc.DeprecationEntry{
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaPackage}},
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: "stable"}},
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: "e.v1.0.0"}},
			{Reference: fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: "e.v1.1.0"}},
		},
	}})

	return out.Bytes(), err
}

func TestMermaid(t *testing.T) {
	for name, m := range map[string]upgradegraph.Mermaid{
		"plain":           {},
		"v0":              {V0Semantics: true},
		"minimum-edge":    {MinimumEdge: "e.v1.1.0"},
		"minimum-edge-v0": {MinimumEdge: "e.v1.1.0", V0Semantics: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := drawSample(t, m)
			if err != nil {
				t.Fatal(err)
			}
			checkGolden(t, name+".mermaid", got)
		})
	}
}

func TestMermaidRefusesAnUnknownMinimumEdge(t *testing.T) {
	_, err := drawSample(t, upgradegraph.Mermaid{MinimumEdge: "e.v7.0.0"})
	if err == nil || err.Error() != `unknown minimum edge name: "e.v7.0.0"` {
		t.Errorf("got error %v, want that the minimum edge is unknown", err)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteMermaidGivesTheWritersError(t *testing.T) {
	full := errors.New("disk full")
	err := upgradegraph.WriteMermaid(brokenWriter{full}, upgradegraph.Drawing{Graph: upgradegraph.New("p", nil, nil)})
	if !errors.Is(err, full) {
		t.Errorf("got error %v, want %v", err, full)
	}
}
