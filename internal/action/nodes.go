package action

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// PoolState is a pool with its nodes.
type PoolState struct {
	mcfgv1.MachineConfigPool `json:"pool"`

	// Nodes are sorted by need of attention, progress and name.
	Nodes []pools.NodeState `json:"nodes,omitempty"`
}

// PoolStates is the state of the pools.
type PoolStates struct {
	// Pools are sorted by name.
	Pools []PoolState `json:"pools"`
	// Problems are nodes that several pools select, and pools with an invalid selector.
	Problems []string `json:"problems,omitempty"`
}

// NodesStatus reads the state of pools and their nodes.
type NodesStatus struct {
	Client client.Client
	// Pool is the name of a single pool. Empty means all.
	Pool string
}

// Run returns the state of the pools.
func (s *NodesStatus) Run(ctx context.Context) (*PoolStates, error) {
	var list mcfgv1.MachineConfigPoolList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, NewServerError("machineconfigpools", err)
	}
	if s.Pool != "" && !slices.ContainsFunc(list.Items, func(p mcfgv1.MachineConfigPool) bool { return p.Name == s.Pool }) {
		return nil, newPoolNotFoundError(s.Pool)
	}

	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes); err != nil {
		return nil, NewServerError("nodes", err)
	}

	return assessPoolStates(list.Items, nodes.Items, s.Pool), nil
}

// assessPoolStates returns the state of pools and their nodes. If only is set, it returns
// that pool alone.
func assessPoolStates(list []mcfgv1.MachineConfigPool, nodes []corev1.Node, only string) *PoolStates {
	slices.SortFunc(list, func(a, b mcfgv1.MachineConfigPool) int { return cmp.Compare(a.Name, b.Name) })
	membership := pools.Assign(pointersTo(list), pointersTo(nodes))
	state := &PoolStates{Pools: []PoolState{}}
	for i := range list {
		pool := PoolState{MachineConfigPool: list[i]}
		pool.ManagedFields = nil
		if only != "" && pool.Name != only {
			continue
		}
		if err := membership.Invalid[pool.Name]; err != nil {
			state.Problems = append(state.Problems, fmt.Sprintf("pool %s: %v", pool.Name, err))
		}

		for _, node := range membership.Nodes[pool.Name] {
			pool.Nodes = append(pool.Nodes, pools.Assess(node, &pool.MachineConfigPool))
		}

		slices.SortFunc(pool.Nodes, pools.CompareNodeStates)
		state.Pools = append(state.Pools, pool)
	}

	for _, contested := range membership.Contested {
		if only == "" || slices.Contains(contested.Pools, only) {
			state.Problems = append(state.Problems, contested.Error())
		}
	}

	return state
}

func pointersTo[T any](items []T) []*T {
	found := make([]*T, 0, len(items))
	for i := range items {
		found = append(found, &items[i])
	}
	return found
}

func describePool(name string) string { return fmt.Sprintf("machineconfigpool %q", name) }

func newPoolNotFoundError(name string) error {
	return &report.Error{
		Object: describePool(name), Err: &report.Reworded{Text: "not found"}, Advice: "'mainstay nodes status' shows those that exist",
	}
}

// PoolPause pauses or resumes a pool of nodes.
type PoolPause struct {
	Client client.Client
	// Pool is the name of the pool.
	Pool string
	// Paused is the new value of spec.paused.
	Paused bool
}

// Run returns the pool before and after the change.
func (a *PoolPause) Run(ctx context.Context) (before, after *mcfgv1.MachineConfigPool, err error) {
	pool := &mcfgv1.MachineConfigPool{}
	err = a.Client.Get(ctx, client.ObjectKey{Name: a.Pool}, pool)
	if apierrors.IsNotFound(err) && !IsUnknownKind(err) {
		return nil, nil, newPoolNotFoundError(a.Pool)
	}
	if err != nil {
		return nil, nil, NewServerError(describePool(a.Pool), err)
	}

	before = pool.DeepCopy()
	if pool.Spec.Paused == a.Paused {
		return before, pool, nil
	}

	pool.Spec.Paused = a.Paused
	if err := a.Client.Patch(ctx, pool, client.MergeFrom(before)); err != nil {
		return nil, nil, NewServerError(describePool(a.Pool), err)
	}

	return before, pool, nil
}

// Names returns the names of all pools.
func (s *NodesStatus) Names(ctx context.Context) ([]string, error) {
	var list mcfgv1.MachineConfigPoolList
	if err := s.Client.List(ctx, &list); err != nil {
		return nil, NewServerError("machineconfigpools", err)
	}

	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}

	return names, nil
}
