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

// told are nodes that were told, by their names, until the cache shows it: a choice that did not
// know of them might tell others too.
type told map[string]telling

// telling is what a node was told, and the version of the node that was changed by it. The write
// was refused unless the node was at that version, so that any other one has it.
type telling struct{ version, desired string }

// overlay returns a node as it is: as the cache has it, or as it was told to be since.
func (t told) overlay(node *corev1.Node) *corev1.Node {
	said, ok := t[node.Name]
	switch {
	case !ok:
		return node
	case said.version != node.ResourceVersion:
		delete(t, node.Name)
		return node
	}

	node = node.DeepCopy()
	setDesired(node, said.desired)
	return node
}

func setDesired(node *corev1.Node, desired string) {
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[mcfgv1.AnnotationDesiredConfig] = desired
}

// target tells nodes to take the configuration of the pool, as many as there is room for.
func (a *attempt) target(ctx context.Context, pool *mcfgv1.MachineConfigPool) error {
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
		if err := a.tell(ctx, node, pool.Spec.Configuration.Name); err != nil {
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
			failed = append(failed, a.taint(ctx, node, outdated[node.Name]))
		}
	}

	return errors.Join(failed...)
}

// tell has a node take a configuration.
func (a *attempt) tell(ctx context.Context, node *corev1.Node, desired string) error {
	changed := node.DeepCopy()
	setDesired(changed, desired)
	topology := mcfgv1.TopologyHighlyAvailable
	if a.allNodes == 1 {
		topology = mcfgv1.TopologySingleReplica
	}

	changed.Annotations[mcfgv1.AnnotationTopology] = topology
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isUpdateTaint)
	written, err := a.patch(ctx, node, changed)
	if err != nil || !written {
		return err
	}

	a.told[node.Name] = telling{version: node.ResourceVersion, desired: desired}
	// What is counted next counts this one.
	for i := range a.nodes {
		if a.nodes[i].Name == node.Name {
			a.nodes[i] = changed
		}
	}

	return nil
}

// taint marks a node as one whose turn comes, or takes the mark away.
func (a *attempt) taint(ctx context.Context, node *corev1.Node, outdated bool) error {
	if _, waits := a.told[node.Name]; waits {
		return nil // The cache is behind.
	}

	changed := node.DeepCopy()
	changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, isUpdateTaint)
	if outdated {
		changed.Spec.Taints = append(changed.Spec.Taints, corev1.Taint{Key: mcfgv1.TaintUpdateInProgress, Effect: corev1.TaintEffectPreferNoSchedule})
	}

	_, err := a.patch(ctx, node, changed)
	return err
}

// patch writes a node, unless somebody else has changed it since it was read: then it is looked at
// again.
func (a *attempt) patch(ctx context.Context, node, changed *corev1.Node) (bool, error) {
	err := a.client.Patch(ctx, changed, client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		a.again = conflictPause
		return false, nil
	case err != nil:
		return false, fmt.Errorf("changing node %q: %w", node.Name, err)
	}

	return true, nil
}

func isUpdateTaint(t corev1.Taint) bool { return t.Key == mcfgv1.TaintUpdateInProgress }

func isTainted(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isUpdateTaint) }
