package realnode

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// The network of a node:
//
//	machine                                          node
//	gateway 10.x.192.1 ── mdc-<id> ═══ veth pair ═══ eth0 ── node IP 10.x.192.2
//	routes to pods and ClusterIPs via the node IP    ptp interfaces of the pods, kube-proxy's rules for ClusterIPs
//
// The machine reaches pods and ClusterIPs by their addresses; pods reach the API server, the registry and the name server
// by the gateway, and the rest of the world through it.

// interfaceName is the machine's end of the pair.
func interfaceName(id string) string { return "mdc-" + id }

// linkCommands give the machine its end of the pair, and the node's first process (pid) the other.
func linkCommands(id string, pid int, addresses state.Addresses) [][]string {
	name := interfaceName(id)
	node := addresses.NodeIP().String()
	return [][]string{
		{"ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)},
		{"ip", "address", "add", fmt.Sprintf("%s/%d", addresses.Gateway(), addresses.Link().Bits()), "dev", name},
		{"ip", "link", "set", name, "up"},
		{"ip", "route", "add", addresses.Pods().String(), "via", node, "dev", name},
		{"ip", "route", "add", addresses.Services().String(), "via", node, "dev", name},
	}
}

// nodeCommands set up the node's end; they run inside.
func nodeCommands(nodeIP, gateway string) [][]string {
	return [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", nodeIP, "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", gateway},
	}
}

// rule is a packet filter rule of the machine. Each carries the cluster's name as comment, by which Cleanup knows it.
type rule struct {
	table, chain string
	match        []string
	target       string
}

// rules let the node talk to the machine and, as the machine, to the world, also where a firewall or Docker has closed
// the chains by default.
func rules(id string, block string) []rule {
	link := interfaceName(id)
	return []rule{
		{"filter", "INPUT", []string{"-i", link}, "ACCEPT"},
		{"filter", "FORWARD", []string{"-i", link}, "ACCEPT"},
		{"filter", "FORWARD", []string{"-o", link}, "ACCEPT"},
		{"nat", "POSTROUTING", []string{"-s", block, "!", "-o", link}, "MASQUERADE"},
	}
}

// args are the arguments of iptables that insert (-I) or delete (-D) the rule. It waits for whoever else changes rules.
func (r rule) args(action, id string) []string {
	args := []string{"-w", "-t", r.table, action, r.chain}
	args = append(args, r.match...)
	return append(args, "-m", "comment", "--comment", "devcluster-"+id, "-j", r.target)
}

func runAll(commands [][]string) error {
	for _, command := range commands {
		if err := runProgram(command[0], command[1:]...); err != nil {
			if strings.Contains(err.Error(), "File exists") {
				return fmt.Errorf("%w; another cluster uses the same network: stop it, or `devcluster reset` this one", err)
			}
			return err
		}
	}

	return nil
}
