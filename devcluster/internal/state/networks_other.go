//go:build !linux

package state

import "net/netip"

// routedNetworks returns the networks of the machine's addresses. Only Linux runs a real node, whose routes could
// collide.
func routedNetworks() ([]netip.Prefix, error) { return interfaceNetworks() }
