package cincinnati

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/blang/semver/v4"
	kjson "sigs.k8s.io/json"
)

// Limits on what is read. The largest public channel has about 800 releases, 20,000 edges
// and 2 MiB; each limit leaves more than ten times that.
const (
	// MaxBytes bounds a graph, in bytes.
	MaxBytes = 32 << 20

	// MaxRisks is how many known issues an update may have: what a ClusterVersion's status
	// takes.
	MaxRisks = 200
	// MaxRules is how many rules a known issue may have.
	MaxRules = 64

	maxNodes       = 20_000
	maxEdges       = 500_000 // plain ones, and conditional ones
	maxEntries     = 50_000  // of conditionalEdges
	maxVersionText = 256     // bytes of a version
	maxQuoted      = 100     // bytes of a graph that an error repeats
)

// Error says what is wrong with a graph.
type Error struct {
	// Where it is wrong, such as nodes[3].version. Empty: all of it.
	Where string
	// Err is what is wrong.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Where == "" {
		return "the update graph " + e.Err.Error()
	}
	return "the update graph: " + e.Where + ": " + e.Err.Error()
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

func wrong(where, format string, args ...any) *Error {
	return &Error{Where: where, Err: fmt.Errorf(format, args...)}
}

// Parse reads a graph and checks it. Its error is an *Error about the first thing that is
// wrong:
//
//   - more bytes, nodes, edges or risks than it may have;
//   - no JSON, NaN and infinite numbers among it, or values of the wrong type;
//   - an edge that is not two integers, leads out of the nodes, or to itself;
//   - a version that is no semantic version, or that two nodes have;
//   - edges that lead in a circle: updates lead from older releases to newer ones.
//
// Conditional edges may name versions that no node has: only those that leave the cluster's
// own version count, and [Graph.Updates] refuses them. Their rules may have types that are
// not known yet.
func Parse(data []byte) (*Graph, error) {
	if len(data) > MaxBytes {
		return nil, wrong("", "has more than the %d bytes that it may have", MaxBytes)
	}

	g := &Graph{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, g); err != nil {
		return nil, readable(err)
	}
	if err := g.Check(); err != nil {
		return nil, err
	}

	return g, nil
}

// readable says where a value of the wrong type stands, without names of Go's types.
func readable(err error) *Error {
	var wrongType *json.UnmarshalTypeError
	var edges *Error
	switch {
	case errors.As(err, &edges):
		return edges
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return wrong("", "is a JSON %s, not a JSON object", abbreviate(wrongType.Value))
	case errors.As(err, &wrongType):
		return wrong(wrongType.Field, "must not be a JSON %s", abbreviate(wrongType.Value))
	}

	return wrong("", "cannot be read as JSON: %w", err)
}

// Check does to a graph that this program made what Parse does to one that it read: it says
// what is wrong, as an *Error, and makes the graph ready for the other methods.
func (g *Graph) Check() error {
	conditional := 0
	for _, entry := range g.ConditionalEdges {
		conditional += len(entry.Edges)
	}

	for _, bound := range []struct {
		where     string
		has, most int
	}{
		{"nodes", len(g.Nodes), maxNodes},
		{"edges", len(g.Edges), maxEdges},
		{"conditionalEdges", len(g.ConditionalEdges), maxEntries},
		{"conditionalEdges[].edges", conditional, maxEdges},
	} {
		if bound.has > bound.most {
			return wrong(bound.where, "has %d entries, more than the %d that it may have", bound.has, bound.most)
		}
	}

	if g.Version < 0 || g.Version > Version {
		return wrong("version", "%d is none that this program knows; it knows %d", g.Version, Version)
	}
	if err := g.checkNodes(); err != nil {
		return err
	}
	if err := g.checkConditional(); err != nil {
		return err
	}

	for i, edge := range g.Edges {
		for _, end := range [...]int{edge.From, edge.To} {
			if end < 0 || end >= len(g.Nodes) {
				return wrong(fmt.Sprintf("edges[%d]", i), "there is no node %d: there are %d, from 0 on", end, len(g.Nodes))
			}
		}
		if edge.From == edge.To {
			return wrong(fmt.Sprintf("edges[%d]", i), "leads from %s to itself", g.Nodes[edge.From].Version)
		}
	}

	return g.checkCircles()
}

func (g *Graph) checkNodes() error {
	g.versions = make([]semver.Version, len(g.Nodes))
	seen := make(map[string]int, len(g.Nodes))
	for i, node := range g.Nodes {
		version, err := parseVersion(node.Version)
		if err != nil {
			return wrong(fmt.Sprintf("nodes[%d].version", i), "%w", err)
		}
		if before, ok := seen[node.Version]; ok {
			return wrong(fmt.Sprintf("nodes[%d].version", i), "%s is that of nodes[%d], too", node.Version, before)
		}

		seen[node.Version] = i
		g.versions[i] = version
	}

	return nil
}

// parseVersion reads a semantic version of a bounded length.
func parseVersion(text string) (semver.Version, error) {
	if len(text) > maxVersionText {
		return semver.Version{}, fmt.Errorf("%q is longer than the %d bytes that a version may have", abbreviate(text), maxVersionText)
	}

	version, err := semver.Parse(text)
	if err != nil {
		return semver.Version{}, fmt.Errorf("%q is no semantic version: %w", abbreviate(text), err)
	}
	return version, nil
}

func (g *Graph) checkConditional() error {
	for i, entry := range g.ConditionalEdges {
		if len(entry.Risks) > MaxRisks {
			return wrong(fmt.Sprintf("conditionalEdges[%d].risks", i), "has %d entries, more than the %d that it may have", len(entry.Risks), MaxRisks)
		}
		for j, risk := range entry.Risks {
			if len(risk.MatchingRules) > MaxRules {
				return wrong(fmt.Sprintf("conditionalEdges[%d].risks[%d].matchingRules", i, j), "has %d entries, more than the %d that it may have", len(risk.MatchingRules), MaxRules)
			}
		}
	}

	return nil
}

// checkCircles takes away nodes to which no edge leads, until none is left.
func (g *Graph) checkCircles() error {
	arriving := make([]int, len(g.Nodes))
	first := make([]int, len(g.Nodes)+1) // where the edges of a node begin in next
	for _, edge := range g.Edges {
		arriving[edge.To]++
		first[edge.From+1]++
	}

	for i := range g.Nodes {
		first[i+1] += first[i]
	}

	next, place := make([]int, len(g.Edges)), append([]int(nil), first...)
	for _, edge := range g.Edges {
		next[place[edge.From]] = edge.To
		place[edge.From]++
	}

	queue := make([]int, 0, len(g.Nodes))
	for i, count := range arriving {
		if count == 0 {
			queue = append(queue, i)
		}
	}

	for at := 0; at < len(queue); at++ {
		for _, to := range next[first[queue[at]]:first[queue[at]+1]] {
			if arriving[to]--; arriving[to] == 0 {
				queue = append(queue, to)
			}
		}
	}

	if len(queue) == len(g.Nodes) {
		return nil
	}

	return wrong("edges", "lead in a circle: %s", strings.Join(g.circle(arriving), " → "))
}

// circle returns the versions of one circle among the nodes that are left: each of them has
// an edge from another one of them.
func (g *Graph) circle(left []int) []string {
	before := make([]int, len(g.Nodes))
	at := -1
	for _, edge := range g.Edges {
		if left[edge.From] > 0 && left[edge.To] > 0 {
			before[edge.To] = edge.From
			at = edge.To
		}
	}

	seen := map[int]bool{}
	for !seen[at] {
		seen[at] = true
		at = before[at]
	}

	const most = 10
	circle := []string{g.Nodes[at].Version}
	for here := before[at]; ; here = before[here] {
		if len(circle) == most {
			return append([]string{"…"}, circle...)
		}
		circle = append([]string{g.Nodes[here].Version}, circle...)
		if here == at {
			return circle
		}
	}
}

// UnmarshalJSON reads pairs of integers. It is written by hand because Go's arrays take
// what is too short or too long, and because a large graph consists of little else.
func (e *Edges) UnmarshalJSON(data []byte) error {
	s := &scanner{data: data}
	if string(data) == "null" {
		*e = nil
		return nil
	}
	if !s.take('[') {
		return wrong("edges", "must be a list of pairs of integers")
	}

	edges := make(Edges, 0, len(data)/12) // "[1234,4321],"
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') {
			return wrong("edges", "must be a list of pairs of integers")
		}
		from, to, ok := s.pair()
		if !ok {
			return wrong(fmt.Sprintf("edges[%d]", len(edges)), "must be two integers, the indices of nodes")
		}
		if edges = append(edges, Edge{from, to}); len(edges) > maxEdges {
			return wrong("edges", "has more than the %d entries that it may have", maxEdges)
		}
	}

	*e = edges
	return nil
}

// scanner reads valid JSON.
type scanner struct {
	data []byte
	at   int
}

// take steps over blanks and a byte.
func (s *scanner) take(b byte) bool {
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) >= 0 {
		s.at++
	}

	if s.at < len(s.data) && s.data[s.at] == b {
		s.at++
		return true
	}
	return false
}

func (s *scanner) pair() (from, to int, ok bool) {
	if !s.take('[') {
		return 0, 0, false
	}

	from, ok = s.integer()
	if !ok || !s.take(',') {
		return 0, 0, false
	}

	to, ok = s.integer()
	return from, to, ok && s.take(']')
}

// integer reads an integer. What is out of all range becomes -1, which no node has.
func (s *scanner) integer() (int, bool) {
	negative := s.take('-')
	s.take(0) // blanks
	value, digits := 0, 0
	for ; s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9'; s.at++ {
		if value = value*10 + int(s.data[s.at]-'0'); value > maxNodes {
			value = maxNodes + 1
		}
		digits++
	}

	if s.at < len(s.data) && strings.IndexByte(".eE", s.data[s.at]) >= 0 {
		return 0, false
	}
	if negative {
		value = -value
	}

	return value, digits > 0
}

// MarshalJSON writes pairs of integers. No edges are an empty list.
func (e Edges) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+12*len(e))
	out = append(out, '[')
	for i, edge := range e {
		if i > 0 {
			out = append(out, ',')
		}

		out = append(out, '[')
		out = strconv.AppendInt(out, int64(edge.From), 10)
		out = append(out, ',')
		out = strconv.AppendInt(out, int64(edge.To), 10)
		out = append(out, ']')
	}

	return append(out, ']'), nil
}

// Encode writes the graph as JSON: equal graphs give equal bytes, and lists that are empty
// are written as such.
func (g *Graph) Encode() ([]byte, error) {
	out := *g
	if out.Nodes == nil {
		out.Nodes = []Node{}
	}
	if out.ConditionalEdges == nil {
		out.ConditionalEdges = []ConditionalEdges{}
	}

	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // It is no HTML, and queries are full of ">".
	if err := encoder.Encode(&out); err != nil {
		return nil, fmt.Errorf("write the update graph: %w", err)
	}

	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// abbreviate keeps a text of a graph from filling a message, and in one line.
func abbreviate(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
}
