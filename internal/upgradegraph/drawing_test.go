package upgradegraph_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// newSampleDrawings returns drawings of a package with every element that a drawing can show.
func newSampleDrawings() []upgradegraph.Drawing {
	zebra := upgradegraph.New("zebra", []fbc.Channel{channel("stable", fbc.ChannelEntry{Name: "z.v1.0.0"})}, versionFromName)
	example := upgradegraph.New("example", []fbc.Channel{
		channel("stable",
			fbc.ChannelEntry{Name: "e.v1.0.0", Replaces: "e.v0.9.0"},
			fbc.ChannelEntry{Name: "e.v1.1.0", Replaces: "e.v1.0.0"},
			fbc.ChannelEntry{Name: "e.v1.2.0", Replaces: "e.v1.1.0", Skips: []string{"e.v1.0.0"}},
		),
		channel("alpha",
			fbc.ChannelEntry{Name: "e.v1.0.0"}, fbc.ChannelEntry{Name: "e.v1.1.0"},
			fbc.ChannelEntry{Name: "e.v2.0.0", SkipRange: ">=1.0.0 <2.0.0"},
			fbc.ChannelEntry{Name: `odd" </svg> & \ ` + "\n", SkipRange: "broken"},
		),
	}, versionFromName)

	return []upgradegraph.Drawing{{Graph: zebra}, {Graph: example, Deprecations: &fbc.Deprecations{Entries: []fbc.DeprecationEntry{
		{Reference: fbc.DeprecationReference{Schema: fbc.SchemaChannel, Name: "alpha"}},
		{Reference: fbc.DeprecationReference{Schema: fbc.SchemaBundle, Name: "e.v1.1.0"}},
	}}}}
}

func TestWriteDOT(t *testing.T) {
	var out bytes.Buffer
	if err := upgradegraph.WriteDOT(&out, newSampleDrawings()...); err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "drawing.dot", out.Bytes())
}

func TestWriteSVG(t *testing.T) {
	var out bytes.Buffer
	if err := upgradegraph.WriteSVG(&out, newSampleDrawings()...); err != nil {
		t.Fatal(err)
	}

	checkGolden(t, "drawing.svg", out.Bytes())
	// The output must be valid XML for any names.
	decoder := xml.NewDecoder(&out)
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDrawingsFailWithTheirWriter(t *testing.T) {
	for name, write := range map[string]func(io.Writer, ...upgradegraph.Drawing) error{
		"DOT": upgradegraph.WriteDOT, "SVG": upgradegraph.WriteSVG,
	} {
		reader, writer := io.Pipe()
		_ = reader.Close()
		if err := write(writer, newSampleDrawings()...); !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "write the drawing") {
			t.Errorf("%s: got error %v, want valid XML", name, err)
		}
	}
}
