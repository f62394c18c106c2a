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

// checkDefaultServiceAccount returns nil once the namespace "default" has its service account.
func (r *run) checkDefaultServiceAccount(ctx context.Context) error {
	_, err := r.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

// nodesReadyCheck returns a check that succeeds once each of the nodes has reported in this run, is ready and accepts
// pods.
func (r *run) nodesReadyCheck(names []string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, name := range names {
			node, err := r.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get node %s: %w", name, err)
			}
			if renewed, err := r.lastLeaseRenewal(ctx, name); err != nil {
				return err
			} else if !hasReportedSince(node, renewed, r.startedAt) {
				return fmt.Errorf("node %s has not reported in this run yet", name)
			}
			if reason := notReadyReason(node); reason != "" {
				return fmt.Errorf("node %s is not ready: %s", name, reason)
			}
		}
		return nil
	}
}

// lastLeaseRenewal returns when a node last renewed its lease, or the zero time if it never did.
func (r *run) lastLeaseRenewal(ctx context.Context, node string) (time.Time, error) {
	lease, err := r.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && lease.Spec.RenewTime == nil:
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("get the lease of node %s: %w", node, err)
	}

	return lease.Spec.RenewTime.Time, nil
}

// hasReportedSince reports whether a node has renewed its lease or sent a heartbeat since began. The Ready condition
// alone is not enough: the Node of an earlier run is still ready. A simulated node renews its lease at once and updates
// its conditions rarely. A kubelet does the opposite.
func hasReportedSince(node *corev1.Node, leaseRenewed, began time.Time) bool {
	if !leaseRenewed.Before(began) {
		return true
	}

	for _, condition := range node.Status.Conditions {
		// A heartbeat is in whole seconds.
		if condition.Type == corev1.NodeReady && !condition.LastHeartbeatTime.Time.Before(began.Truncate(time.Second)) {
			return true
		}
	}

	return false
}

// notReadyReason returns why a node accepts no pods, or "" if it does.
func notReadyReason(node *corev1.Node) string {
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
		// The controller manager removes the taint shortly after the node is ready. Until then, no pod is scheduled.
		if taint.Key == corev1.TaintNodeNotReady && ready == "" {
			return "it still has the taint " + taint.Key
		}
	}

	return ready
}

func simulatedNodeNames(count int) []string {
	names := make([]string, count)
	for number := range names {
		names[number] = simulated.NodeName(number)
	}
	return names
}

// describeNodeNames returns the names of the nodes for display: "node-0", or "node-0 to node-4".
func describeNodeNames(count int) string {
	names := simulatedNodeNames(count)
	if count <= 2 {
		return strings.Join(names, ", ")
	}
	return names[0] + " to " + names[count-1]
}
