package pools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
)

// Membership is the assignment of nodes to pools.
type Membership struct {
	// Nodes are the nodes of each pool by its name, in the order of their names.
	Nodes map[string][]*corev1.Node
	// Contested are nodes that more than one custom pool selects. No pool updates them.
	Contested []Contested
	// Invalid are pools whose node selector cannot be read, and why.
	Invalid map[string]error
}

// Contested is a node that more than one custom pool selects.
type Contested struct {
	Node *corev1.Node
	// Pools are their names, sorted.
	Pools []string
}

// Error implements error. The text names the pools and what to change.
func (c Contested) Error() string {
	return fmt.Sprintf("node %s belongs to %d custom pools, and is left alone: %s; change its labels or their node selectors so that one is left",
		c.Node.Name, len(c.Pools), strings.Join(c.Pools, ", "))
}

// Assign assigns nodes to pools. A node belongs to the first of these pools that selects it: master, arbiter, a custom pool, worker.
// A node that several custom pools select belongs to none of them.
func Assign(pools []*mcfgv1.MachineConfigPool, nodes []*corev1.Node) *Membership {
	m := &Membership{Nodes: map[string][]*corev1.Node{}, Invalid: map[string]error{}}
	selectors := map[string]labels.Selector{}
	for _, pool := range pools {
		// A nil selector selects nothing.
		selector, err := metav1.LabelSelectorAsSelector(pool.Spec.NodeSelector)
		if err != nil {
			m.Invalid[pool.Name] = fmt.Errorf("spec.nodeSelector: %w", err)
			continue
		}
		selectors[pool.Name] = selector
	}

	names := make([]string, 0, len(selectors))
	for name := range selectors {
		names = append(names, name)
	}

	slices.Sort(names)
	for _, node := range nodes {
		pool, claims := choosePool(node, names, selectors)
		switch {
		case len(claims) > 1:
			m.Contested = append(m.Contested, Contested{Node: node, Pools: claims})
		case pool != "":
			m.Nodes[pool] = append(m.Nodes[pool], node)
		}
	}

	byName := func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) }
	for _, members := range m.Nodes {
		slices.SortFunc(members, byName)
	}

	slices.SortFunc(m.Contested, func(a, b Contested) int { return byName(a.Node, b.Node) })
	return m
}

// choosePool returns the pool of a node, or the custom pools that select it when there are several.
func choosePool(node *corev1.Node, names []string, selectors map[string]labels.Selector) (pool string, claims []string) {
	var custom []string
	standard := map[string]bool{}
	for _, name := range names {
		if !selectors[name].Matches(labels.Set(node.Labels)) {
			continue
		}
		switch name {
		case mcfgv1.PoolMaster, mcfgv1.PoolArbiter, mcfgv1.PoolWorker:
			standard[name] = true
		default:
			custom = append(custom, name)
		}
	}

	switch {
	case standard[mcfgv1.PoolMaster]:
		return mcfgv1.PoolMaster, nil
	case standard[mcfgv1.PoolArbiter]:
		return mcfgv1.PoolArbiter, nil
	case len(custom) > 1:
		return "", custom
	case len(custom) == 1:
		return custom[0], nil
	case standard[mcfgv1.PoolWorker]:
		return mcfgv1.PoolWorker, nil
	}

	return "", nil
}
