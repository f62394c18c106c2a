package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const graphed = `{"defaultChannel":"stable","name":"p","schema":"olm.package"}
{"entries":[{"name":"p.v1.0.0"},{"name":"p.v1.1.0","replaces":"p.v1.0.0"},{"name":"p.v2.0.0","replaces":"p.v1.1.0","skipRange":"<2.0.0","skips":["p.v1.0.1"]}],"name":"stable","package":"p","schema":"olm.channel"}
{"entries":[{"name":"p.v2.0.0","replaces":"p.v1.1.0"},{"name":"p.v3.0.0-rc1","skipRange":"not a range"}],"name":"fast","package":"p","schema":"olm.channel"}
{"image":"i","name":"p.v1.0.0","package":"p","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}},{"type":"olm.csv.metadata","value":{}}],"schema":"olm.bundle"}
{"image":"i","name":"p.v1.1.0","package":"p","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.1.0"}}],"schema":"olm.bundle"}
{"image":"i","name":"p.v2.0.0","package":"p","properties":[{"type":"olm.package","value":{"packageName":"p","version":"2.0.0"}}],"schema":"olm.bundle"}
{"image":"i","name":"p.v3.0.0-rc1","package":"p","properties":[{"type":"olm.package","value":{"packageName":"p","version":"not a version"}}],"schema":"olm.bundle"}
{"entries":[{"message":"go away","reference":{"schema":"olm.package"}},{"message":"use stable","reference":{"name":"fast","schema":"olm.channel"}},{"message":"has a bug","reference":{"name":"p.v1.0.0","schema":"olm.bundle"}}],"package":"p","schema":"olm.deprecations"}
{"name":"empty","schema":"olm.package"}
{"entries":"none","name":"c","package":"wrong","schema":"olm.channel"}
`

func TestGraph(t *testing.T) {
	s := newFixture(t)
	s.put(t, "g", graphed)
	for name, test := range map[string]struct{ query, accept, kind, file string }{
		"all":                   {"package=p", "", "application/json", "graph.json"},
		"json":                  {"package=p&format=json", "text/vnd.mermaid", "application/json", "graph.json"},
		"any":                   {"package=p", "*/*", "application/json", "graph.json"},
		"json rather":           {"package=p", "text/vnd.mermaid;q=0.5, application/json", "application/json", "graph.json"},
		"a channel":             {"package=p&channel=fast", "", "application/json", "graph-fast.json"},
		"mermaid":               {"package=p&format=mermaid", "", "text/vnd.mermaid", ""},
		"mermaid accepted":      {"package=p", "text/vnd.mermaid, */*;q=0.1", "text/vnd.mermaid", ""},
		"a channel in mermaid":  {"package=p&channel=fast&format=mermaid", "", "text/vnd.mermaid", ""},
		"a package of no use":   {"package=empty", "", "application/json", "graph-empty.json"},
		"empty parameters, too": {"package=p&channel=&format=", "", "application/json", "graph.json"},
	} {
		t.Run(name, func(t *testing.T) {
			path := "/catalogs/g/api/v1/graph?" + test.query
			resp := s.sendRequest(t, "GET", path, "Accept: "+test.accept)
			text := responseBody(t, resp)
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != test.kind {
				t.Fatalf("got status %d with %v: %s, want 200 of type %s", resp.StatusCode, resp.Header, text, test.kind)
			}
			if diff := cmp.Diff([]string{"Accept", "Accept-Encoding"}, resp.Header.Values("Vary")); diff != "" {
				t.Errorf("Vary (-want +got):\n%s", diff)
			}

			again := s.sendRequest(t, "GET", path, "Accept: "+test.accept, "If-None-Match: "+resp.Header.Get("ETag"))
			if again.StatusCode != http.StatusNotModified {
				t.Errorf("a conditional request: got status %d, want 304", again.StatusCode)
			}
			if test.file == "" {
				checkMermaid(t, text, strings.Contains(test.query, "channel="))
				return
			}

			var indented bytes.Buffer
			if err := json.Indent(&indented, []byte(text), "", "  "); err != nil {
				t.Fatal(err)
			}

			golden.Check(t, test.file, indented.Bytes())
		})
	}
}

// checkMermaid checks that a drawing contains the required elements, but not its layout.
func checkMermaid(t *testing.T, text string, fastOnly bool) {
	t.Helper()
	if !strings.HasPrefix(text, "graph ") {
		t.Errorf("got %s, want a Mermaid graph", text)
	}

	for part, want := range map[string]bool{"p.v2.0.0": true, "p.v3.0.0-rc1": true, "p.v1.0.1": !fastOnly, "stable": !fastOnly} {
		if strings.Contains(text, part) != want {
			t.Errorf("got the graph\n%s\nwant it to contain %s: %v", text, part, want)
		}
	}
}

func TestGraphRefuses(t *testing.T) {
	s := newFixture(t)
	var wide strings.Builder
	wide.WriteString(`{"entries":[`)
	for i := range 400 {
		fmt.Fprintf(&wide, `{"name":"w.v%d","skipRange":"<1000.0.0"},`, i)
	}

	wide.WriteString(`{"name":"last"}],"name":"c","package":"w","schema":"olm.channel"}` + "\n")
	for i := range 400 {
		fmt.Fprintf(&wide, `{"name":"w.v%d","package":"w","properties":[{"type":"olm.package","value":{"version":"%d.0.0"}}],"schema":"olm.bundle"}`+"\n", i, i)
	}

	many := `{"entries":[` + strings.Repeat(`{"name":"m"},`, 20_000) + `{"name":"m"}],"name":"c","package":"m","schema":"olm.channel"}` + "\n"
	var pairs strings.Builder
	pairs.WriteString(`{"entries":[`)
	for i := range 2500 {
		fmt.Fprintf(&pairs, `{"name":"x.v%d","skipRange":"<0.0.1"},`, i)
	}

	pairs.WriteString(`{"name":"last"}],"name":"c","package":"x","schema":"olm.channel"}` + "\n")
	s.put(t, "g", graphed+wide.String()+many+pairs.String())
	for name, test := range map[string]struct {
		path string
		code int
		want string
	}{
		"no package":        {"g/api/v1/graph", 400, "the parameter package is missing: request graph?package=<name>\n"},
		"unknown parameter": {"g/api/v1/graph?package=p&x=y", 400, "unknown parameter \"x\": the parameters are package, channel and format\n"},
		"unknown format":    {"g/api/v1/graph?package=p&format=svg", 400, "unknown format \"svg\": the formats are json and mermaid\n"},
		"unknown package":   {"g/api/v1/graph?package=q", 404, "catalog \"g\" has no package \"q\"\n"},
		"unknown channel":   {"g/api/v1/graph?package=p&channel=slow", 404, "package \"p\" has no channel \"slow\"\n"},
		"unknown catalog":   {"x/api/v1/graph?package=p", 404, "catalog \"x\" is not served here: see the conditions of the ClusterCatalog of that name\n"},
		"wrong content":     {"g/api/v1/graph?package=wrong", 422, "package \"wrong\" has no graph: blob of schema olm.channel, package \"wrong\", name \"c\" does not fit its schema"},
		"many updates":      {"g/api/v1/graph?package=w", 422, "the graph of package \"w\" has more than 50000 updates: ask for one channel of it\n"},
		"many entries":      {"g/api/v1/graph?package=m&format=mermaid", 422, "the graph of package \"m\" has more than 20000 entries: ask for one channel of it\n"},
		"many pairs":        {"g/api/v1/graph?package=x", 422, "the graph of package \"x\" has more than 4000000 pairs of a version and a range: ask for one channel of it\n"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := s.sendRequest(t, "GET", "/catalogs/"+test.path)
			if text := responseBody(t, resp); resp.StatusCode != test.code || !strings.HasPrefix(text, test.want) {
				t.Errorf("status is %d with %q, want %d with %q", resp.StatusCode, text, test.code, test.want)
			}
			if resp.Header.Get("ETag") != "" || resp.Header.Get("Last-Modified") != "" {
				t.Errorf("got headers %v of an error, want no ETag and Last-Modified", resp.Header)
			}
		})
	}
}

func TestFields(t *testing.T) {
	s := newFixture(t)
	s.put(t, "g", graphed)
	for name, test := range map[string]struct {
		query string
		code  int
		want  string
	}{
		"wanted":       {"schema=olm.bundle&name=p.v1.0.0&fields=image,properties[olm.csv.metadata]", 200, `{"image":"i","name":"p.v1.0.0","package":"p","properties":[{"type":"olm.csv.metadata","value":{}}],"schema":"olm.bundle"}` + "\n"},
		"unwanted":     {"schema=olm.bundle&name=p.v1.0.0&fields=-image,-properties[olm.csv.metadata]", 200, `{"name":"p.v1.0.0","package":"p","properties":[{"type":"olm.package","value":{"packageName":"p","version":"1.0.0"}}],"schema":"olm.bundle"}` + "\n"},
		"of all":       {"schema=olm.package&fields=name", 200, `{"name":"p","schema":"olm.package"}` + "\n" + `{"name":"empty","schema":"olm.package"}` + "\n"},
		"none matches": {"package=x&fields=name", 200, ""},
		"empty":        {"schema=olm.package&name=p&fields=", 200, `{"defaultChannel":"stable","name":"p","schema":"olm.package"}` + "\n"},
		"wrong":        {"fields=a,-b", 400, "fields has items with and without \"-\": name either what is wanted or what is not\n"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := s.sendRequest(t, "GET", "/catalogs/g/api/v1/metas?"+test.query)
			if diff := cmp.Diff(test.want, responseBody(t, resp)); diff != "" || resp.StatusCode != test.code {
				t.Errorf("status is %d, body (-want +got):\n%s", resp.StatusCode, diff)
			}
		})
	}

	tag := func(fields string) string {
		return s.sendRequest(t, "HEAD", "/catalogs/g/api/v1/metas?package=p&fields="+fields).Header.Get("ETag")
	}
	if tag("image,entries") != tag("entries,image,image") || tag("image") == tag("entries") || tag("image") == tag("") {
		t.Error("want equal tags for equal selections of fields, and different tags for different ones")
	}
}
