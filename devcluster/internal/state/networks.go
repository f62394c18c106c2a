package state

import (
	"net"
	"net/netip"
)

// Pods is the network of the pods: the lower half of the block.
func (a Addresses) Pods() netip.Prefix { return a.part(0, 17) }

// Services is the network of the ClusterIPs: the third quarter of the block.
func (a Addresses) Services() netip.Prefix { return a.part(128, 18) }

// DNS is the ClusterIP of the cluster's name server, the tenth of the Services by the habit of Kubernetes.
func (a Addresses) DNS() netip.Addr { return a.at(128, 10) }

// Gateway is the machine's own address on the link to a real node.
func (a Addresses) Gateway() netip.Addr { return a.at(192, 1) }

// NodeIP is a real node's address on that link.
func (a Addresses) NodeIP() netip.Addr { return a.at(192, 2) }

// Link is the network of the two.
func (a Addresses) Link() netip.Prefix { return a.part(192, 30) }

func (a Addresses) part(third byte, bits int) netip.Prefix {
	return netip.PrefixFrom(a.at(third, 0), bits)
}

func (a Addresses) at(third, fourth byte) netip.Addr {
	bytes := a.Block.Addr().As4()
	bytes[2], bytes[3] = third, fourth
	return netip.AddrFrom4(bytes)
}

// interfaceNetworks are the networks that the machine has an address in.
func interfaceNetworks() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}

	var networks []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil {
			networks = append(networks, prefix.Masked())
		}
	}

	return networks, nil
}
