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

// ownExecutable starts devcluster's own executable from inside of the node, where its path may lead elsewhere.
const ownExecutable = "/proc/self/exe"

// Containerd runs containers.
func (n *Node) Containerd() (components.Component, error) {
	path, err := findProgram("containerd")
	if err != nil {
		return components.Component{}, err
	}
	return components.Component{
		Name: "containerd", Program: "containerd", Executable: path, InNode: true, StopGrace: stopGrace,
		Address: "unix://" + containerdSocket,
		Env:     []string{"PATH=" + searchPath},
		Args:    []string{"--config", inside(containerdConfig)},
		Ready:   n.containerdReady,
	}, nil
}

// containerdReady asks for the version by the interface that the kubelet uses; it answers when all plugins are loaded.
func (n *Node) containerdReady(ctx context.Context) error {
	socket := filepath.Join("/proc", strconv.Itoa(n.pid), "root", containerdSocket)
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
	defer connection.Close() //nolint:errcheck // The answer is all we wanted.
	_, err = cri.NewRuntimeServiceClient(connection).Version(ctx, &cri.VersionRequest{})
	return err
}

// Kubelet makes the node a node. It is ready when the API server says that the node is, which package cluster asks.
func (n *Node) Kubelet() components.Component {
	return components.Component{
		Name: "kubelet", Program: "kubelet", Executable: ownExecutable, InNode: true, StopGrace: stopGrace,
		Address: "https://" + net.JoinHostPort(n.config.Addresses.NodeIP().String(), "10250"),
		Env:     []string{"PATH=" + searchPath},
		Args: []string{
			"--config=" + inside(kubeletConfig),
			"--kubeconfig=" + inside(kubeletKubeconfig),
			"--hostname-override=" + NodeName,
			"--node-ip=" + n.config.Addresses.NodeIP().String(),
		},
	}
}

// KubeProxy makes ClusterIPs lead to pods.
func (n *Node) KubeProxy() components.Component {
	address := net.JoinHostPort(n.config.Addresses.NodeIP().String(), "10256")
	return components.Component{
		Name: "kube-proxy", Program: "kube-proxy", Executable: ownExecutable, InNode: true, StopGrace: stopGrace,
		Address: "http://" + address,
		Env:     []string{"PATH=" + searchPath},
		Args:    []string{"--config=" + inside(kubeProxyConfig)},
		Ready:   components.Answers("http://" + address + "/healthz"),
	}
}

// CoreDNS answers the node's pods, and the node itself. It runs outside of the node, where the machine's own name servers
// can be asked, also those that listen on loopback alone.
func (n *Node) CoreDNS() components.Component {
	gateway := n.config.Addresses.Gateway().String()
	return components.Component{
		Name: "coredns", Program: "coredns", StopGrace: stopGrace,
		Address: net.JoinHostPort(gateway, "53"),
		Args:    []string{"-conf", n.configFile(corefile)},
		Ready:   components.Answers("http://" + net.JoinHostPort(gateway, dnsReadyPort) + "/ready"),
	}
}
