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

// NodeName is the name of the node with that number, counted from 0.
func NodeName(number int) string { return namePrefix + strconv.Itoa(number) }

const namePrefix = "node-"

// ensureNodes creates the nodes that are missing and deletes those of earlier runs that are not wanted now: surplus ones,
// and a real one that has the name of a simulated one. Nodes that a test created itself are left alone.
func ensureNodes(ctx context.Context, client kubernetes.Interface, count int, firstIP netip.Addr) error {
	wanted := map[string]*corev1.Node{}
	for number, address := 0, firstIP; number < count; number, address = number+1, address.Next() {
		wanted[NodeName(number)] = newNode(NodeName(number), address)
	}

	if err := removeNodes(ctx, client, func(node *corev1.Node) bool {
		return wanted[node.Name] == nil && isOurs(node) || wanted[node.Name] != nil && !isSimulated(node)
	}); err != nil {
		return err
	}

	for name, node := range wanted {
		if err := removeLease(ctx, client, name); err != nil {
			return err
		}
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create node %s: %w", name, err)
		}
	}

	return nil
}

// RemoveNodes deletes the nodes that earlier runs simulated, for a run that simulates none. Their pods go with them.
func RemoveNodes(ctx context.Context, client kubernetes.Interface) error {
	return removeNodes(ctx, client, isOurs)
}

func removeNodes(ctx context.Context, client kubernetes.Interface, which func(*corev1.Node) bool) error {
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
		if err := removeLease(ctx, client, node.Name); err != nil {
			return err
		}
	}

	return nil
}

// removeLease deletes what a run before wrote about a node's life. Whoever finds such a lease when it starts, kwok or a
// kubelet, fails to renew it as long as it remembers another state of it, and tries again ten seconds later only.
func removeLease(ctx context.Context, client kubernetes.Interface, node string) error {
	err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, node, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the lease of node %s: %w", node, err)
	}
	return nil
}

func isSimulated(node *corev1.Node) bool { return node.Labels[NodeLabel] == NodeLabelValue }

// isOurs reports whether ensureNodes made a node, by its label and the form of its name.
func isOurs(node *corev1.Node) bool {
	number, err := strconv.Atoi(strings.TrimPrefix(node.Name, namePrefix))
	return err == nil && number >= 0 && node.Name == NodeName(number) && isSimulated(node)
}

// newNode is a machine larger than any test asks for; kwok's stage makes it ready.
func newNode(name string, address netip.Addr) *corev1.Node {
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
				"kwok.x-k8s.io/node":      "fake", // the mark by which kwok's users know such a node
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
