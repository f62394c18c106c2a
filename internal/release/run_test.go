package release_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// newDiamondGraph returns a graph: two components of a level between one before and one after, followed
// by a level of two.
func newDiamondGraph() release.Graph {
	return release.NewGraph(newManifests("0000_10_a_1", "0000_20_b_1", "0000_20_c_1", "0000_20_c_2", "0000_30_d_1", "0000_40_e_1", "0000_40_f_1"), release.Updating, 0)
}

// taskRecorder records tasks and fails when requested.
type taskRecorder struct {
	mu   sync.Mutex
	done []string
	fail map[string]error
}

func (r *taskRecorder) do(_ context.Context, task release.Task) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := strings.TrimPrefix(task.Manifest.Object.GetName(), "0000_")
	r.done = append(r.done, name)
	return r.fail[name]
}

func TestRunInOrder(t *testing.T) {
	errC, errE := errors.New("c failed"), errors.New("e failed")
	for name, tc := range map[string]struct {
		fail   map[string]error
		done   string
		errors []string
	}{
		"no failure":                {nil, "10_a_1 20_b_1 20_c_1 20_c_2 30_d_1 40_e_1 40_f_1", nil},
		"the first fails":           {map[string]error{"10_a_1": errC}, "10_a_1", []string{"node 0: c failed"}},
		"a node ends at a failure":  {map[string]error{"20_c_1": errC}, "10_a_1 20_b_1 20_c_1", []string{"node 2: c failed"}},
		"neighbours go on":          {map[string]error{"20_b_1": errC}, "10_a_1 20_b_1 20_c_1 20_c_2", []string{"node 1: c failed"}},
		"all errors are returned":   {map[string]error{"20_b_1": errC, "20_c_2": errE}, "10_a_1 20_b_1 20_c_1 20_c_2", []string{"node 1: c failed", "node 2: e failed"}},
		"nothing follows a failure": {map[string]error{"40_e_1": errE}, "10_a_1 20_b_1 20_c_1 20_c_2 30_d_1 40_e_1 40_f_1", []string{"node 4: e failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &taskRecorder{fail: tc.fail}
			var got []string
			for _, err := range newDiamondGraph().Run(t.Context(), 1, release.RunSerially(r.do)) {
				var failed *release.NodeError
				if !errors.As(err, &failed) {
					t.Fatalf("got error %v, want a *release.NodeError", err)
				}
				if !errors.Is(err, errC) && !errors.Is(err, errE) {
					t.Errorf("got error %v, want that of the work", err)
				}
				got = append(got, fmt.Sprintf("node %d: %v", failed.Node, failed))
			}

			if diff := cmp.Diff(tc.errors, got); diff != "" {
				t.Errorf("errors, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.done, strings.Join(r.done, " ")); diff != "" {
				t.Errorf("done, -want +got:\n%s", diff)
			}
		})
	}
}

func TestRunErrorOrder(t *testing.T) {
	g := release.Graph{Nodes: make([]release.Node, 3)}
	for i := range g.Nodes {
		g.Nodes[i].Tasks = release.NewGraph(newManifests(fmt.Sprintf("0000_10_c%d_1", i)), release.Updating, 0).Nodes[0].Tasks
	}

	// Each node ends after the next one.
	ends := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	errs := g.Run(t.Context(), 3, func(_ context.Context, node release.Node) error {
		name := node.Tasks[0].Manifest.Object.GetName()
		i := slices.Index([]string{"0000_10_c0_1", "0000_10_c1_1", "0000_10_c2_1"}, name)
		if i < 2 {
			<-ends[i+1]
		}

		close(ends[i])
		return errors.New(name)
	})
	if got := fmt.Sprint(errs); got != "[0000_10_c0_1 0000_10_c1_1 0000_10_c2_1]" {
		t.Errorf("got errors %s, want those of the three components in order", got)
	}
}

// Two components of a level run in parallel, and never more nodes than allowed.
func TestRunInParallel(t *testing.T) {
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("0000_10_c%d_1", i))
	}

	g := release.NewGraph(append(newManifests(names...), newManifests("0000_20_c_1")...), release.Updating, 0)
	for maxParallel, want := range map[int][]int{
		-1: {1, 1, 1, 1, 1, 1},
		1:  {1, 1, 1, 1, 1, 1},
		2:  {2, 2, 2, 2, 1, 1},
		16: {5, 4, 3, 2, 1, 1},
	} {
		t.Run(strconv.Itoa(maxParallel), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := make(chan string, 10)
				end, ended := make(chan struct{}), make(chan []error)
				go func() {
					ended <- g.Run(t.Context(), maxParallel, func(_ context.Context, node release.Node) error {
						begun <- node.Tasks[0].Manifest.Object.GetName()
						<-end
						return nil
					})
				}()

				var got []int
				total := 0
				for range 6 {
					synctest.Wait()
					total += len(begun)
					for range len(begun) {
						if name := <-begun; name == "0000_20_c_1" && len(got) != 5 {
							t.Errorf("level 20 started after %d nodes of level 10, want after 5", len(got))
						}
					}

					got = append(got, total-len(got))
					end <- struct{}{}
				}

				if errs := <-ended; len(errs) > 0 {
					t.Errorf("got errors %v, want none", errs)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("nodes in progress, -want +got:\n%s", diff)
				}
			})
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &taskRecorder{}
	errs := newDiamondGraph().Run(ctx, 2, release.RunSerially(func(ctx context.Context, task release.Task) error {
		if task.Manifest.Object.GetName() == "0000_20_c_1" {
			cancel()
		}
		return r.do(ctx, task)
	}))

	for _, name := range r.done {
		if strings.HasSuffix(name, "20_c_2") || name > "30" {
			t.Errorf("%s was started after the context was canceled", name)
		}
	}

	if len(errs) == 0 || !errors.Is(errs[len(errs)-1], context.Canceled) || !strings.Contains(errs[len(errs)-1].Error(), "of 6 nodes of the task graph were not done") {
		t.Errorf("got errors %v, want context.Canceled with the number of nodes that were not done", errs)
	}

	before := &taskRecorder{}
	if errs := newDiamondGraph().Run(ctx, 2, release.RunSerially(before.do)); len(errs) != 1 || len(before.done) > 0 {
		t.Errorf("with a canceled context: got errors %v and tasks %q, want one error and no tasks", errs, before.done)
	}

	ctx, cancel = context.WithCancel(t.Context())
	last := release.NewGraph(newManifests("0000_10_a_1"), release.Updating, 0)
	if errs := last.Run(ctx, 1, func(context.Context, release.Node) error { cancel(); return nil }); len(errs) > 0 {
		t.Errorf("got errors %v when the context was canceled in the last node, want none", errs)
	}
}

func TestRunRefusesOtherGraphs(t *testing.T) {
	for _, after := range []int{1, 2, 7, -1} {
		g := release.Graph{Nodes: []release.Node{{}, {After: []int{after}}, {After: []int{0}}}}
		errs := g.Run(t.Context(), 1, func(context.Context, release.Node) error {
			t.Error("got a call of the work for an invalid graph, want none")
			return nil
		})
		if len(errs) != 1 {
			t.Errorf("after %d: got errors %v, want 1", after, errs)
		}
	}

	if errs := (release.Graph{}).Run(t.Context(), 1, nil); len(errs) != 0 {
		t.Errorf("an empty graph: got errors %v, want none", errs)
	}
}
