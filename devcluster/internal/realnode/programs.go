package realnode

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
)

// ownExecutable is the path of devcluster's own executable in the node, where its usual path may be another file.
const ownExecutable = "/proc/self/exe"

// Containerd returns the node's containerd.
func (n *Node) Containerd() (components.Component, error) {
	path, err := findProgram("containerd")
	if err != nil {
		return components.Component{}, err
	}
	return components.Component{
		Name: "containerd", Program: "containerd", Executable: path, InNode: true, StopGrace: stopGracePeriod,
		Address: "unix://" + containerdSocket,
		Env:     []string{"PATH=" + searchPath},
		Args:    []string{"--config", configPathInNode(containerdConfig)},
		Ready:   func(ctx context.Context) error { return checkContainerdReady(ctx, n.pid) },
	}, nil
}

// checkContainerdReady requests the version through the CRI, as the kubelet does. containerd responds when all its
// plugins are loaded. node is the first process of the node.
func checkContainerdReady(ctx context.Context, node int) error {
	socket := filepath.Join("/proc", strconv.Itoa(node), "root", containerdSocket)
	if _, err := os.Stat(socket); err != nil {
		return err
	}

	connection, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return err
	}
	defer connection.Close() //nolint:errcheck // Only the response matters.
	_, err = cri.NewRuntimeServiceClient(connection).Version(ctx, &cri.VersionRequest{})
	return err
}

// Kubelet returns the node's kubelet. It has no readiness check: package cluster waits until the API server has a ready
// Node.
func (n *Node) Kubelet() components.Component {
	return components.Component{
		Name: "kubelet", Program: "kubelet", Executable: ownExecutable, InNode: true, StopGrace: stopGracePeriod,
		Address: "https://" + net.JoinHostPort(n.config.Addresses.NodeIP().String(), "10250"),
		Env:     []string{"PATH=" + searchPath},
		Args: []string{
			"--config=" + configPathInNode(kubeletConfig),
			"--kubeconfig=" + configPathInNode(kubeletKubeconfig),
			"--hostname-override=" + NodeName,
			"--node-ip=" + n.config.Addresses.NodeIP().String(),
		},
	}
}

// KubeProxy returns the node's kube-proxy, which routes ClusterIPs to pods.
func (n *Node) KubeProxy() components.Component {
	address := net.JoinHostPort(n.config.Addresses.NodeIP().String(), "10256")
	return components.Component{
		Name: "kube-proxy", Program: "kube-proxy", Executable: ownExecutable, InNode: true, StopGrace: stopGracePeriod,
		Address: "http://" + address,
		Env:     []string{"PATH=" + searchPath},
		Args:    []string{"--config=" + configPathInNode(kubeProxyConfig)},
		Ready:   components.Answers("http://" + address + "/healthz"),
	}
}

// CoreDNS returns the DNS server of the node and its pods. It runs outside the node, where it can reach all DNS servers
// of the machine, even those that listen only on loopback.
func (n *Node) CoreDNS() components.Component {
	gateway := n.config.Addresses.Gateway().String()
	return components.Component{
		Name: "coredns", Program: "coredns", StopGrace: stopGracePeriod,
		Address: net.JoinHostPort(gateway, "53"),
		Args:    []string{"-conf", n.configPathOnHost(corefile)},
		Ready:   components.Answers("http://" + net.JoinHostPort(gateway, dnsReadyPort) + "/ready"),
	}
}
