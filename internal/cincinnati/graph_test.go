package cincinnati_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/cincinnati"
)

// newGraphJSON returns a graph of versions 4.1.0, 4.1.1 and so on, with the given edges and
// conditional edges.
func newGraphJSON(count int, edges, conditional string) []byte {
	var nodes []string
	for i := range count {
		nodes = append(nodes, fmt.Sprintf(`{"version":"4.1.%d","payload":"registry.example.com/release@sha256:%064d"}`, i, i))
	}
	return []byte(`{"version":1,"nodes":[` + strings.Join(nodes, ",") + `],"edges":` + edges + `,"conditionalEdges":` + conditional + `}`)
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no JSON":               {[]byte(`<html>`), "the update graph cannot be read as JSON: invalid character '<' looking for beginning of value"},
		"nothing":               {nil, "the update graph cannot be read as JSON: unexpected end of JSON input"},
		"NaN":                   {newGraphJSON(2, `[[0,NaN]]`, `[]`), "the update graph cannot be read as JSON: invalid character 'N' looking for beginning of value"},
		"a list":                {[]byte(`[]`), "the update graph is a JSON array, not a JSON object"},
		"megabytes":             {make([]byte, cincinnati.MaxBytes+1), "the update graph has more than the 33554432 bytes that it may have"},
		"too deep":              {[]byte(`{"nodes":` + deep), "the update graph cannot be read as JSON: invalid character '[' exceeded max depth"},
		"nodes of another type": {[]byte(`{"nodes":{"a":1}}`), "the update graph: nodes: must not be a JSON object"},
		"a number as version":   {[]byte(`{"nodes":[{"version":4.1}]}`), "the update graph: nodes.version: must not be a JSON number"},
		"a later protocol":      {[]byte(`{"version":2,"nodes":[],"edges":[]}`), "the update graph: version: 2 is not supported; the supported version is 1"},
		"no semantic version":   {[]byte(`{"nodes":[{"version":"4.1"}]}`), `the update graph: nodes[0].version: "4.1" is not a semantic version: No Major.Minor.Patch elements found`},
		"a long version":        {[]byte(`{"nodes":[{"version":"4.1.0-` + strings.Repeat("a", 300) + `"}]}`), `the update graph: nodes[0].version: "4.1.0-` + strings.Repeat("a", 91) + `…" is longer than the 256 bytes that a version may have`},
		"a version twice":       {[]byte(`{"nodes":[{"version":"4.1.0"},{"version":"4.1.1"},{"version":"4.1.0"}]}`), "the update graph: nodes[2].version: 4.1.0 is that of nodes[0], too"},
		"an edge of one":        {newGraphJSON(2, `[[0,1],[0]]`, `[]`), "the update graph: edges[1]: must be two integers, the indices of nodes"},
		"an edge of three":      {newGraphJSON(2, `[[0,1,1]]`, `[]`), "the update graph: edges[0]: must be two integers, the indices of nodes"},
		"an edge of fractions":  {newGraphJSON(2, `[[0,1.5]]`, `[]`), "the update graph: edges[0]: must be two integers, the indices of nodes"},
		"an edge of exponents":  {newGraphJSON(2, `[[0,1e999]]`, `[]`), "the update graph: edges[0]: must be two integers, the indices of nodes"},
		"an edge of texts":      {newGraphJSON(2, `[["0","1"]]`, `[]`), "the update graph: edges[0]: must be two integers, the indices of nodes"},
		"edges of another type": {newGraphJSON(2, `"many"`, `[]`), "the update graph: edges: must be a list of pairs of integers"},
		"an edge out of range":  {newGraphJSON(2, `[[0,2]]`, `[]`), "the update graph: edges[0]: there is no node 2: there are 2, from 0 on"},
		"a negative edge":       {newGraphJSON(2, `[[-1,0]]`, `[]`), "the update graph: edges[0]: there is no node -1: there are 2, from 0 on"},
		"an edge beyond range":  {newGraphJSON(2, `[[0,99999999999999999999999]]`, `[]`), "the update graph: edges[0]: there is no node 20001: there are 2, from 0 on"},
		"an edge to itself":     {newGraphJSON(2, `[[1,1]]`, `[]`), "the update graph: edges[0]: leads from 4.1.1 to itself"},
		"a circle":              {newGraphJSON(5, `[[0,1],[1,2],[2,3],[3,1],[3,4]]`, `[]`), "the update graph: edges: lead in a circle: 4.1.3 → 4.1.1 → 4.1.2 → 4.1.3"},
		"a long circle": {
			newGraphJSON(12, `[[0,1],[1,2],[2,3],[3,4],[4,5],[5,6],[6,7],[7,8],[8,9],[9,10],[10,11],[11,0]]`, `[]`),
			"the update graph: edges: lead in a circle: … → 4.1.3 → 4.1.4 → 4.1.5 → 4.1.6 → 4.1.7 → 4.1.8 → 4.1.9 → 4.1.10 → 4.1.11 → 4.1.0",
		},
		"conditional edges of another type": {newGraphJSON(1, `[]`, `{"edges":[]}`), "the update graph: conditionalEdges: must not be a JSON object"},
		"too many risks": {
			newGraphJSON(1, `[]`, `[{"edges":[],"risks":[`+strings.TrimSuffix(strings.Repeat(`{},`, 201), ",")+`]}]`),
			"the update graph: conditionalEdges[0].risks: has 201 entries, more than the 200 that it may have",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cincinnati.Parse(c.data)
			var graphError *cincinnati.Error
			if !errors.As(err, &graphError) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Empty lists, unknown fields and whitespace are accepted.
func TestParseAccepts(t *testing.T) {
	for name, data := range map[string]string{
		"an empty object":    `{}`,
		"null for lists":     `{"nodes":null,"edges":null,"conditionalEdges":null}`,
		"unknown fields":     `{"nodes":[],"edges":[],"more":{"a":[1]}}`,
		"blanks":             " {\n\t\"nodes\" : [ {\"version\":\"1.0.0\"},{\"version\":\"2.0.0\"} ] , \"edges\" : [ [ 0 , 1 ] , [\n0,1] ] }\n",
		"unknown conditions": string(newGraphJSON(1, `[]`, `[{"edges":[{"from":"9.9.9","to":"9.9.10"}],"risks":[{"matchingRules":[{"type":"Oracle"}]}]}]`)),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := cincinnati.Parse([]byte(data)); err != nil {
				t.Error(err)
			}
		})
	}
}

func riskJSON(name string, rules ...string) string {
	return fmt.Sprintf(`{"url":"https://example.com/%[1]s","name":"%[1]s","message":"%[1]s happens.","matchingRules":[%[2]s]}`, name, strings.Join(rules, ","))
}

func conditionalJSON(to string, risks ...string) string {
	return `{"edges":[{"from":"4.1.0","to":"` + to + `"}],"risks":[` + strings.Join(risks, ",") + `]}`
}

const (
	always  = `{"type":"Always"}`
	promql  = `{"type":"PromQL","promql":{"promql":"vector(1)"}}`
	unknown = `{"type":"Oracle"}`
)

func TestUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		edges, conditional  string
		available, withRisk []string
		notes               []string
	}{
		"direct successors, highest first, none twice": {
			edges: `[[0,1],[0,3],[0,2],[0,1],[2,4],[3,4]]`, conditional: `[]`,
			available: []string{"4.1.3", "4.1.2", "4.1.1"},
		},
		"conditional, highest first": {
			edges: `[[0,1]]`, conditional: `[` + conditionalJSON("4.1.2", riskJSON("A", always)) + `,` + conditionalJSON("4.1.3", riskJSON("B", promql)) + `]`,
			available: []string{"4.1.1"}, withRisk: []string{"4.1.3 B:1", "4.1.2 A:1"},
		},
		"both ways": {
			edges: `[[0,1],[0,2]]`, conditional: `[` + conditionalJSON("4.1.2", riskJSON("A", always)) + `]`,
			available: []string{"4.1.1"}, withRisk: []string{"4.1.2 A:1"},
			notes: []string{"4.1.2 is offered both with and without known issues: it is treated as one with them"},
		},
		"two entries to one image": {
			edges: `[[0,2]]`, conditional: `[` + conditionalJSON("4.1.2", riskJSON("A", always)) + `,` + conditionalJSON("4.1.2", riskJSON("B", always)) + `,` + conditionalJSON("4.1.2", riskJSON("C", always)) + `]`,
			notes: []string{
				"4.1.2 is left out: several entries of conditionalEdges lead to it",
				"4.1.2 is offered both with and without known issues: it is treated as one with them",
			},
		},
		"a rule of unknown type next to a known one": {
			edges: `[]`, conditional: `[` + conditionalJSON("4.1.2", riskJSON("A", unknown, promql)) + `]`,
			withRisk: []string{"4.1.2 A:1"},
		},
		"only a rule of unknown type is never recommended": {
			edges: `[[0,2]]`, conditional: `[` + conditionalJSON("4.1.2", riskJSON("A", always), riskJSON("B", unknown)) + `]`,
			notes: []string{
				`4.1.2 is left out: its risk "B" has no matching rule that this program knows`,
				"4.1.2 is offered both with and without known issues: it is treated as one with them",
			},
		},
		"Always with a query, and an empty query": {
			edges:       `[]`,
			conditional: `[` + conditionalJSON("4.1.2", riskJSON("A", `{"type":"Always","promql":{"promql":"vector(1)"}}`, `{"type":"PromQL","promql":{"promql":" "}}`, `{"type":"PromQL"}`)) + `]`,
			notes:       []string{`4.1.2 is left out: its risk "A" has no matching rule that this program knows`},
		},
		"incomplete risks": {
			edges: `[]`,
			conditional: `[` + conditionalJSON("4.1.1") + `,` + conditionalJSON("4.1.2", `{"name":"A","url":"https://example.com","matchingRules":[]}`) + `,` +
				conditionalJSON("4.1.3", riskJSON("A", always), riskJSON("A", promql)) + `,` +
				conditionalJSON("4.1.4", strings.Replace(riskJSON("A", always), "https://example.com/", "see ", 1)) + `]`,
			notes: []string{
				"4.1.1 is left out: it is conditional and names no risk",
				`4.1.2 is left out: risk 1 ("A") lacks a name, a message or a URL`,
				`4.1.3 is left out: two risks have the name "A"`,
				`4.1.4 is left out: the URL "see A" of its risk "A" is invalid`,
			},
		},
		"edges of others, even to nowhere": {
			edges: `[[1,2]]`, conditional: `[{"edges":[{"from":"4.1.1","to":"9.9.9"}],"risks":[` + riskJSON("A", always) + `]}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := cincinnati.Parse(newGraphJSON(5, c.edges, c.conditional))
			if err != nil {
				t.Fatal(err)
			}
			u, err := g.Updates(semver.MustParse("4.1.0"))
			if err != nil {
				t.Fatal(err)
			}
			var available, withRisk []string
			for _, node := range u.Available {
				available = append(available, node.Version)
			}
			for _, update := range u.Conditional {
				texts := []string{update.Version}
				for _, risk := range update.Risks {
					texts = append(texts, fmt.Sprintf("%s:%d", risk.Name, len(risk.MatchingRules)))
				}
				withRisk = append(withRisk, strings.Join(texts, " "))
			}
			got := [][]string{available, withRisk, u.Notes}
			if diff := cmp.Diff([][]string{c.available, c.withRisk, c.notes}, got); diff != "" {
				t.Errorf("available, conditional, notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdatesFails(t *testing.T) {
	g, err := cincinnati.Parse(newGraphJSON(2, `[]`, `[`+conditionalJSON("9.9.9", riskJSON("A", always))+`]`))
	if err != nil {
		t.Fatal(err)
	}

	_, err = g.Updates(semver.MustParse("4.1.0"))
	var graphError *cincinnati.Error
	if !errors.As(err, &graphError) || !strings.HasSuffix(err.Error(), "no node for conditional update 9.9.9") {
		t.Errorf("a conditional edge to a missing node: got error %v, want that there is no node for 9.9.9", err)
	}

	_, err = g.Updates(semver.MustParse("4.2.0"))
	var missing *cincinnati.NotFoundError
	if !errors.As(err, &missing) || missing.Version != "4.2.0" {
		t.Errorf("a version that does not exist: got error %v, want a *NotFoundError", err)
	}
	if _, err := g.Updates(semver.MustParse("4.1.1+build")); err != nil {
		t.Errorf("a version with other build metadata: got error %v, want none", err)
	}
}

func TestNode(t *testing.T) {
	g, err := cincinnati.Parse([]byte(`{"nodes":[
		{"version":"4.1.0","payload":"a@sha256:1","metadata":{"url":"https://example.com","release.openshift.io/architecture":"multi","io.openshift.upgrades.graph.release.channels":"stable-4.1, fast-4.1,,fast-4.1"}},
		{"version":"4.1.1","payload":"a@sha256:2"}],"edges":[[0,1]]}`))
	if err != nil {
		t.Fatal(err)
	}

	node, ok := g.Multi(semver.MustParse("4.1.0"))
	if !ok || node.URL() != "https://example.com" {
		t.Errorf("got node %v, found %v; want the multi-architecture release 4.1.0", node, ok)
	}
	if diff := cmp.Diff([]string{"fast-4.1", "stable-4.1"}, node.Channels()); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
	if _, ok := g.Multi(semver.MustParse("4.1.1")); ok {
		t.Error("got a multi-architecture release 4.1.1, want none")
	}
}

func TestEncode(t *testing.T) {
	for name, text := range map[string]string{
		"empty": `{"nodes":[],"edges":[],"conditionalEdges":[]}`,
		"full": `{"version":1,"nodes":[{"version":"1.0.0","payload":"a","metadata":{"url":"u"}},{"version":"1.0.1","payload":"b"}],"edges":[[0,1]],` +
			`"conditionalEdges":[{"edges":[{"from":"1.0.0","to":"1.0.1"}],"risks":[{"url":"u","name":"N","message":"m","matchingRules":[{"type":"PromQL","promql":{"promql":"up"}}]}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := cincinnati.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}

			data, err := g.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(text, string(data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// newLargeGraph returns a graph of 5,000 releases and 60,000 edges, every twelfth of them
// conditional.
func newLargeGraph(t testing.TB) []byte {
	t.Helper()
	const releases, each = 5000, 12
	g := &cincinnati.Graph{Version: cincinnati.Version}
	version := func(i int) string { return fmt.Sprintf("4.%d.%d", i/100, i%100) }
	for i := range releases {
		g.Nodes = append(g.Nodes, cincinnati.Node{
			Version: version(i), Payload: fmt.Sprintf("registry.example.com/platform/release@sha256:%064x", i),
			Metadata: map[string]string{
				cincinnati.MetadataURL:                            fmt.Sprintf("https://example.com/errata/RHBA-%d", i),
				cincinnati.MetadataChannels:                       fmt.Sprintf("candidate-4.%[1]d,eus-4.%[1]d,fast-4.%[1]d,stable-4.%[1]d", i/100),
				"io.openshift.upgrades.graph.release.manifestref": fmt.Sprintf("sha256:%064x", i),
			},
		})
		for j := i + 1; j <= i+each-1 && j < releases; j++ {
			g.Edges = append(g.Edges, cincinnati.Edge{From: i, To: j})
		}
		if to := i + each; to < releases {
			g.ConditionalEdges = append(g.ConditionalEdges, cincinnati.ConditionalEdges{
				Edges: []cincinnati.VersionEdge{{From: version(i), To: version(to)}},
				Risks: []cincinnati.Risk{{
					URL: "https://example.com/issue", Name: "SomeIssue", Message: "On some clusters something may happen.",
					MatchingRules: []cincinnati.Rule{{Type: cincinnati.RulePromQL, PromQL: &cincinnati.PromQL{PromQL: "cluster_infrastructure_provider{type=~\"AWS\"} or 0 * cluster_infrastructure_provider"}}},
				}},
			})
		}
	}

	data, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}

	return data
}

func BenchmarkParseAndEvaluate(b *testing.B) {
	data := newLargeGraph(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		g, err := cincinnati.Parse(data)
		if err != nil {
			b.Fatal(err)
		}
		u, err := g.Updates(semver.MustParse("4.10.10"))
		if err != nil || len(u.Available) != 11 || len(u.Conditional) != 1 {
			b.Fatal(u, err)
		}
	}
}

// Parsing a large graph allocates less memory than its limit, garbage included.
func TestLargeGraphMemory(t *testing.T) {
	data := newLargeGraph(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := cincinnati.Parse(data); err != nil {
		t.Fatal(err)
	}

	runtime.ReadMemStats(&after)
	const most = 60 << 20
	if used := after.TotalAlloc - before.TotalAlloc; used > most {
		t.Errorf("parsing %d bytes: got %d allocated bytes, want at most %d", len(data), used, most)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add(newGraphJSON(3, `[[0,1],[1,2]]`, `[`+conditionalJSON("4.1.2", riskJSON("A", always, promql, unknown))+`]`))
	f.Add(newGraphJSON(3, `[[0,1],[1,0]]`, `[]`))
	f.Add([]byte(`{"nodes":[{"version":"1.0.0+a"},{"version":"1.0.0+b"}],"edges":[[0,1]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			t.Skip("the input exceeds the size that this test covers")
		}

		g, err := cincinnati.Parse(data)
		if err != nil {
			return
		}

		encoded, err := g.Encode()
		if err != nil {
			t.Fatalf("encoding the parsed graph: %v", err)
		}

		again, err := cincinnati.Parse(encoded)
		if err != nil {
			t.Fatalf("parsing the encoded graph: %v\n%s", err, encoded)
		}

		twice, err := again.Encode()
		if err != nil || string(twice) != string(encoded) {
			t.Fatalf("encoding the graph again (error %v): got\n%[3]s\nwant\n%[2]s", err, encoded, twice)
		}

		for i, node := range g.Nodes {
			version, err := semver.Parse(node.Version)
			if err != nil {
				t.Fatal(err)
			}
			if i > 20 {
				break
			}

			u, err := g.Updates(version)
			if err != nil {
				continue
			}

			for _, available := range u.Available {
				for _, update := range u.Conditional {
					if available.Payload == update.Payload {
						t.Fatalf("got %s as both available and conditional, want one", available.Version)
					}
				}
			}
		}
	})
}
