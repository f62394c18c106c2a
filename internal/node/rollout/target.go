package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
	"github.com/mainstay-dev/mainstay/internal/reconcile"
)

// targetedNodes are the nodes that were targeted since the cache was updated, by name. Without them, a choice from an outdated cache
// could target too many nodes.
type targetedNodes map[string]targetedNode

// targetedNode is the desired configuration that was written to a node, and the resource version of the node before. The
// write required that version, so a node in the cache with any other version has the new configuration.
type targetedNode struct{ version, desired string }

// withPendingTarget returns a node from the cache, with the desired configuration that was written since.
func (t targetedNodes) withPendingTarget(node *corev1.Node) *corev1.Node {
	said, ok := t[node.Name]
	switch {
	case !ok:
		return node
	case said.version != node.ResourceVersion:
		delete(t, node.Name)
		return node
	}

	node = node.DeepCopy()
	annotateDesiredConfig(node, said.desired)
	return node
}

func annotateDesiredConfig(node *corev1.Node, desired string) {
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[mcfgv1.AnnotationDesiredConfig] = desired
}

// targetNodes assigns the configuration of the pool to as many nodes as maxUnavailable allows.
func (r *reconciler) targetNodes(ctx context.Context, pool *mcfgv1.MachineConfigPool, f *facts, d *decision) error {
	choice, err := pools.Choose(pool, f.nodes, r.Self)
	if err != nil {
		d.renderError = errors.Join(d.renderError, err)
		return nil
	}
	if choice.Deferred != nil {
		d.events = append(d.events, reconcile.Event{
			Reason: "DeferringOperatorNodeUpdate", Action: "Target", Note: "Deferring update of machine config operator node " + choice.Deferred.Name,
		})
	}

	var failed []error
	var done []*corev1.Node
	for _, node := range choice.Targets {
		err := r.setDesiredConfig(ctx, node, pool.Spec.Configuration.Name, f)
		switch {
		case err == nil:
			done = append(done, node)
		case !apierrors.IsNotFound(err): // The deletion of a node enqueues the pool.
			failed = append(failed, err)
		}
	}

	d.events = append(d.events, targetEvents(done, pool.Spec.Configuration.Name)...)
	for _, change := range changeTaints(f.nodes, choice) {
		failed = append(failed, client.IgnoreNotFound(r.updateTaint(ctx, change)))
	}

	return errors.Join(failed...)
}

// targetEvents returns the event for nodes that were assigned a configuration. The event of a single node names it as the
// related object: client-go counts an event with the same objects and reason as a repetition, and drops its note.
func targetEvents(nodes []*corev1.Node, config string) []reconcile.Event {
	e := reconcile.Event{Reason: "SetDesiredConfig", Action: "Target"}
	switch len(nodes) {
	case 0:
		return nil
	case 1:
		e.Related = nodes[0]
		e.Note = fmt.Sprintf("Targeted node %s to MachineConfig: %s", nodes[0].Name, config)
	default:
		e.Note = fmt.Sprintf("Set target for %d nodes to MachineConfig: %s", len(nodes), config)
	}

	return []reconcile.Event{e}
}

// setDesiredConfig assigns a configuration to a node.
func (r *reconciler) setDesiredConfig(ctx context.Context, node *corev1.Node, desired string, f *facts) error {
	changed := node.DeepCopy()
	annotateDesiredConfig(changed, desired)
	topology := mcfgv1.TopologyHighlyAvailable
	if f.allNodes == 1 {
		topology = mcfgv1.TopologySingleReplica
	}

	changed.Annotations[mcfgv1.AnnotationTopology] = topology
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isUpdateTaint)
	if err := r.patchNode(ctx, node, changed); err != nil {
		return err
	}

	r.targeted[node.Name] = targetedNode{version: node.ResourceVersion, desired: desired}
	// The next choice counts this node.
	for i := range f.nodes {
		if f.nodes[i].Name == node.Name {
			f.nodes[i] = changed
		}
	}

	return nil
}

// taintChange is a node whose taint must be added or removed.
type taintChange struct {
	node     *corev1.Node
	outdated bool
}

// changeTaints returns the nodes whose taint does not match the state of their update.
func changeTaints(nodes []*corev1.Node, choice *pools.Choice) []taintChange {
	outdated := map[string]bool{}
	for _, node := range choice.Outdated {
		outdated[node.Name] = true
	}

	var changes []taintChange
	for _, node := range nodes {
		isTarget := slices.ContainsFunc(choice.Targets, func(target *corev1.Node) bool { return target.Name == node.Name })
		if outdated[node.Name] != isTainted(node) && !isTarget {
			changes = append(changes, taintChange{node: node, outdated: outdated[node.Name]})
		}
	}

	return changes
}

// updateTaint adds or removes the taint of nodes whose update has not begun.
func (r *reconciler) updateTaint(ctx context.Context, change taintChange) error {
	if _, waits := r.targeted[change.node.Name]; waits {
		return nil // The cache is behind.
	}

	changed := change.node.DeepCopy()
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isUpdateTaint)
	if change.outdated {
		changed.Spec.Taints = append(changed.Spec.Taints, corev1.Taint{Key: mcfgv1.TaintUpdateInProgress, Effect: corev1.TaintEffectPreferNoSchedule})
	}

	return r.patchNode(ctx, change.node, changed)
}

// patchNode patches a node, with its resource version as precondition.
func (r *reconciler) patchNode(ctx context.Context, node, changed *corev1.Node) error {
	if err := r.client.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("changing node %q: %w", node.Name, err)
	}
	return nil
}

func isUpdateTaint(t corev1.Taint) bool { return t.Key == mcfgv1.TaintUpdateInProgress }

func isTainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isUpdateTaint) }
