package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// nodeFields are what a line of the watch has: a field of a nodeState each.
const nodeFields = `jsonpath={.metadata.name}|{.spec.unschedulable}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/state}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/currentConfig}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/desiredConfig}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/lastAppliedDrain}{"\n"}`

// nodeState is how far a node is.
type nodeState struct {
	name     string
	cordoned bool
	// state is what its daemon says; current and desired are names of configurations.
	state, current, desired string
	// drained: its pods have been moved away.
	drained bool
}

// isDone reports whether the node has what it is to have, and is back.
func (s nodeState) isDone() bool {
	return !s.cordoned && s.state == "Done" && s.current != "" && s.current == s.desired
}

func parseNode(line string) (nodeState, error) {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) != 6 {
		return nodeState{}, fmt.Errorf("reading nodes: %q has not 6 fields", line)
	}
	return nodeState{name: f[0], cordoned: f[1] == "true", state: f[2], current: f[3], desired: f[4], drained: strings.HasPrefix(f[5], "drain-")}, nil
}

// turn is the update of a node: when each step of it was seen.
type turn struct {
	node                               string
	cordoned, drained, updated, usable time.Duration
}

// watch follows the nodes from when it is made.
type watch struct {
	cmd   *exec.Cmd
	began time.Time
	done  chan struct{}

	mu    sync.Mutex
	last  map[string]nodeState
	turns map[string]*turn
	// most is how many nodes were cordoned at once.
	most int
	err  error
}

// watchNodes begins to follow the nodes.
func (d *demo) watchNodes() (*watch, error) {
	w := &watch{began: time.Now(), done: make(chan struct{}), last: map[string]nodeState{}, turns: map[string]*turn{}}
	w.cmd = exec.Command(filepath.Join("bin", "k8s", "kubectl"), "get", "nodes", "--watch", "-o", nodeFields) // It outlives the step that starts it.
	w.cmd.Env = append(os.Environ(), "KUBECONFIG="+d.Kubeconfig)
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}

	go w.read(out)
	return w, nil
}

func (w *watch) read(out io.Reader) {
	defer close(w.done)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s, err := parseNode(lines.Text())
		w.mu.Lock()
		w.err = cmp.Or(w.err, err)
		w.see(s)
		w.mu.Unlock()
	}
}

// see notes what has changed. The server tells changes in their order, of all nodes together.
func (w *watch) see(s nodeState) {
	at := time.Since(w.began)
	before := w.last[s.name]
	w.last[s.name] = s
	t := w.turns[s.name]
	if s.cordoned && !before.cordoned && t == nil {
		t = &turn{node: s.name, cordoned: at}
		w.turns[s.name] = t
	}

	if t != nil {
		note := func(when *time.Duration, is bool) {
			if is && *when == 0 {
				*when = at
			}
		}
		note(&t.drained, s.drained)
		note(&t.updated, s.current == s.desired)
		note(&t.usable, s.isDone())
	}

	away := 0
	for _, s := range w.last {
		if s.cordoned {
			away++
		}
	}

	w.most = max(w.most, away)
}

// begun reports whether a node has been cordoned.
func (w *watch) begun() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.turns) == 0 {
		return errors.Join(errors.New("no node is cordoned yet"), w.err)
	}
	return nil
}

// report tells of the turn of each node, in their order. It fails when a node had none, or when
// two were away at once.
func (w *watch) report(nodes []string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var wrong []error
	var turns []*turn
	for _, node := range nodes {
		t := w.turns[node]
		if t == nil || t.drained == 0 || t.updated == 0 || t.usable == 0 {
			wrong = append(wrong, fmt.Errorf("node %s was not cordoned, drained, updated and uncordoned: %+v", node, w.last[node]))
			continue
		}
		turns = append(turns, t)
	}

	if w.most > 1 {
		wrong = append(wrong, fmt.Errorf("%d nodes were away at once, not one after the other", w.most))
	}

	slices.SortFunc(turns, func(a, b *turn) int { return cmp.Compare(a.cordoned, b.cordoned) })
	var lines strings.Builder
	for _, t := range turns {
		fmt.Fprintf(&lines, "%s: cordoned after %.1f s, drained %.1f s, updated %.1f s, uncordoned %.1f s\n",
			t.node, t.cordoned.Seconds(), t.drained.Seconds(), t.updated.Seconds(), t.usable.Seconds())
	}

	return lines.String(), errors.Join(append(wrong, w.err)...)
}

// stop ends the watch, which has no end by itself.
func (w *watch) stop() {
	_ = w.cmd.Process.Kill() // It may have ended by itself.
	<-w.done
	_ = w.cmd.Wait() // It was killed.
}

// nodeStates returns the nodes as they are.
func (d *demo) nodeStates(ctx context.Context) ([]nodeState, error) {
	out, err := d.Kubectl(ctx, "get", "nodes", "-o", strings.Replace(nodeFields, "jsonpath=", "jsonpath={range .items[*]}", 1)+"{end}")
	if err != nil {
		return nil, err
	}

	var states []nodeState
	for line := range strings.Lines(out) {
		s, err := parseNode(line)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}

	return states, nil
}
