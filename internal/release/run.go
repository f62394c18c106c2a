package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// NodeError is the error of a node.
type NodeError struct {
	// Node is the index of the node in the graph.
	Node int
	// Err is the error that the work function returned.
	Err error
}

// Error implements error.
func (e *NodeError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the work function.
func (e *NodeError) Unwrap() error { return e.Err }

// Run calls work for each node after all nodes in its After are done, for at most maxParallel
// nodes in parallel; less than 1 means 1. Of the nodes that are ready, the first one in the
// graph is started first. Nodes that depend on a failed node are not started; all others are.
//
// Run returns after all started work has ended, with a *NodeError for each failed node, in the
// order of the nodes. When the context ends, no more work is started, and the last error is that
// of the context unless all nodes were done.
func (g Graph) Run(ctx context.Context, maxParallel int, work func(ctx context.Context, node Node) error) []error {
	if err := g.checkDependencyOrder(); err != nil {
		return []error{err}
	}

	r := newGraphRun(g)
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
			return r.collectErrors(ctx)
		}
		r.recordNodeEnd(<-ended)
		running--
	}
}

// checkDependencyOrder returns an error unless each node comes after the nodes that it depends on, so that
// there is no cycle.
func (g Graph) checkDependencyOrder() error {
	for i, node := range g.Nodes {
		for _, before := range node.After {
			if before < 0 || before >= i {
				return fmt.Errorf("node %d of the task graph depends on node %d, which does not precede it", i, before)
			}
		}
	}

	return nil
}

// graphRun is the state of one run of a graph.
type graphRun struct {
	// dependents are the nodes that depend on each node, waitCounts the number of unfinished
	// nodes that each node depends on.
	dependents [][]int
	waitCounts []int
	// ready are the nodes that can be started, sorted.
	ready  []int
	failed []*NodeError
	// done is the number of nodes that are done.
	done int
}

func newGraphRun(g Graph) *graphRun {
	r := &graphRun{dependents: make([][]int, len(g.Nodes)), waitCounts: make([]int, len(g.Nodes))}
	for i, node := range g.Nodes {
		r.waitCounts[i] = len(node.After)
		for _, before := range node.After {
			r.dependents[before] = append(r.dependents[before], i)
		}
		if r.waitCounts[i] == 0 {
			r.ready = append(r.ready, i)
		}
	}

	return r
}

// recordNodeEnd records the result of a node, and adds the nodes that became ready.
func (r *graphRun) recordNodeEnd(result *NodeError) {
	if result.Err != nil {
		r.failed = append(r.failed, result)
		return
	}

	r.done++
	for _, i := range r.dependents[result.Node] {
		if r.waitCounts[i]--; r.waitCounts[i] == 0 {
			at, _ := slices.BinarySearch(r.ready, i)
			r.ready = slices.Insert(r.ready, at, i)
		}
	}
}

func (r *graphRun) collectErrors(ctx context.Context) []error {
	slices.SortFunc(r.failed, func(a, b *NodeError) int { return cmp.Compare(a.Node, b.Node) })
	var all []error
	for _, failed := range r.failed {
		all = append(all, failed)
	}

	if left := len(r.dependents) - r.done; ctx.Err() != nil && left > 0 {
		all = append(all, fmt.Errorf("%d of %d nodes of the task graph were not done: %w", left, len(r.dependents), ctx.Err()))
	}

	return all
}

// RunSerially returns a work function for Graph.Run that runs the tasks of a node one after the
// other, until one fails or the context ends.
func RunSerially(do func(ctx context.Context, task Task) error) func(ctx context.Context, node Node) error {
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
