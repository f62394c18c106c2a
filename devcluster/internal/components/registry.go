package components

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/mainstay-dev/mainstay/devcluster/internal/registry"
	"github.com/mainstay-dev/mainstay/devcluster/internal/simulated"
)

// Registry keeps images. It listens on 127.0.0.1 and, when there is a real node, on the machine's address towards it.
func (c Config) Registry(realNode bool) Component {
	args := []string{
		"--dir=" + c.Dir.Registry(),
		"--cert=" + c.PKI.Registry.CertFile,
		"--key=" + c.PKI.Registry.KeyFile,
	}
	addresses := []string{local(c.Addresses.RegistryPort)}
	if realNode {
		addresses = append(addresses, c.NodeRegistry())
	}

	for _, address := range addresses {
		args = append(args, "--listen="+address)
	}

	return Component{
		Name: "registry", Program: registry.Program, StopGrace: stopGrace, Args: args,
		Address: strings.Join(addresses, ", "),
		Ready:   answersOK(localURL(c.Addresses.RegistryPort)+"/v2/", c.PKI.CA, nil),
	}
}

// NodeRegistry is the registry as a real node and its pods reach it. This machine reaches it by the same address.
func (c Config) NodeRegistry() string {
	return net.JoinHostPort(c.Addresses.Gateway().String(), strconv.Itoa(c.Addresses.RegistryPort))
}

// Nodes plays count nodes and the pods on them.
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

func port(flag string, value int) string { return fmt.Sprintf("--%s=%d", flag, value) }
