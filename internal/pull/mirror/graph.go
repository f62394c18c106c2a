package mirror

import "slices"

// graph is a set of names with a partial order.
type graph struct {
	names []string // in the order in which they were added
	index map[string]int
	after []map[int]bool // the indexes of the names after each name
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

// addOrder orders one name before another, unless that contradicts the existing order.
func (g *graph) addOrder(first, second string) {
	from, to := g.index[first], g.index[second]
	if from != to && !g.hasPath(to, from) {
		g.after[from][to] = true
	}
}

// hasPath reports whether one name is already ordered before another.
func (g *graph) hasPath(from, to int) bool {
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

// topologicalOrder returns the names in an order that matches the partial order. Names without an
// order keep the order in which they were added.
func (g *graph) topologicalOrder() []string {
	waits := make([]int, len(g.names)) // the number of names that must come before
	for _, after := range g.after {
		for to := range after {
			waits[to]++
		}
	}

	var order []string
	for range g.names {
		// There is always one, because addOrder prevents cycles.
		next := slices.Index(waits, 0)
		waits[next] = -1
		order = append(order, g.names[next])
		for to := range g.after[next] {
			waits[to]--
		}
	}

	return order
}
