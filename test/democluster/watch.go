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

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// nodeFields are the fields of a line of the watch, one for each field of a nodeState.
const nodeFields = `jsonpath={.metadata.name}|{.spec.unschedulable}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/state}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/currentConfig}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/desiredConfig}` +
	`|{.metadata.annotations.machineconfiguration\.openshift\.io/lastAppliedDrain}{"\n"}`

// nodeState is the state of a node's update.
type nodeState struct {
	name     string
	cordoned bool
	// state is reported by the daemon. current and desired are names of configurations.
	state, current, desired string
	// drained is set if the node's pods have been evicted.
	drained bool
}

// isDone reports whether the node has its desired configuration and is uncordoned.
func (s nodeState) isDone() bool {
	return !s.cordoned && s.state == "Done" && s.current != "" && s.current == s.desired
}

func parseNodeState(line string) (nodeState, error) {
	f := strings.Split(strings.TrimSpace(line), "|")
	if len(f) != 6 {
		return nodeState{}, fmt.Errorf("reading nodes: %q has not 6 fields", line)
	}
	return nodeState{name: f[0], cordoned: f[1] == "true", state: f[2], current: f[3], desired: f[4], drained: strings.HasPrefix(f[5], "drain-")}, nil
}

// nodeUpdate is the update of a node, with the time at which each step was seen.
type nodeUpdate struct {
	node                                   string
	cordoned, drained, updated, uncordoned time.Duration
}

// nodeWatcher watches the nodes.
type nodeWatcher struct {
	cmd   *exec.Cmd
	began time.Time
	done  chan struct{}

	mu      sync.Mutex
	last    map[string]nodeState
	updates map[string]*nodeUpdate
	// maxCordoned is the maximum number of nodes that were cordoned at the same time.
	maxCordoned int
	err         error
}

// startNodeWatcher starts to watch the nodes.
func startNodeWatcher(kubeconfig string) (*nodeWatcher, error) {
	w := &nodeWatcher{began: time.Now(), done: make(chan struct{}), last: map[string]nodeState{}, updates: map[string]*nodeUpdate{}}
	w.cmd = exec.Command(filepath.Join("bin", "k8s", "kubectl"), "get", "nodes", "--watch", "-o", nodeFields) // It outlives the step that starts it.
	w.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}

	go w.readLines(out)
	return w, nil
}

func (w *nodeWatcher) readLines(out io.Reader) {
	defer close(w.done)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		s, err := parseNodeState(lines.Text())
		w.mu.Lock()
		w.err = cmp.Or(w.err, err)
		w.recordState(s)
		w.mu.Unlock()
	}
}

// recordState records the state of a node. The server sends the changes of all nodes in their
// order.
func (w *nodeWatcher) recordState(s nodeState) {
	at := time.Since(w.began)
	before := w.last[s.name]
	w.last[s.name] = s
	t := w.updates[s.name]
	if s.cordoned && !before.cordoned && t == nil {
		t = &nodeUpdate{node: s.name, cordoned: at}
		w.updates[s.name] = t
	}

	if t != nil {
		note := func(when *time.Duration, is bool) {
			if is && *when == 0 {
				*when = at
			}
		}
		note(&t.drained, s.drained)
		note(&t.updated, s.current == s.desired)
		note(&t.uncordoned, s.isDone())
	}

	away := 0
	for _, s := range w.last {
		if s.cordoned {
			away++
		}
	}

	w.maxCordoned = max(w.maxCordoned, away)
}

// checkUpdateBegun returns an error unless a node has been cordoned.
func (w *nodeWatcher) checkUpdateBegun() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.updates) == 0 {
		return errors.Join(errors.New("no node is cordoned yet"), w.err)
	}
	return nil
}

// reportUpdates returns a line for the update of each node, in order. It returns an error if a
// node was not updated, or if two nodes were cordoned at the same time.
func (w *nodeWatcher) reportUpdates(nodes []string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var wrong []error
	var turns []*nodeUpdate
	for _, node := range nodes {
		t := w.updates[node]
		if t == nil || t.drained == 0 || t.updated == 0 || t.uncordoned == 0 {
			wrong = append(wrong, fmt.Errorf("node %s was not cordoned, drained, updated and uncordoned: %+v", node, w.last[node]))
			continue
		}
		turns = append(turns, t)
	}

	if w.maxCordoned > 1 {
		wrong = append(wrong, fmt.Errorf("%d nodes were away at once, not one after the other", w.maxCordoned))
	}

	slices.SortFunc(turns, func(a, b *nodeUpdate) int { return cmp.Compare(a.cordoned, b.cordoned) })
	var lines strings.Builder
	for _, t := range turns {
		fmt.Fprintf(&lines, "%s: cordoned after %.1f s, drained %.1f s, updated %.1f s, uncordoned %.1f s\n",
			t.node, t.cordoned.Seconds(), t.drained.Seconds(), t.updated.Seconds(), t.uncordoned.Seconds())
	}

	return lines.String(), errors.Join(append(wrong, w.err)...)
}

// stopWatching ends the watch, which does not end by itself.
func (w *nodeWatcher) stopWatching() {
	_ = w.cmd.Process.Kill() // It may have ended by itself.
	<-w.done
	_ = w.cmd.Wait() // It was killed.
}

// listNodeStates returns the current state of the nodes.
func listNodeStates(ctx context.Context, c *cluster.Cluster) ([]nodeState, error) {
	out, err := c.Kubectl(ctx, "get", "nodes", "-o", strings.Replace(nodeFields, "jsonpath=", "jsonpath={range .items[*]}", 1)+"{end}")
	if err != nil {
		return nil, err
	}

	var states []nodeState
	for line := range strings.Lines(out) {
		s, err := parseNodeState(line)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}

	return states, nil
}
