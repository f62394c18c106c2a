package release

import (
	"math/rand/v2"
	"slices"
)

// Mode is the reason for applying a payload. It determines the order.
type Mode string

// The modes.
const (
	// Updating updates a cluster to another release: runlevel by runlevel, and the components of
	// a runlevel in parallel.
	Updating Mode = "Updating"
	// Initializing creates a new cluster: all components of all runlevels in parallel, because
	// they wait for each other anyway.
	Initializing Mode = "Initializing"
	// Reconciling keeps a cluster at its release: as Initializing, but each attempt starts at
	// another place, so that a failing manifest does not always block the same others.
	Reconciling Mode = "Reconciling"
)

// attemptsPerPermutation is how many attempts use the same permutation, each starting at another
// place.
const attemptsPerPermutation = 8

// Task is the work for one manifest.
type Task struct {
	Manifest Manifest
	// Number is the number of the manifest in the payload, counted from 1.
	Number int
	// Total is the number of manifests.
	Total int
}

// Node is a node of a graph.
type Node struct {
	// Tasks are run one after the other. A node without tasks joins the nodes that it depends on,
	// so that many nodes can depend on many others with few edges.
	Tasks []Task
	// After are the indices of the nodes that must be done before. All of them are smaller than
	// the node's own index.
	After []int
}

// Graph is the order in which the manifests of a payload are applied.
type Graph struct {
	Nodes []Node
}

// NewGraph returns the graph for manifests in the order of the payload. The attempt, counted
// from 0, is only used by Reconciling. Equal arguments lead to equal graphs.
//
// In every mode, nothing is reordered across a Job, which has a node of its own, or across a
// manifest whose file name states no runlevel. The mode orders the manifests between these.
func NewGraph(manifests []Manifest, mode Mode, attempt int) Graph {
	var b graphBuilder
	for _, part := range splitAtBarriers(newTasks(manifests)) {
		switch {
		case part.isBarrier:
			b.addStage(stage{part.tasks}, !part.tasks[0].Manifest.IsJob())
		case mode == Updating:
			for _, level := range groupByRunlevel(part.tasks) {
				b.addStage(level, len(level) == 1)
			}
		default:
			var all stage
			for _, level := range groupByRunlevel(part.tasks) {
				all = append(all, level...)
			}
			if mode == Reconciling {
				all = permuteStage(all, attempt)
			}
			b.addStage(all, false)
		}
	}

	return b.graph
}

func newTasks(manifests []Manifest) []Task {
	tasks := make([]Task, len(manifests))
	for i, m := range manifests {
		tasks[i] = Task{Manifest: m, Number: i + 1, Total: len(manifests)}
	}
	return tasks
}

// part is a sequence of tasks: either a barrier, or tasks that may be ordered by file names.
type part struct {
	tasks     []Task
	isBarrier bool
}

// splitAtBarriers splits tasks at barriers. A Job is a part of its own, as is each manifest
// whose file name cannot be parsed.
func splitAtBarriers(tasks []Task) []part {
	var parts []part
	for _, task := range tasks {
		_, named := task.Manifest.FileName()
		isBarrier := !named || task.Manifest.IsJob()
		if last := len(parts) - 1; !isBarrier && last >= 0 && !parts[last].isBarrier {
			parts[last].tasks = append(parts[last].tasks, task)
			continue
		}
		parts = append(parts, part{tasks: []Task{task}, isBarrier: isBarrier})
	}

	return parts
}

// stage is a list of task sequences that may run in parallel.
type stage [][]Task

// groupByRunlevel returns a stage for each runlevel, lowest first, with one sequence per
// component. The tasks of a component keep their order.
func groupByRunlevel(tasks []Task) []stage {
	type place struct {
		runlevel  int
		component string
	}
	byPlace := map[place][]Task{}
	var places []place
	for _, task := range tasks {
		name, _ := task.Manifest.FileName()
		p := place{name.Runlevel, name.Component}
		if byPlace[p] == nil {
			places = append(places, p)
		}
		byPlace[p] = append(byPlace[p], task)
	}

	slices.SortStableFunc(places, func(a, b place) int { return a.runlevel - b.runlevel })
	var levels []stage
	for i, p := range places {
		if i == 0 || places[i-1].runlevel != p.runlevel {
			levels = append(levels, nil)
		}
		last := len(levels) - 1
		levels[last] = append(levels[last], byPlace[p])
	}

	return levels
}

// permuteStage shuffles and rotates a stage. Eight consecutive attempts use the same
// permutation, and each starts at another eighth of it.
func permuteStage(all stage, attempt int) stage {
	attempt = max(attempt, 0)
	shuffled := slices.Clone(all)
	// The second part of the seed is constant.
	source := rand.New(rand.NewPCG(uint64(attempt/attemptsPerPermutation), 0)) //nolint:gosec // G404: it spreads work and guards nothing.
	source.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	start := len(shuffled) * (attempt % attemptsPerPermutation) / attemptsPerPermutation
	return slices.Concat(shuffled[start:], shuffled[:start])
}

// graphBuilder adds stages to a graph. Each stage depends on the one before.
type graphBuilder struct {
	graph Graph
	// lastNodes are the nodes of the last stage.
	lastNodes []int
	// isOpen is true if the last stage is a single node that may be extended.
	isOpen bool
}

// addStage adds a stage. If both stages have several nodes, it adds a node that joins the last
// stage. A serial stage extends the node of a serial stage before it.
func (b *graphBuilder) addStage(s stage, isSerial bool) {
	if isSerial && b.isOpen {
		node := &b.graph.Nodes[b.lastNodes[0]]
		node.Tasks = append(node.Tasks, s[0]...)
		return
	}

	if len(s) > 1 && len(b.lastNodes) > 1 {
		b.graph.Nodes = append(b.graph.Nodes, Node{After: b.lastNodes})
		b.lastNodes = []int{len(b.graph.Nodes) - 1}
	}

	var added []int
	for _, tasks := range s {
		added = append(added, len(b.graph.Nodes))
		b.graph.Nodes = append(b.graph.Nodes, Node{Tasks: slices.Clone(tasks), After: b.lastNodes})
	}

	b.lastNodes = added
	b.isOpen = isSerial
}
