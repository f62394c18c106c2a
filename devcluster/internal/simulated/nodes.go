package simulated

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/version"
)

// NodeName returns the name of the node with the given number. Numbers start at 0.
func NodeName(number int) string { return namePrefix + strconv.Itoa(number) }

const namePrefix = "node-"

// ensureNodes creates the missing nodes and deletes the nodes of earlier runs that are no longer wanted: surplus ones,
// and a real node with the name of a simulated one. It does not delete nodes that a test created.
func ensureNodes(ctx context.Context, client kubernetes.Interface, count int, firstIP netip.Addr) error {
	wanted := map[string]*corev1.Node{}
	for number, address := 0, firstIP; number < count; number, address = number+1, address.Next() {
		wanted[NodeName(number)] = newSimulatedNode(NodeName(number), address)
	}

	if err := deleteMatchingNodes(ctx, client, func(node *corev1.Node) bool {
		return wanted[node.Name] == nil && isManagedNode(node) || wanted[node.Name] != nil && !isSimulatedNode(node)
	}); err != nil {
		return err
	}

	for name, node := range wanted {
		if err := deleteNodeLease(ctx, client, name); err != nil {
			return err
		}
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create node %s: %w", name, err)
		}
	}

	return nil
}

// RemoveNodes deletes the nodes that earlier runs simulated, and with them their pods. It is for a run without
// simulated nodes.
func RemoveNodes(ctx context.Context, client kubernetes.Interface) error {
	return deleteMatchingNodes(ctx, client, isManagedNode)
}

func deleteMatchingNodes(ctx context.Context, client kubernetes.Interface, which func(*corev1.Node) bool) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}

	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !which(node) {
			continue
		}

		err := client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete node %s of an earlier run: %w", node.Name, err)
		}
		if err := deleteNodeLease(ctx, client, node.Name); err != nil {
			return err
		}
	}

	return nil
}

// deleteNodeLease deletes the lease of a node from an earlier run. If kwok or a kubelet finds such a lease at its
// start, it cannot renew it as long as it has an older version of it in memory, and retries only after ten seconds.
func deleteNodeLease(ctx context.Context, client kubernetes.Interface, node string) error {
	err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, node, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the lease of node %s: %w", node, err)
	}
	return nil
}

func isSimulatedNode(node *corev1.Node) bool { return node.Labels[NodeLabel] == NodeLabelValue }

// isManagedNode reports whether ensureNodes created a node, by its label and the form of its name.
func isManagedNode(node *corev1.Node) bool {
	number, err := strconv.Atoi(strings.TrimPrefix(node.Name, namePrefix))
	return err == nil && number >= 0 && node.Name == NodeName(number) && isSimulatedNode(node)
}

// newSimulatedNode returns a node that is larger than any test needs. A stage of kwok makes it ready.
func newSimulatedNode(name string, address netip.Addr) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("32"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("1000"),
	}

	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				NodeLabel:                 NodeLabelValue,
				corev1.LabelHostname:      name,
				corev1.LabelOSStable:      "linux",
				corev1.LabelArchStable:    runtime.GOARCH,
				"kwok.x-k8s.io/node":      "fake", // kwok's usual mark of a simulated node
				"beta.kubernetes.io/os":   "linux",
				"beta.kubernetes.io/arch": runtime.GOARCH,
			},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: address.String()},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:            runtime.GOARCH,
				OperatingSystem:         "linux",
				OSImage:                 "devcluster (simulated)",
				KernelVersion:           "simulated",
				ContainerRuntimeVersion: "simulated://1",
				KubeletVersion:          version.Get().GitVersion,
			},
		},
	}
}
