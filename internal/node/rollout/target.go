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
)

// targetedNodes are nodes that were told, by their names, until the cache shows it: a choice that did not
// know of them might tell others too.
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
func (a *attempt) targetNodes(ctx context.Context, pool *mcfgv1.MachineConfigPool) error {
	choice, err := pools.Choose(pool, a.nodes, a.Self)
	if err != nil {
		a.renderError = errors.Join(a.renderError, err)
		return nil
	}
	if choice.Deferred != nil {
		a.events.Eventf(pool, nil, corev1.EventTypeNormal, "DeferringOperatorNodeUpdate", "Target", "Deferring update of machine config operator node %s", choice.Deferred.Name)
	}

	var failed []error
	var done []string
	for _, node := range choice.Targets {
		if err := a.setDesiredConfig(ctx, node, pool.Spec.Configuration.Name); err != nil {
			failed = append(failed, err)
			continue
		}
		done = append(done, node.Name)
	}

	switch len(done) {
	case 0:
	case 1:
		a.events.Eventf(pool, nil, corev1.EventTypeNormal, "SetDesiredConfig", "Target", "Targeted node %s to MachineConfig: %s", done[0], pool.Spec.Configuration.Name)
	default:
		a.events.Eventf(pool, nil, corev1.EventTypeNormal, "SetDesiredConfig", "Target", "Set target for %d nodes to MachineConfig: %s", len(done), pool.Spec.Configuration.Name)
	}

	outdated := map[string]bool{}
	for _, node := range choice.Outdated {
		outdated[node.Name] = true
	}

	for _, node := range a.nodes {
		if outdated[node.Name] != isTainted(node) && !slices.Contains(choice.Targets, node) {
			failed = append(failed, a.updateTaint(ctx, node, outdated[node.Name]))
		}
	}

	return errors.Join(failed...)
}

// setDesiredConfig assigns a configuration to a node.
func (a *attempt) setDesiredConfig(ctx context.Context, node *corev1.Node, desired string) error {
	changed := node.DeepCopy()
	annotateDesiredConfig(changed, desired)
	topology := mcfgv1.TopologyHighlyAvailable
	if a.allNodes == 1 {
		topology = mcfgv1.TopologySingleReplica
	}

	changed.Annotations[mcfgv1.AnnotationTopology] = topology
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isUpdateTaint)
	written, err := a.patchNode(ctx, node, changed)
	if err != nil || !written {
		return err
	}

	a.targeted[node.Name] = targetedNode{version: node.ResourceVersion, desired: desired}
	// The next choice counts this node.
	for i := range a.nodes {
		if a.nodes[i].Name == node.Name {
			a.nodes[i] = changed
		}
	}

	return nil
}

// updateTaint adds or removes the taint of nodes whose update has not begun.
func (a *attempt) updateTaint(ctx context.Context, node *corev1.Node, outdated bool) error {
	if _, waits := a.targeted[node.Name]; waits {
		return nil // The cache is behind.
	}

	changed := node.DeepCopy()
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isUpdateTaint)
	if outdated {
		changed.Spec.Taints = append(changed.Spec.Taints, corev1.Taint{Key: mcfgv1.TaintUpdateInProgress, Effect: corev1.TaintEffectPreferNoSchedule})
	}

	_, err := a.patchNode(ctx, node, changed)
	return err
}

// patchNode patches a node. After a conflict it returns false, and the pool is reconciled again.
func (a *attempt) patchNode(ctx context.Context, node, changed *corev1.Node) (bool, error) {
	err := a.client.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		a.requeueAfter = conflictRetryInterval
		return false, nil
	case err != nil:
		return false, fmt.Errorf("changing node %q: %w", node.Name, err)
	}

	return true, nil
}

func isUpdateTaint(t corev1.Taint) bool { return t.Key == mcfgv1.TaintUpdateInProgress }

func isTainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isUpdateTaint) }
