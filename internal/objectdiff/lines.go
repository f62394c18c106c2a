package objectdiff

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// context is how many lines that are the same are shown around a change.
	context = 3
	// maxSteps bounds the search for the smallest difference of two texts: what is still
	// open after as many edits is shown as replaced. It keeps two definitions of 50,000
	// lines that have nothing in common below a second.
	maxSteps = 4000
)

// hunk is a run of lines that are not the same: lines [a1,a2) of the one text stand for
// [b1,b2) of the other.
type hunk struct{ a1, a2, b1, b2 int }

// unified writes the difference of two texts as hunks of lines. Empty means that they are
// the same.
func unified(before, after []string) string {
	d := differ{a: before, b: after}
	d.compare(0, len(before), 0, len(after))
	var out strings.Builder
	for i := 0; i < len(d.hunks); {
		j := i + 1
		for j < len(d.hunks) && d.hunks[j].a1-d.hunks[j-1].a2 <= 2*context {
			j++
		}
		d.write(&out, d.hunks[i:j])
		i = j
	}

	return out.String()
}

// differ finds the difference of two texts by the algorithm of Myers, in linear space.
type differ struct {
	a, b  []string
	hunks []hunk
}

// compare collects the hunks of a[a1:a2] and b[b1:b2], in order.
func (d *differ) compare(a1, a2, b1, b2 int) {
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
		if x, y, ok := d.middle(a1, a2, b1, b2); ok {
			d.compare(a1, x, b1, y)
			d.compare(x, a2, y, b2)
			return
		}
	}

	if n := len(d.hunks); n > 0 && d.hunks[n-1].a2 == a1 && d.hunks[n-1].b2 == b1 {
		d.hunks[n-1].a2, d.hunks[n-1].b2 = a2, b2
		return
	}

	d.hunks = append(d.hunks, hunk{a1, a2, b1, b2})
}

// middle finds a point in the middle of the shortest way from one text to the other: two
// searches, from both ends, meet there. False means that it is too far.
func (d *differ) middle(a1, a2, b1, b2 int) (x, y int, ok bool) {
	n, m := a2-a1, b2-b1
	delta, offset := n-m, n+m+1
	forward, backward := make([]int, 2*offset+1), make([]int, 2*offset+1)
	for step := 0; step <= min((n+m+1)/2, maxSteps); step++ {
		for k := -step; k <= step; k += 2 {
			x := furthest(forward, offset, k, step)
			for x < n && x-k >= 0 && x-k < m && d.a[a1+x] == d.b[b1+x-k] {
				x++
			}
			forward[offset+k] = x
			if other := delta - k; delta%2 != 0 && other > -step && other < step && x+backward[offset+other] >= n {
				return inside(a1, a2, b1, b2, a1+x, b1+x-k)
			}
		}
		for k := -step; k <= step; k += 2 {
			x := furthest(backward, offset, k, step)
			for x < n && x-k >= 0 && x-k < m && d.a[a2-1-x] == d.b[b2-1-x+k] {
				x++
			}
			backward[offset+k] = x
			if other := delta - k; delta%2 == 0 && other >= -step && other <= step && x+forward[offset+other] >= n {
				return inside(a1, a2, b1, b2, a2-x, b2-x+k)
			}
		}
	}

	return 0, 0, false
}

// furthest is where a search on a diagonal begins: beside the further of its neighbours.
func furthest(reached []int, offset, k, step int) int {
	if k == -step || (k != step && reached[offset+k-1] < reached[offset+k+1]) {
		return reached[offset+k+1]
	}
	return reached[offset+k-1] + 1
}

// inside refuses a point that does not make the problem smaller.
func inside(a1, a2, b1, b2, x, y int) (int, int, bool) {
	if x < a1 || x > a2 || y < b1 || y > b2 || (x == a1 && y == b1) || (x == a2 && y == b2) {
		return 0, 0, false
	}
	return x, y, true
}

// write writes hunks that stand close together, with the lines around them.
func (d *differ) write(out *strings.Builder, hunks []hunk) {
	first, last := hunks[0], hunks[len(hunks)-1]
	before := min(context, first.a1)
	after := min(context, len(d.a)-last.a2)
	fmt.Fprintf(out, "@@ -%s +%s @@\n", lineRange(first.a1-before, last.a2+after), lineRange(first.b1-before, last.b2+after))
	at := first.a1 - before
	for _, h := range hunks {
		writeLines(out, " ", d.a[at:h.a1])
		writeLines(out, "-", d.a[h.a1:h.a2])
		writeLines(out, "+", d.b[h.b1:h.b2])
		at = h.a2
	}

	writeLines(out, " ", d.a[at:last.a2+after])
}

func writeLines(out *strings.Builder, mark string, lines []string) {
	for _, line := range lines {
		out.WriteString(mark + line + "\n")
	}
}

// lineRange writes a range of lines as patch reads it: the first, counted from one, and
// their number. An empty range names the line before it.
func lineRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return strconv.Itoa(from + 1)
	default:
		return fmt.Sprintf("%d,%d", from+1, to-from)
	}
}
