package simulated

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func named(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestEnsureNodes(t *testing.T) {
	ours := map[string]string{NodeLabel: NodeLabelValue}
	client := fake.NewClientset(
		named("node-0", nil),    // the real node of an earlier run
		named("node-1", ours),   // wanted
		named("node-7", ours),   // surplus
		named("edge-gpu", ours), // a test's own
		named("node-01", ours),  // not a name of ours
		named("elsewhere", nil), // nobody knows
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
		if node.Name == "node-0" && !isSimulated(&node) {
			t.Error("node-0 is still the real one")
		}
	}

	slices.Sort(names)
	if want := []string{"edge-gpu", "elsewhere", "node-0", "node-01", "node-1"}; !slices.Equal(names, want) {
		t.Errorf("nodes %q, want %q", names, want)
	}

	if err := RemoveNodes(t.Context(), client); err != nil {
		t.Fatal(err)
	}

	nodes, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 3 {
		t.Errorf("%d nodes are left, error %v; want the three that are not ours", len(nodes.Items), err)
	}
}

func TestNodesHaveTheirOwnAddresses(t *testing.T) {
	client := fake.NewClientset()
	if err := ensureNodes(t.Context(), client, 3, netip.MustParseAddr("10.201.192.2")); err != nil {
		t.Fatal(err)
	}

	node, err := client.CoreV1().Nodes().Get(t.Context(), "node-2", metav1.GetOptions{})
	if err != nil || node.Status.Addresses[0].Address != "10.201.192.4" {
		t.Errorf("node-2 has addresses %v, error %v", node.Status.Addresses, err)
	}
}
