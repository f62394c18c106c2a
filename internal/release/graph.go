package release

import (
	"math/rand/v2"
	"slices"
)

// Mode says why a payload is applied. It decides the order.
type Mode string

// The modes.
const (
	// Updating brings a cluster to another release: runlevel by runlevel, the components of
	// a runlevel beside each other.
	Updating Mode = "Updating"
	// Initializing makes a new cluster: all components of all runlevels beside each other,
	// as they wait for each other anyway.
	Initializing Mode = "Initializing"
	// Reconciling keeps a cluster as its release is: as Initializing, but each attempt
	// begins elsewhere, so that one manifest that fails does not keep the same others from
	// being looked at for ever.
	Reconciling Mode = "Reconciling"
)

// rotations is how many attempts use one permutation, each beginning at another place.
const rotations = 8

// Task is the work on one manifest.
type Task struct {
	Manifest Manifest
	// Number counts the manifests of the payload from 1.
	Number int
	// Total is how many there are.
	Total int
}

// Node is a part of a graph.
type Node struct {
	// Tasks are done one after the other, in this order. A node without tasks joins what it
	// comes after, so that many nodes can come after many with few edges.
	Tasks []Task
	// After are the nodes, by their place in the graph, that must be done before. All of
	// them are smaller than the node's own place.
	After []int
}

// Graph says in which order the manifests of a payload are applied.
type Graph struct {
	Nodes []Node
}

// NewGraph orders manifests, which are given in the order of the payload. The attempt,
// counted from 0, is used by Reconciling only; equal arguments give equal graphs.
//
// In every mode nothing is moved across a Job, which is a node of its own, nor across a
// manifest whose file name does not say where it belongs. What lies between two of them is
// ordered by the mode.
func NewGraph(manifests []Manifest, mode Mode, attempt int) Graph {
	var b builder
	for _, part := range parts(tasks(manifests)) {
		switch {
		case part.isBarrier:
			b.add(stage{part.tasks}, !part.tasks[0].Manifest.IsJob())
		case mode == Updating:
			for _, level := range levels(part.tasks) {
				b.add(level, len(level) == 1)
			}
		default:
			var all stage
			for _, level := range levels(part.tasks) {
				all = append(all, level...)
			}
			if mode == Reconciling {
				all = permuted(all, attempt)
			}
			b.add(all, false)
		}
	}

	return b.graph
}

func tasks(manifests []Manifest) []Task {
	tasks := make([]Task, len(manifests))
	for i, m := range manifests {
		tasks[i] = Task{Manifest: m, Number: i + 1, Total: len(manifests)}
	}
	return tasks
}

// part is a run of tasks: either a barrier, or what may be ordered by file names.
type part struct {
	tasks     []Task
	isBarrier bool
}

// parts splits tasks at barriers. A Job is a part of its own, as is each manifest whose
// file name does not parse.
func parts(tasks []Task) []part {
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

// stage is work that may be done beside each other: each element is done one task after
// the other.
type stage [][]Task

// levels returns a stage for each runlevel, from the lowest, with an element for each
// component. Within a component tasks keep their order.
func levels(tasks []Task) []stage {
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

// permuted shuffles a stage, and then begins it elsewhere: eight attempts in a row use the
// same permutation and begin at each eighth of it.
func permuted(all stage, attempt int) stage {
	attempt = max(attempt, 0)
	shuffled := slices.Clone(all)
	// The seed is two numbers; the second is any that stays.
	source := rand.New(rand.NewPCG(uint64(attempt/rotations), 0)) //nolint:gosec // G404: it spreads work and guards nothing.
	source.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	start := len(shuffled) * (attempt % rotations) / rotations
	return slices.Concat(shuffled[start:], shuffled[:start])
}

// builder adds stages to a graph, each after all of the one before.
type builder struct {
	graph Graph
	// last are the nodes of the last stage.
	last []int
	// open says that the last stage is one node, which may go on.
	open bool
}

// add adds a stage, and before it a node that joins the last one when both are wide. One that is serial goes on in the node of a serial stage before it.
func (b *builder) add(s stage, isSerial bool) {
	if isSerial && b.open {
		node := &b.graph.Nodes[b.last[0]]
		node.Tasks = append(node.Tasks, s[0]...)
		return
	}

	if len(s) > 1 && len(b.last) > 1 {
		b.graph.Nodes = append(b.graph.Nodes, Node{After: b.last})
		b.last = []int{len(b.graph.Nodes) - 1}
	}

	var added []int
	for _, tasks := range s {
		added = append(added, len(b.graph.Nodes))
		b.graph.Nodes = append(b.graph.Nodes, Node{Tasks: slices.Clone(tasks), After: b.last})
	}

	b.last, b.open = added, isSerial
}
