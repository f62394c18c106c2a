package state

import (
	"net"
	"net/netip"
)

// Pods returns the network of the pods: the lower half of the block.
func (a Addresses) Pods() netip.Prefix { return a.subnetAt(0, 17) }

// Services returns the network of the ClusterIPs: the third quarter of the block.
func (a Addresses) Services() netip.Prefix { return a.subnetAt(128, 18) }

// DNS returns the ClusterIP of the cluster's DNS server. By convention, it is the tenth address of the Services.
func (a Addresses) DNS() netip.Addr { return a.addressAt(128, 10) }

// Gateway returns the machine's own address on the link to a real node.
func (a Addresses) Gateway() netip.Addr { return a.addressAt(192, 1) }

// NodeIP returns the address of a real node on that link.
func (a Addresses) NodeIP() netip.Addr { return a.addressAt(192, 2) }

// Link returns the network of the link between the machine and a real node.
func (a Addresses) Link() netip.Prefix { return a.subnetAt(192, 30) }

func (a Addresses) subnetAt(third byte, bits int) netip.Prefix {
	return netip.PrefixFrom(a.addressAt(third, 0), bits)
}

func (a Addresses) addressAt(third, fourth byte) netip.Addr {
	bytes := a.Block.Addr().As4()
	bytes[2], bytes[3] = third, fourth
	return netip.AddrFrom4(bytes)
}

// interfaceNetworks returns the networks in which the machine has an address.
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
