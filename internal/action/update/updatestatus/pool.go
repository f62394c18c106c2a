package updatestatus

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// Node is the update status of a node.
type Node struct {
	pools.NodeState

	// Version is the release version of the node's configuration. It is empty if that is
	// unknown.
	Version string `json:"version,omitempty"`
	// NotReady reports whether the condition Ready of the node is not true. NotReadySince
	// is when that started.
	NotReady      bool      `json:"notReady,omitempty"`
	NotReadySince time.Time `json:"notReadySince,omitzero"`
	// DrainBlocked reports whether something blocks the drain of the node; the message
	// describes it. DrainingSince is when the drain started.
	DrainBlocked  bool      `json:"drainBlocked,omitempty"`
	DrainingSince time.Time `json:"drainingSince,omitzero"`
}

// Summary contains the numbers of nodes by state.
type Summary struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	// Available is the number of schedulable nodes.
	Available   int `json:"available"`
	Progressing int `json:"progressing"`
	Outdated    int `json:"outdated"`
	// Draining is the number of progressing nodes that are being drained.
	Draining int `json:"draining"`
	Excluded int `json:"excluded"`
	Degraded int `json:"degraded"`
}

// Summarize counts nodes by state.
func Summarize(nodes []Node) Summary {
	s := Summary{Total: len(nodes)}
	for i := range nodes {
		switch n := &nodes[i]; n.Assessment {
		case pools.AssessedCompleted:
			s.Completed++
		case pools.AssessedProgressing:
			s.Progressing++
		case pools.AssessedOutdated:
			s.Outdated++
		case pools.AssessedExcluded:
			s.Excluded++
		case pools.AssessedDegraded:
			s.Degraded++
		}
		if nodes[i].Phase == pools.PhaseDraining {
			s.Draining++
		}
		if nodes[i].Assessment != pools.AssessedUnavailable && !nodes[i].IsUnderWay() {
			s.Available++
		}
	}

	return s
}

// Percent returns the percentage of updated nodes.
func (s Summary) Percent() int { return roundedPercent(s.Completed, s.Total) }

// Pool is the update status of the nodes of a pool.
type Pool struct {
	Name       string     `json:"name"`
	Assessment Assessment `json:"assessment"`
	Summary
	// Nodes are sorted by need of attention, progress and name.
	Nodes []Node `json:"nodes"`
}

// IsAt reports whether all nodes are known to run a version.
func (p *Pool) IsAt(version string) bool {
	return version != "" && !slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Version != version || n.Phase != pools.PhaseUpdated })
}

// assessPools returns the status of all pools that have nodes.
func assessPools(in *Input) (controlPlane *Pool, workers []Pool) {
	list := pointersTo(in.Pools)
	slices.SortFunc(list, func(a, b *mcfgv1.MachineConfigPool) int { return cmp.Compare(a.Name, b.Name) })
	members := pools.Assign(list, pointersTo(in.Nodes)).Nodes
	for _, pool := range list {
		if len(members[pool.Name]) == 0 {
			continue
		}
		assessed := in.assessPool(pool, members[pool.Name])
		if pool.Name == mcfgv1.PoolMaster {
			controlPlane = &assessed
		} else {
			workers = append(workers, assessed)
		}
	}

	return controlPlane, workers
}

// assessPool returns the status of a pool with its nodes.
func (in *Input) assessPool(pool *mcfgv1.MachineConfigPool, nodes []*corev1.Node) Pool {
	p := Pool{Name: pool.Name}
	target := in.ClusterVersion.Status.History[0].Version
	for _, node := range nodes {
		n := Node{NodeState: pools.Assess(node, pool), Version: in.Versions[pools.Current(node)]}
		n.NotReady = !pools.IsReady(node)
		n.DrainBlocked, n.DrainingSince = pools.DrainBlocker(node) != "", pools.DrainStarted(node)
		if n.Version != "" && n.Version != target {
			n.NodeState = n.Behind(pool.Spec.Paused)
		}

		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				n.NotReadySince = c.LastTransitionTime.Time
			}
		}

		p.Nodes = append(p.Nodes, n)
	}

	slices.SortFunc(p.Nodes, func(a, b Node) int { return pools.CompareNodeStates(a.NodeState, b.NodeState) })
	p.Summary = Summarize(p.Nodes)
	switch {
	case p.Degraded > 0:
		p.Assessment = Degraded
	case p.Completed == p.Total:
		p.Assessment = Completed
	case p.Progressing > 0:
		p.Assessment = Progressing
	case pool.Spec.Paused:
		p.Assessment = Excluded
	default:
		p.Assessment = Pending
	}

	return p
}

func pointersTo[T any](items []T) []*T {
	found := make([]*T, 0, len(items))
	for i := range items {
		found = append(found, &items[i])
	}
	return found
}
