package components

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/mainstay-dev/mainstay/devcluster/internal/registry"
	"github.com/mainstay-dev/mainstay/devcluster/internal/simulated"
)

// Registry returns the image registry. It listens on 127.0.0.1 and, if there is a real node, also on the machine's
// address on the link to that node.
func (c Config) Registry(realNode bool) Component {
	args := []string{
		"--dir=" + c.Dir.Registry(),
		"--cert=" + c.PKI.Registry.CertFile,
		"--key=" + c.PKI.Registry.KeyFile,
	}
	addresses := []string{loopbackAddress(c.Addresses.RegistryPort)}
	if realNode {
		addresses = append(addresses, c.NodeRegistry())
	}

	for _, address := range addresses {
		args = append(args, "--listen="+address)
	}

	return Component{
		Name: "registry", Program: registry.Program, StopGrace: stopGracePeriod, Args: args,
		Address: strings.Join(addresses, ", "),
		Ready:   newHTTPSReadinessCheck(loopbackURL(c.Addresses.RegistryPort)+"/v2/", c.PKI.CA, nil),
	}
}

// NodeRegistry returns the host and port by which a real node and its pods reach the registry. This machine can use the
// same address.
func (c Config) NodeRegistry() string {
	return net.JoinHostPort(c.Addresses.Gateway().String(), strconv.Itoa(c.Addresses.RegistryPort))
}

// Nodes returns the component that simulates count nodes and the pods on them.
func (c Config) Nodes(count int) Component {
	return Component{
		Name: "nodes", Program: simulated.Program,
		Args: []string{
			"--kubeconfig=" + c.Kubeconfig("nodes"),
			"--nodes=" + strconv.Itoa(count),
			"--pod-network=" + c.Addresses.Pods().String(),
			"--node-ip=" + c.Addresses.NodeIP().String(),
		},
	}
}

func formatPortFlag(flag string, value int) string { return fmt.Sprintf("--%s=%d", flag, value) }
