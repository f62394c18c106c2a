package release_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// newManifests returns manifests with file names. A name that ends with "!" is a Job.
func newManifests(names ...string) []release.Manifest {
	var all []release.Manifest
	for _, name := range names {
		kind := configMapKind
		if short, isJob := strings.CutSuffix(name, "!"); isJob {
			kind, name = "Job.v1.batch", short
		}
		all = append(all, newManifest(kind, name))
	}

	return all
}

// formatGraph returns a graph as text: a line for each node, with its tasks and dependencies.
func formatGraph(g release.Graph) []string {
	var lines []string
	for i, node := range g.Nodes {
		var names []string
		for _, task := range node.Tasks {
			names = append(names, strings.TrimPrefix(task.Manifest.Object.GetName(), "0000_"))
		}
		lines = append(lines, fmt.Sprintf("%d: %s %v", i, strings.Join(names, " "), node.After))
	}

	return lines
}

func TestNewGraph(t *testing.T) {
	mixed := newManifests("0000_10_a_1", "0000_10_b_1", "0000_10_b_2", "0000_20_a_1!", "0000_20_b_1", "0000_20_c_1", "README")
	for _, tc := range []struct {
		name      string
		mode      release.Mode
		manifests []release.Manifest
		want      []string
	}{
		{"nothing", release.Updating, nil, nil},
		{"one component in file order", release.Updating, newManifests("0000_10_a_1.crd", "0000_10_a_2.cr"), []string{"0: 10_a_1.crd 10_a_2.cr []"}},
		{
			"components of a level in parallel", release.Updating, newManifests("0000_10_a_1", "0000_10_a_2", "0000_10_b_1", "0000_20_c_1"),
			[]string{"0: 10_a_1 10_a_2 []", "1: 10_b_1 []", "2: 20_c_1 [0 1]"},
		},
		{
			"wide levels are joined", release.Updating, newManifests("0000_10_a_1", "0000_10_b_1", "0000_20_a_1", "0000_20_b_1"),
			[]string{"0: 10_a_1 []", "1: 10_b_1 []", "2:  [0 1]", "3: 20_a_1 [2]", "4: 20_b_1 [2]"},
		},
		{
			"levels of one component are one node", release.Updating, newManifests("0000_00_a_1", "0000_05_b_1", "0000_10_c_1", "0000_10_d_1", "0000_20_e_1", "0000_30_f_1"),
			[]string{"0: 00_a_1 05_b_1 []", "1: 10_c_1 [0]", "2: 10_d_1 [0]", "3: 20_e_1 30_f_1 [1 2]"},
		},
		{
			"a level of the own folder waits for lower levels of the other", release.Updating, newManifests("0000_00_cvo_1", "0000_90_cvo_2", "0000_03_a_1", "0000_90_a_2"),
			[]string{"0: 00_cvo_1 03_a_1 []", "1: 90_cvo_2 [0]", "2: 90_a_2 [0]"},
		},
		{"levels are numbers", release.Updating, newManifests("0000_100_a_1", "0000_20_a_1", "0000_020_a_2"), []string{"0: 20_a_1 020_a_2 100_a_1 []"}},
		{
			"names that do not parse keep their place", release.Updating, newManifests("0000_10_a_1", "0000_10_b_1", "bad", "worse", "0000_05_c_1", "0000_05_d_1"),
			[]string{"0: 10_a_1 []", "1: 10_b_1 []", "2: bad worse [0 1]", "3: 05_c_1 [2]", "4: 05_d_1 [2]"},
		},
		{"names that do not parse join what is serial", release.Updating, newManifests("0000_10_a_1", "bad", "0000_20_b_1"), []string{"0: 10_a_1 bad 20_b_1 []"}},
		{"a Job is a node of its own", release.Updating, newManifests("0000_10_a_1", "0000_10_a_2!", "0000_10_a_3"), []string{"0: 10_a_1 []", "1: 10_a_2 [0]", "2: 10_a_3 [1]"}},
		{"a Job whose name does not parse", release.Updating, newManifests("bad", "job!", "job2!", "worse"), []string{"0: bad []", "1: job [0]", "2: job2 [1]", "3: worse [2]"}},
		{"nothing moves across a Job", release.Updating, newManifests("0000_20_a_1", "0000_20_a_2!", "0000_10_a_1"), []string{"0: 20_a_1 []", "1: 20_a_2 [0]", "2: 10_a_1 [1]"}},
		{"mixed, updating", release.Updating, mixed, []string{"0: 10_a_1 []", "1: 10_b_1 10_b_2 []", "2: 20_a_1 [0 1]", "3: 20_b_1 [2]", "4: 20_c_1 [2]", "5: README [3 4]"}},
		{"mixed, initializing", release.Initializing, mixed, []string{"0: 10_a_1 []", "1: 10_b_1 10_b_2 []", "2: 20_a_1 [0 1]", "3: 20_b_1 [2]", "4: 20_c_1 [2]", "5: README [3 4]"}},
		{
			"levels do not matter to a new cluster", release.Initializing, newManifests("0000_10_a_1", "0000_20_a_1", "0000_20_a_2", "0000_30_b_1"),
			[]string{"0: 10_a_1 []", "1: 20_a_1 20_a_2 []", "2: 30_b_1 []"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := release.NewGraph(tc.manifests, tc.mode, 0)
			if diff := cmp.Diff(tc.want, formatGraph(g)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTaskNumbers(t *testing.T) {
	g := release.NewGraph(newManifests("0000_20_a_1", "0000_10_a_1", "0000_30_a_1"), release.Updating, 0)
	var got []int
	for _, task := range g.Nodes[0].Tasks {
		got = append(got, task.Number, task.Total)
	}

	if diff := cmp.Diff([]int{2, 3, 1, 3, 3, 3}, got); diff != "" {
		t.Errorf("numbers and totals, -want +got:\n%s", diff)
	}
}

// Reconciling runs each task once, in an order that depends on the attempt. The eight attempts
// of a permutation start at its eighths, and the ninth uses another one.
func TestReconcilingPermutation(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("0000_%02d_c%02d_1", i/4, i))
	}

	manifests := newManifests(names...)
	orders := map[string]int{}
	var first []string
	for attempt := range 16 {
		g := release.NewGraph(manifests, release.Reconciling, attempt)
		if diff := cmp.Diff(formatGraph(g), formatGraph(release.NewGraph(manifests, release.Reconciling, attempt))); diff != "" {
			t.Errorf("attempt %d, two orders (-first +second):\n%s", attempt, diff)
		}

		var order []string
		for _, node := range g.Nodes {
			if len(node.After) > 0 || len(node.Tasks) != 1 {
				t.Errorf("attempt %d: got %d tasks after %v, want one without dependencies", attempt, len(node.Tasks), node.After)
			}
			order = append(order, node.Tasks[0].Manifest.Object.GetName())
		}

		orders[strings.Join(order, " ")]++
		switch {
		case attempt == 0:
			first = slices.Clone(order)
		case attempt < 8:
			if rotated := slices.Concat(first[5*attempt:], first[:5*attempt]); !slices.Equal(order, rotated) {
				t.Errorf("attempt %d (-want +got):\n%s", attempt, cmp.Diff(rotated, order))
			}
		}

		slices.Sort(order)
		if !slices.Equal(order, names) {
			t.Errorf("attempt %d: got tasks %q, want %q", attempt, order, names)
		}
	}

	if len(orders) != 16 {
		t.Errorf("got %d orders in 16 attempts, want 16", len(orders))
	}
	if slices.Equal(first, names) {
		t.Error("got the order of the files in the first attempt, want a permutation")
	}
}

// Jobs and manifests whose names cannot be parsed keep their place in Reconciling, too.
func TestReconcilingKeepsBarriers(t *testing.T) {
	manifests := newManifests("0000_10_a_1", "0000_10_b_1", "0000_10_c_1", "0000_10_d_1!", "0000_10_e_1", "0000_10_f_1", "bad")
	for attempt := range 20 {
		g := release.NewGraph(manifests, release.Reconciling, attempt)
		var order []string
		for _, node := range g.Nodes {
			order = append(order, node.Tasks[0].Manifest.Object.GetName())
		}

		slices.Sort(order[:3])
		slices.Sort(order[4:6])
		want := []string{"0000_10_a_1", "0000_10_b_1", "0000_10_c_1", "0000_10_d_1", "0000_10_e_1", "0000_10_f_1", "bad"}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("attempt %d, -want +got:\n%s", attempt, diff)
		}
		if after := g.Nodes[3].After; len(after) != 3 {
			t.Errorf("attempt %d: got the Job after %v, want it after 3 nodes", attempt, after)
		}
	}
}
