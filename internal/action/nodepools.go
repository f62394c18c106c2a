package action

import (
	"fmt"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// PoolSummary is a pool of nodes for display.
type PoolSummary struct {
	Name string `json:"name"`
	// ControlPlane reports whether it is the pool of the control plane, which updates never leave out.
	ControlPlane bool `json:"controlPlane,omitempty"`
	Paused       bool `json:"paused,omitempty"`
	// Total and Updated are numbers of nodes.
	Total   int `json:"total"`
	Updated int `json:"updated"`
	// State is the state in one word, and Text a sentence for people.
	State string `json:"state" enum:"Degraded,Paused,Updating,UpToDate,Waiting"`
	Text  string `json:"text"`
	// Nodes are sorted by need of attention, progress and name.
	Nodes []pools.NodeState `json:"nodes,omitempty"`
}

// Summarize returns the pool for display.
func (s *PoolState) Summarize() PoolSummary {
	summary := PoolSummary{
		Name: s.Name, ControlPlane: s.Name == mcfgv1.PoolMaster, Paused: s.Spec.Paused, Total: len(s.Nodes), Nodes: s.Nodes,
	}
	degraded, updating := 0, 0
	for i := range s.Nodes {
		switch s.Nodes[i].Assessment {
		case pools.AssessedCompleted:
			summary.Updated++
		case pools.AssessedDegraded:
			degraded++
		case pools.AssessedProgressing:
			updating++
		}
	}

	behind := summary.Total - summary.Updated
	switch {
	case degraded > 0:
		summary.State, summary.Text = "Degraded", fmt.Sprintf("%d of %d nodes have failed.", degraded, summary.Total)
	case s.Spec.Paused && behind > 0:
		summary.State, summary.Text = "Paused", fmt.Sprintf("The pool is paused. %d of %d nodes wait for a change.", behind, summary.Total)
	case s.Spec.Paused:
		summary.State, summary.Text = "Paused", "The pool is paused. No change waits for its nodes."
	case updating > 0:
		summary.State, summary.Text = "Updating", fmt.Sprintf("%d of %d nodes are updated.", summary.Updated, summary.Total)
	case behind == 0:
		summary.State, summary.Text = "UpToDate", fmt.Sprintf("All %d nodes have the configuration of the pool.", summary.Total)
	default:
		summary.State, summary.Text = "Waiting", fmt.Sprintf("%d of %d nodes wait for their update.", behind, summary.Total)
	}
	return summary
}
