package report

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/operatorstatus"
)

func TestSkew(t *testing.T) {
	const message = "The next minor version, Kubernetes 1.37, supports kubelets from 1.34 on; these nodes are older: "
	const advice = "; update them first, and resume their pools where these are paused"
	for name, c := range map[string]struct {
		server   string
		kubelets []string
		want     string
	}{
		"the same":           {"v1.36.3", []string{"v1.36.3"}, ""},
		"two behind":         {"v1.36.3", []string{"v1.34.0"}, ""},
		"three behind":       {"v1.36.3", []string{"v1.36.1", "v1.33.9"}, message + "n1 (1.33)" + advice},
		"of a distribution":  {"v1.36.3-eks-1", []string{"v1.33.9+k3s1"}, message + "n0 (1.33)" + advice},
		"many":               {"v1.36.3", []string{"v1.30.0", "v1.30.0", "v1.30.0", "v1.30.0", "v1.30.0", "v1.30.0", "v1.30.0"}, message + "n0 (1.30), n1 (1.30), n2 (1.30), n3 (1.30), n4 (1.30) and 2 more" + advice},
		"no kubelet version": {"v1.36.3", []string{"", "what"}, ""},
		"an unreadable one":  {"", []string{"v1.30.0"}, ""},
		"another generation": {"v2.5.0", []string{"v1.30.0"}, ""},
		"a minor version 0":  {"v1.0.0", []string{"v1.0.0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []corev1.Node
			for i, kubelet := range c.kubelets {
				n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)}}
				n.Status.NodeInfo.KubeletVersion = kubelet
				nodes = append(nodes, n)
			}
			if got := describeOutdatedNodes(c.server, nodes); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Kubelets that are too old only block the update to the next minor version.
func TestSkewIsReported(t *testing.T) {
	f := facts{
		version: "2", pools: []mcfgv1.MachineConfigPool{pool("master"), pool("worker", paused)}, isRendered: func(*mcfgv1.MachineConfigPool) bool { return true },
		now: now, skew: "too old",
	}
	var status configv1.ClusterOperatorStatus
	f.fillStatus(&status)
	for _, c := range status.Conditions {
		want := metav1.ConditionFalse
		if c.Type == configv1.OperatorAvailable {
			want = metav1.ConditionTrue
		}
		if c.Status != want {
			t.Errorf("got %s %s, want %s", c.Type, c.Status, want)
		}
		if c.Type == configv1.OperatorUpgradeable && (c.Reason != "KubeletMinorVersionUnsupportedNextUpgrade" || c.Message != "too old") {
			t.Errorf("got Upgradeable with %s: %s, want KubeletMinorVersionUnsupportedNextUpgrade: too old", c.Reason, c.Message)
		}
	}

	if operatorstatus.VersionOf(&status, operatorstatus.VersionName) != "2" {
		t.Errorf("got version %s, want 2", operatorstatus.VersionOf(&status, operatorstatus.VersionName))
	}
}
