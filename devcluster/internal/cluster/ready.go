package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/devcluster/internal/simulated"
)

// defaultServiceAccount returns no error once the namespace "default" has its service account.
func (r *run) defaultServiceAccount(ctx context.Context) error {
	_, err := r.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// nodesReady returns no error once every node of these names has been heard of in this run, is ready and takes pods.
func (r *run) nodesReady(names []string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			node, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get node %s: %w", name, err)
			}
			if renewed, err := r.leaseRenewed(ctx, name); err != nil {
				return err
			} else if !heardOf(node, renewed, r.began) {
				return fmt.Errorf("node %s has not reported in this run yet", name)
			}
			if reason := nodeUnready(node); reason != "" {
				return fmt.Errorf("node %s is not ready: %s", name, reason)
			}
		}
		return nil
	}
}

// leaseRenewed is when a node renewed its lease last, the zero time if it never did.
func (r *run) leaseRenewed(ctx context.Context, node string) (time.Time, error) {
	lease, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && lease.Spec.RenewTime == nil:
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("get the lease of node %s: %w", node, err)
	}

	return lease.Spec.RenewTime.Time, nil
}

// heardOf reports whether a node has given a sign of life since began. The Node of a cluster that ran before is ready by what
// it said then. A simulated node renews its lease at once and its conditions rarely; a kubelet does it the other way round.
func heardOf(node *corev1.Node, leaseRenewed, began time.Time) bool {
	if !leaseRenewed.Before(began) {
		return true
	}

	for _, condition := range node.Status.Conditions {
		// A heartbeat is told in whole seconds.
		if condition.Type == corev1.NodeReady && !condition.LastHeartbeatTime.Time.Before(began.Truncate(time.Second)) {
			return true
		}
	}

	return false
}

// nodeUnready says why a node takes no pods, "" when it does.
func nodeUnready(node *corev1.Node) string {
	ready := "it has not reported yet"
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		ready = ""
		if condition.Status != corev1.ConditionTrue {
			ready = condition.Message
			if ready == "" {
				ready = "condition Ready is " + string(condition.Status)
			}
		}
	}

	for _, taint := range node.Spec.Taints {
		// The controller manager takes it away a moment after the node is ready; until then no pod is scheduled.
		if taint.Key == corev1.TaintNodeNotReady && ready == "" {
			return "it still has the taint " + taint.Key
		}
	}

	return ready
}

func simulatedNames(count int) []string {
	names := make([]string, count)
	for number := range names {
		names[number] = simulated.NodeName(number)
	}
	return names
}

// nodeNames are the names for people: "node-0", or "node-0 to node-4".
func nodeNames(count int) string {
	names := simulatedNames(count)
	if count <= 2 {
		return strings.Join(names, ", ")
	}
	return names[0] + " to " + names[count-1]
}
