package objectdiff

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// contextLines is how many unchanged lines are shown around a change.
	contextLines = 3
	// maxSteps limits the search for the smallest difference of two texts: after as many edits the
	// rest is shown as replaced. So two CRDs of 50,000 lines without common lines take less than a
	// second.
	maxSteps = 4000
)

// hunk is a run of changed lines: lines [a1,a2) of the first text are replaced by [b1,b2) of the
// second.
type hunk struct{ a1, a2, b1, b2 int }

// unifiedDiff returns the difference of two texts as hunks of lines. It is empty if they are
// equal.
func unifiedDiff(before, after []string) string {
	d := differ{a: before, b: after}
	d.collectHunks(0, len(before), 0, len(after))
	var out strings.Builder
	for i := 0; i < len(d.hunks); {
		j := i + 1
		for j < len(d.hunks) && d.hunks[j].a1-d.hunks[j-1].a2 <= 2*contextLines {
			j++
		}
		d.writeHunks(&out, d.hunks[i:j])
		i = j
	}

	return out.String()
}

// differ computes the difference of two texts with Myers' algorithm, in linear space.
type differ struct {
	a, b  []string
	hunks []hunk
}

// collectHunks collects the hunks of a[a1:a2] and b[b1:b2], in order.
func (d *differ) collectHunks(a1, a2, b1, b2 int) {
	for a1 < a2 && b1 < b2 && d.a[a1] == d.b[b1] {
		a1, b1 = a1+1, b1+1
	}

	for a1 < a2 && b1 < b2 && d.a[a2-1] == d.b[b2-1] {
		a2, b2 = a2-1, b2-1
	}

	if a1 == a2 && b1 == b2 {
		return
	}

	if a1 < a2 && b1 < b2 {
		if x, y, ok := d.findMidpoint(a1, a2, b1, b2); ok {
			d.collectHunks(a1, x, b1, y)
			d.collectHunks(x, a2, y, b2)
			return
		}
	}

	if n := len(d.hunks); n > 0 && d.hunks[n-1].a2 == a1 && d.hunks[n-1].b2 == b1 {
		d.hunks[n-1].a2, d.hunks[n-1].b2 = a2, b2
		return
	}

	d.hunks = append(d.hunks, hunk{a1, a2, b1, b2})
}

// findMidpoint finds a point in the middle of the shortest edit script, where two searches from
// both ends meet. It returns false if the script exceeds maxSteps.
func (d *differ) findMidpoint(a1, a2, b1, b2 int) (x, y int, ok bool) {
	n, m := a2-a1, b2-b1
	delta, offset := n-m, n+m+1
	s := midpointSearch{
		a: d.a[a1:a2], b: d.b[b1:b2], offset: offset,
		forward: make([]int, 2*offset+1), backward: make([]int, 2*offset+1),
	}
	for step := 0; step <= min((n+m+1)/2, maxSteps); step++ {
		for k := -step; k <= step; k += 2 {
			x := s.extendForward(k, step)
			if other := delta - k; delta%2 != 0 && other > -step && other < step && x+s.backward[offset+other] >= n {
				return validMidpoint(a1, a2, b1, b2, a1+x, b1+x-k)
			}
		}
		for k := -step; k <= step; k += 2 {
			x := s.extendBackward(k, step)
			if other := delta - k; delta%2 == 0 && other >= -step && other <= step && x+s.forward[offset+other] >= n {
				return validMidpoint(a1, a2, b1, b2, a2-x, b2-x+k)
			}
		}
	}

	return 0, 0, false
}

// midpointSearch is a search in two texts from both ends. It stores how many lines of a each
// direction has passed on a diagonal, at the index offset plus the number of the diagonal.
type midpointSearch struct {
	a, b              []string
	forward, backward []int
	offset            int
}

// extendForward extends the search from the start on diagonal k by one edit and all equal lines after
// it. It returns how many lines of a it has passed.
func (s *midpointSearch) extendForward(k, step int) int {
	x := furthestStart(s.forward, s.offset, k, step)
	for x < len(s.a) && x-k >= 0 && x-k < len(s.b) && s.a[x] == s.b[x-k] {
		x++
	}
	s.forward[s.offset+k] = x
	return x
}

// extendBackward is extendForward for the search from the end.
func (s *midpointSearch) extendBackward(k, step int) int {
	x := furthestStart(s.backward, s.offset, k, step)
	for x < len(s.a) && x-k >= 0 && x-k < len(s.b) && s.a[len(s.a)-1-x] == s.b[len(s.b)-1-x+k] {
		x++
	}
	s.backward[s.offset+k] = x
	return x
}

// furthestStart returns where a search on a diagonal begins: next to the further of its neighbors.
func furthestStart(reached []int, offset, k, step int) int {
	if k == -step || (k != step && reached[offset+k-1] < reached[offset+k+1]) {
		return reached[offset+k+1]
	}
	return reached[offset+k-1] + 1
}

// validMidpoint returns the point, or false if it does not divide the problem.
func validMidpoint(a1, a2, b1, b2, x, y int) (int, int, bool) {
	if x < a1 || x > a2 || y < b1 || y > b2 || (x == a1 && y == b1) || (x == a2 && y == b2) {
		return 0, 0, false
	}
	return x, y, true
}

// writeHunks writes adjacent hunks with their context.
func (d *differ) writeHunks(out *strings.Builder, hunks []hunk) {
	first, last := hunks[0], hunks[len(hunks)-1]
	before := min(contextLines, first.a1)
	after := min(contextLines, len(d.a)-last.a2)
	fmt.Fprintf(out, "@@ -%s +%s @@\n", formatLineRange(first.a1-before, last.a2+after), formatLineRange(first.b1-before, last.b2+after))
	at := first.a1 - before
	for _, h := range hunks {
		writeMarkedLines(out, " ", d.a[at:h.a1])
		writeMarkedLines(out, "-", d.a[h.a1:h.a2])
		writeMarkedLines(out, "+", d.b[h.b1:h.b2])
		at = h.a2
	}

	writeMarkedLines(out, " ", d.a[at:last.a2+after])
}

func writeMarkedLines(out *strings.Builder, mark string, lines []string) {
	for _, line := range lines {
		out.WriteString(mark + line + "\n")
	}
}

// formatLineRange formats a range of lines for patch(1): the first line, counted from one, and their
// number. An empty range names the line before it.
func formatLineRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return strconv.Itoa(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, to-from)
	}
}
