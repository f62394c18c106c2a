package cincinnati_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

// newSmallGraph returns a small graph with an update of each kind.
func newSmallGraph(t *testing.T) *cincinnati.Graph {
	t.Helper()
	g, err := cincinnati.Parse(newGraphJSON(4, `[[0,1],[1,2],[0,2],[0,2]]`,
		`[`+conditionalJSON("4.1.2", riskJSON("A", always), riskJSON("B", promql))+`,{"edges":[{"from":"4.1.1","to":"4.1.3"},{"from":"4.1.1","to":"9.9.9"}],"risks":[`+
			strings.ReplaceAll(riskJSON("C", always), `"C"`, `"\"<C>&#"`)+`]}]`))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDraw(t *testing.T) {
	g := newSmallGraph(t)
	for name, write := range map[string]func(io.Writer) error{"graph.mmd": g.WriteMermaid, "graph.dot": g.WriteDOT, "graph.svg": g.WriteSVG} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}

		golden.Check(t, name, out.Bytes())
		if name == "graph.svg" {
			if err := xml.Unmarshal(out.Bytes(), new(struct{})); err != nil {
				t.Errorf("parsing the image as XML: %v", err)
			}
		}

		if err := write(failingWriter{}); err == nil {
			t.Errorf("%s: got no error with a failing writer, want one", name)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestBelow(t *testing.T) {
	part, err := newSmallGraph(t).ReachableFrom("4.1.1")
	if err != nil {
		t.Fatal(err)
	}

	data, err := part.Encode()
	if err != nil {
		t.Fatal(err)
	}

	again, err := cincinnati.Parse(data)
	if err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	if err := again.WriteMermaid(&out); err != nil {
		t.Fatal(err)
	}

	golden.Check(t, "below.mmd", out.Bytes())
	var missing *cincinnati.NotFoundError
	if _, err := newSmallGraph(t).ReachableFrom("9.9.9"); !errors.As(err, &missing) {
		t.Errorf("got error %v, want a *NotFoundError", err)
	}
}
