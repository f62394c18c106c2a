package mirror

import "slices"

// graph is a set of names, some of which come before others.
type graph struct {
	names []string // in the order in which they were added
	index map[string]int
	after []map[int]bool // which names come after the one of an index
}

func (g *graph) add(name string) {
	if _, ok := g.index[name]; ok {
		return
	}
	if g.index == nil {
		g.index = map[string]int{}
	}

	g.index[name] = len(g.names)
	g.names = append(g.names, name)
	g.after = append(g.after, map[int]bool{})
}

// before has one name come before another, unless what was said earlier has it the other
// way round.
func (g *graph) before(first, second string) {
	from, to := g.index[first], g.index[second]
	if from != to && !g.leads(to, from) {
		g.after[from][to] = true
	}
}

// leads reports whether one name comes before another already.
func (g *graph) leads(from, to int) bool {
	seen := map[int]bool{}
	next := []int{from}
	for len(next) > 0 {
		here := next[len(next)-1]
		next = next[:len(next)-1]
		if here == to {
			return true
		}
		for after := range g.after[here] {
			if !seen[after] {
				seen[after] = true
				next = append(next, after)
			}
		}
	}

	return false
}

// sorted returns the names in an order that keeps to what was said. Where nothing was said
// it is the order in which they were added.
func (g *graph) sorted() []string {
	waits := make([]int, len(g.names)) // how many names must come before
	for _, after := range g.after {
		for to := range after {
			waits[to]++
		}
	}

	var order []string
	for range g.names {
		// There is always one, since before lets no circle be made.
		next := slices.Index(waits, 0)
		waits[next] = -1
		order = append(order, g.names[next])
		for to := range g.after[next] {
			waits[to]--
		}
	}

	return order
}
