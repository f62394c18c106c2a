package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// NodeError says that a node failed.
type NodeError struct {
	// Node is its place in the graph.
	Node int
	// Err is what the work returned.
	Err error
}

// Error is the text of what the work returned.
func (e *NodeError) Error() string { return e.Err.Error() }

// Unwrap returns what the work returned.
func (e *NodeError) Unwrap() error { return e.Err }

// Run does the work of each node once all nodes that it comes after are done, on at most
// maxParallel nodes at a time; less than 1 means 1. Of the nodes that could begin, the one
// that stands first does. What comes after a node that failed is not begun, everything
// else is.
//
// It returns after all work that was begun has ended, with an error for each node that
// failed, in the order of the nodes. When the context ends, no more work is begun, and
// the last error is that of the context unless all nodes were done by then.
func (g Graph) Run(ctx context.Context, maxParallel int, work func(ctx context.Context, node Node) error) []error {
	if err := g.check(); err != nil {
		return []error{err}
	}

	r := newRun(g)
	ended := make(chan *NodeError)
	running := 0
	for {
		for running < max(maxParallel, 1) && len(r.ready) > 0 && ctx.Err() == nil {
			i := r.ready[0]
			r.ready = r.ready[1:]
			running++
			go func() { ended <- &NodeError{Node: i, Err: work(ctx, g.Nodes[i])} }()
		}
		if running == 0 {
			return r.errors(ctx)
		}
		r.end(<-ended)
		running--
	}
}

// check reports whether the nodes can be done in their order, so that none waits for itself.
func (g Graph) check() error {
	for i, node := range g.Nodes {
		for _, before := range node.After {
			if before < 0 || before >= i {
				return fmt.Errorf("node %d of the task graph comes after node %d, which does not stand before it", i, before)
			}
		}
	}

	return nil
}

// run is a graph while it is run.
type run struct {
	// next are, for each node, those that come after it; waits for how many nodes it waits.
	next  [][]int
	waits []int
	// ready are the nodes that can begin, sorted.
	ready  []int
	failed []*NodeError
	// done is how many nodes are done.
	done int
}

func newRun(g Graph) *run {
	r := &run{next: make([][]int, len(g.Nodes)), waits: make([]int, len(g.Nodes))}
	for i, node := range g.Nodes {
		r.waits[i] = len(node.After)
		for _, before := range node.After {
			r.next[before] = append(r.next[before], i)
		}
		if r.waits[i] == 0 {
			r.ready = append(r.ready, i)
		}
	}

	return r
}

// end takes note of a node that ended, and finds those that can begin now.
func (r *run) end(result *NodeError) {
	if result.Err != nil {
		r.failed = append(r.failed, result)
		return
	}

	r.done++
	for _, i := range r.next[result.Node] {
		if r.waits[i]--; r.waits[i] == 0 {
			at, _ := slices.BinarySearch(r.ready, i)
			r.ready = slices.Insert(r.ready, at, i)
		}
	}
}

func (r *run) errors(ctx context.Context) []error {
	slices.SortFunc(r.failed, func(a, b *NodeError) int { return cmp.Compare(a.Node, b.Node) })
	var all []error
	for _, failed := range r.failed {
		all = append(all, failed)
	}

	if left := len(r.next) - r.done; ctx.Err() != nil && left > 0 {
		all = append(all, fmt.Errorf("%d of %d nodes of the task graph were not done: %w", left, len(r.next), ctx.Err()))
	}

	return all
}

// Serially is work for Graph.Run: it does the tasks of a node one after the other, up to
// the first that fails or the end of the context.
func Serially(do func(ctx context.Context, task Task) error) func(ctx context.Context, node Node) error {
	return func(ctx context.Context, node Node) error {
		for _, task := range node.Tasks {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(ctx, task); err != nil {
				return err
			}
		}
		return nil
	}
}
