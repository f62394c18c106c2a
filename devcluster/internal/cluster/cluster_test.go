package cluster

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func nodeWith(condition corev1.NodeCondition, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		Spec:   corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure}, condition}},
	}
}

func TestNotReadyReason(t *testing.T) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	for _, test := range []struct {
		name string
		node *corev1.Node
		want string
	}{
		{"ready", nodeWith(ready), ""},
		{"no conditions", &corev1.Node{}, "it has not reported yet"},
		{"not ready", nodeWith(corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "no network plugin",
		}), "no network plugin"},
		{"unknown without a message", nodeWith(corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		}), "condition Ready is Unknown"},
		{
			"ready with the not-ready taint", nodeWith(ready, corev1.Taint{Key: corev1.TaintNodeNotReady}),
			"it still has the taint node.kubernetes.io/not-ready",
		},
		{"ready with another taint", nodeWith(ready, corev1.Taint{Key: "dedicated"}), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := notReadyReason(test.node); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestHasReportedSince(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 500_000_000, time.UTC)
	heartbeat := func(at time.Time) *corev1.Node {
		return nodeWith(corev1.NodeCondition{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(at)})
	}
	never, before := time.Time{}, began.Add(-time.Minute)
	for _, test := range []struct {
		name  string
		node  *corev1.Node
		lease time.Time
		want  bool
	}{
		{"no report", &corev1.Node{}, never, false},
		{"only in an earlier run", heartbeat(before), before, false},
		{"a lease", heartbeat(before), began, true},
		{"a heartbeat", heartbeat(began.Add(time.Second)), before, true},
		{"a heartbeat in the second of the start", heartbeat(began.Truncate(time.Second)), never, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := hasReportedSince(test.node, test.lease, began); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestDescribeNodeNames(t *testing.T) {
	for count, want := range map[int]string{1: "node-0", 2: "node-0, node-1", 5: "node-0 to node-4"} {
		if got := describeNodeNames(count); got != want {
			t.Errorf("%d nodes: got %q, want %q", count, got, want)
		}
	}
}

func TestCopyProgress(t *testing.T) {
	const lines = "etcd ready\ncluster ready\n"
	for _, test := range []struct {
		name  string
		input io.Reader
		ready bool
	}{
		{"ready", strings.NewReader(lines + "\x00"), true},
		{"ready, byte by byte", iotest.OneByteReader(strings.NewReader(lines + "\x00")), true},
		{"ended before", strings.NewReader(lines), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if ready := copyProgress(&out, test.input); ready != test.ready || out.String() != lines {
				t.Errorf("got ready %t and lines %q, want %t and %q", ready, out.String(), test.ready, lines)
			}
		})
	}
}
