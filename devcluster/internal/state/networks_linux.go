package state

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"os"
	"strings"
)

// routedNetworks returns the IPv4 networks of the machine's addresses and of its routing table.
func routedNetworks() ([]netip.Prefix, error) {
	networks, err := interfaceNetworks()
	if err != nil {
		return nil, err
	}

	file, err := os.Open("/proc/net/route")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Scan() // the heading
	for lines.Scan() {
		network, err := parseRoute(lines.Text())
		if err != nil {
			return nil, err
		}
		networks = append(networks, network)
	}

	return networks, lines.Err()
}

// parseRoute parses a line of /proc/net/route. Fields are separated by tabs. The second is the destination and the
// eighth the mask, both hexadecimal in the byte order of the machine (little-endian on all supported machines).
func parseRoute(line string) (netip.Prefix, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return netip.Prefix{}, fmt.Errorf("route %q has fewer than 8 fields", line)
	}

	destination, err := hex.DecodeString(fields[1])
	if err != nil || len(destination) != 4 {
		return netip.Prefix{}, fmt.Errorf("route %q: destination is no IPv4 address", line)
	}

	mask, err := hex.DecodeString(fields[7])
	if err != nil || len(mask) != 4 {
		return netip.Prefix{}, fmt.Errorf("route %q: mask is no IPv4 mask", line)
	}

	var address [4]byte
	binary.LittleEndian.PutUint32(address[:], binary.BigEndian.Uint32(destination))
	return netip.PrefixFrom(netip.AddrFrom4(address), bits.OnesCount32(binary.BigEndian.Uint32(mask))), nil
}
