package simulated

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func newNamedNode(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestEnsureNodes(t *testing.T) {
	ours := map[string]string{NodeLabel: NodeLabelValue}
	client := fake.NewClientset(
		newNamedNode("node-0", nil),    // the real node of an earlier run
		newNamedNode("node-1", ours),   // wanted
		newNamedNode("node-7", ours),   // surplus
		newNamedNode("edge-gpu", ours), // created by a test
		newNamedNode("node-01", ours),  // not a generated name
		newNamedNode("elsewhere", nil), // not simulated
	)
	if err := ensureNodes(t.Context(), client, 2, netip.MustParseAddr("10.201.192.2")); err != nil {
		t.Fatal(err)
	}

	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, node := range nodes.Items {
		names = append(names, node.Name)
		if node.Name == "node-0" && !isSimulatedNode(&node) {
			t.Error("got the real node-0, want a simulated one")
		}
	}

	slices.Sort(names)
	if want := []string{"edge-gpu", "elsewhere", "node-0", "node-01", "node-1"}; !slices.Equal(names, want) {
		t.Errorf("got nodes %q, want %q", names, want)
	}

	if err := RemoveNodes(t.Context(), client); err != nil {
		t.Fatal(err)
	}

	nodes, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 3 {
		t.Errorf("got %d nodes and error %v, want the three unmanaged nodes", len(nodes.Items), err)
	}
}

func TestNodesHaveTheirOwnAddresses(t *testing.T) {
	client := fake.NewClientset()
	if err := ensureNodes(t.Context(), client, 3, netip.MustParseAddr("10.201.192.2")); err != nil {
		t.Fatal(err)
	}

	node, err := client.CoreV1().Nodes().Get(t.Context(), "node-2", metav1.GetOptions{})
	if err != nil || node.Status.Addresses[0].Address != "10.201.192.4" {
		t.Errorf("got addresses %v of node-2 and error %v, want 10.201.192.4", node.Status.Addresses, err)
	}
}
