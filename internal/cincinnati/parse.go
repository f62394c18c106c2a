package cincinnati

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	kjson "sigs.k8s.io/json"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// Limits of graphs. The largest public channel has about 800 releases, 20,000 edges and 2 MiB;
// each limit is more than ten times as large.
const (
	// MaxBytes is the maximum size of a graph.
	MaxBytes = 32 << 20

	// MaxRisks is the maximum number of known issues of an update: the limit in the status of a
	// ClusterVersion.
	MaxRisks = 200
	// MaxRules is the maximum number of rules of a known issue.
	MaxRules = 64

	maxNodes              = 20_000
	maxEdges              = 500_000 // of each kind
	maxConditionalEntries = 50_000  // of conditionalEdges
	maxVersionBytes       = 256     // bytes of a version
	maxQuotedBytes        = 100     // bytes of a graph that an error repeats
)

// Error is an error in a graph.
type Error struct {
	// Where is the path of the error, such as nodes[3].version. It is empty if the error is about
	// the whole graph.
	Where string
	// Err is the cause.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Where == "" {
		return "the update graph " + e.Err.Error()
	}
	return "the update graph: " + e.Where + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func newGraphError(where, format string, args ...any) *Error {
	return &Error{Where: where, Err: fmt.Errorf(format, args...)}
}

// Parse decodes and checks a graph. Its error is an *Error about the first problem:
//
//   - more bytes, nodes, edges or risks than allowed;
//   - invalid JSON, including NaN and infinite numbers, or values of the wrong type;
//   - an edge that is not a pair of integers, names no existing node, or leads to its own node;
//   - a version that is not a semantic version, or that two nodes share;
//   - a cycle of edges: updates lead from older releases to newer ones.
//
// Conditional edges may name versions without a node: only those that start at the cluster's own
// version matter, and [Graph.Updates] rejects them. Their rules may have unknown types.
func Parse(data []byte) (*Graph, error) {
	if len(data) > MaxBytes {
		return nil, newGraphError("", "has more than the %d bytes that it may have", MaxBytes)
	}

	g := &Graph{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, g); err != nil {
		return nil, describeJSONError(err)
	}
	if err := g.Check(); err != nil {
		return nil, err
	}

	return g, nil
}

// describeJSONError returns the path of a value with the wrong type, without names of Go types.
func describeJSONError(err error) *Error {
	var wrongType *json.UnmarshalTypeError
	var edges *Error
	switch {
	case errors.As(err, &edges):
		return edges
	case errors.As(err, &wrongType) && wrongType.Field == "":
		return newGraphError("", "is a JSON %s, not a JSON object", excerpt.Line(wrongType.Value, maxQuotedBytes))
	case errors.As(err, &wrongType):
		return newGraphError(wrongType.Field, "must not be a JSON %s", excerpt.Line(wrongType.Value, maxQuotedBytes))
	}

	return newGraphError("", "cannot be read as JSON: %w", err)
}

// Check validates a graph that this program built as Parse does, and prepares it for the other
// methods. Its error is an *Error.
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
		{"conditionalEdges", len(g.ConditionalEdges), maxConditionalEntries},
		{"conditionalEdges[].edges", conditional, maxEdges},
	} {
		if bound.has > bound.most {
			return newGraphError(bound.where, "has %d entries, more than the %d that it may have", bound.has, bound.most)
		}
	}

	if g.Version < 0 || g.Version > Version {
		return newGraphError("version", "%d is not supported; the supported version is %d", g.Version, Version)
	}
	if err := g.checkNodes(); err != nil {
		return err
	}
	if err := g.checkConditionalEdges(); err != nil {
		return err
	}

	for i, edge := range g.Edges {
		for _, end := range [...]int{edge.From, edge.To} {
			if end < 0 || end >= len(g.Nodes) {
				return newGraphError(fmt.Sprintf("edges[%d]", i), "there is no node %d: there are %d, from 0 on", end, len(g.Nodes))
			}
		}
		if edge.From == edge.To {
			return newGraphError(fmt.Sprintf("edges[%d]", i), "leads from %s to itself", g.Nodes[edge.From].Version)
		}
	}

	return g.checkCycles()
}

func (g *Graph) checkNodes() error {
	g.versions = make([]semver.Version, len(g.Nodes))
	seen := make(map[string]int, len(g.Nodes))
	for i, node := range g.Nodes {
		version, err := parseVersion(node.Version)
		if err != nil {
			return newGraphError(fmt.Sprintf("nodes[%d].version", i), "%w", err)
		}
		if before, ok := seen[node.Version]; ok {
			return newGraphError(fmt.Sprintf("nodes[%d].version", i), "%s is that of nodes[%d], too", node.Version, before)
		}

		seen[node.Version] = i
		g.versions[i] = version
	}

	return nil
}

// parseVersion parses a semantic version of limited length.
func parseVersion(text string) (semver.Version, error) {
	if len(text) > maxVersionBytes {
		return semver.Version{}, fmt.Errorf("%q is longer than the %d bytes that a version may have", excerpt.Line(text, maxQuotedBytes), maxVersionBytes)
	}

	version, err := semver.Parse(text)
	if err != nil {
		return semver.Version{}, fmt.Errorf("%q is not a semantic version: %w", excerpt.Line(text, maxQuotedBytes), err)
	}
	return version, nil
}

func (g *Graph) checkConditionalEdges() error {
	for i, entry := range g.ConditionalEdges {
		if len(entry.Risks) > MaxRisks {
			return newGraphError(fmt.Sprintf("conditionalEdges[%d].risks", i), "has %d entries, more than the %d that it may have", len(entry.Risks), MaxRisks)
		}
		for j, risk := range entry.Risks {
			if len(risk.MatchingRules) > MaxRules {
				return newGraphError(fmt.Sprintf("conditionalEdges[%d].risks[%d].matchingRules", i, j), "has %d entries, more than the %d that it may have", len(risk.MatchingRules), MaxRules)
			}
		}
	}

	return nil
}

// checkCycles returns an error if the edges form a cycle. It repeatedly removes nodes without
// incoming edges; only cycles remain.
func (g *Graph) checkCycles() error {
	arriving := make([]int, len(g.Nodes))
	first := make([]int, len(g.Nodes)+1) // index in next of the first edge of a node
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

	return newGraphError("edges", "lead in a circle: %s", strings.Join(findCycle(g, arriving), " → "))
}

// findCycle returns the versions of one cycle. left has a positive count for each remaining
// node, which has an edge from another remaining node.
func findCycle(g *Graph, left []int) []string {
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

// UnmarshalJSON decodes pairs of integers. It is written by hand because Go accepts arrays of
// the wrong length, and because a large graph consists mostly of edges.
func (e *Edges) UnmarshalJSON(data []byte) error {
	s := &edgeScanner{data: data}
	if string(data) == "null" {
		*e = nil
		return nil
	}
	if !s.consumeByte('[') {
		return newGraphError("edges", "must be a list of pairs of integers")
	}

	edges := make(Edges, 0, len(data)/12) // "[1234,4321],"
	for first := true; !s.consumeByte(']'); first = false {
		if !first && !s.consumeByte(',') {
			return newGraphError("edges", "must be a list of pairs of integers")
		}
		from, to, ok := s.scanPair()
		if !ok {
			return newGraphError(fmt.Sprintf("edges[%d]", len(edges)), "must be two integers, the indices of nodes")
		}
		if edges = append(edges, Edge{from, to}); len(edges) > maxEdges {
			return newGraphError("edges", "has more than the %d entries that it may have", maxEdges)
		}
	}

	*e = edges
	return nil
}

// edgeScanner scans valid JSON.
type edgeScanner struct {
	data []byte
	at   int
}

// consumeByte skips whitespace and then the byte b, and reports whether b was there.
func (s *edgeScanner) consumeByte(b byte) bool {
	for s.at < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.at]) >= 0 {
		s.at++
	}

	if s.at < len(s.data) && s.data[s.at] == b {
		s.at++
		return true
	}
	return false
}

func (s *edgeScanner) scanPair() (from, to int, ok bool) {
	if !s.consumeByte('[') {
		return 0, 0, false
	}

	from, ok = s.scanInteger()
	if !ok || !s.consumeByte(',') {
		return 0, 0, false
	}

	to, ok = s.scanInteger()
	return from, to, ok && s.consumeByte(']')
}

// scanInteger scans an integer. A value out of range becomes one that no node has as its index.
func (s *edgeScanner) scanInteger() (int, bool) {
	negative := s.consumeByte('-')
	s.consumeByte(0) // skip whitespace
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

// MarshalJSON encodes pairs of integers. Nil edges are encoded as an empty list.
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

// Encode returns the graph as JSON. Equal graphs have equal encodings, and empty lists are not
// omitted.
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
	encoder.SetEscapeHTML(false) // Queries contain many ">" characters.
	if err := encoder.Encode(&out); err != nil {
		return nil, fmt.Errorf("write the update graph: %w", err)
	}

	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
