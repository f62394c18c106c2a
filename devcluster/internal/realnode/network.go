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
// The machine reaches pods and ClusterIPs by their addresses. Pods reach the API server, the registry and the DNS server
// at the gateway address, and other networks through the gateway.

// hostInterfaceName returns the name of the machine's end of the veth pair.
func hostInterfaceName(id string) string { return "mdc-" + id }

// hostLinkCommands returns the commands that create the veth pair and configure the machine's end. pid is the first
// process of the node.
func hostLinkCommands(id string, pid int, addresses state.Addresses) [][]string {
	name := hostInterfaceName(id)
	node := addresses.NodeIP().String()
	return [][]string{
		{"ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)},
		{"ip", "address", "add", fmt.Sprintf("%s/%d", addresses.Gateway(), addresses.Link().Bits()), "dev", name},
		{"ip", "link", "set", name, "up"},
		{"ip", "route", "add", addresses.Pods().String(), "via", node, "dev", name},
		{"ip", "route", "add", addresses.Services().String(), "via", node, "dev", name},
	}
}

// nodeLinkCommands returns the commands that configure the node's end of the veth pair. They run in the node.
func nodeLinkCommands(nodeIP, gateway string) [][]string {
	return [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", nodeIP, "dev", "eth0"},
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "route", "add", "default", "via", gateway},
	}
}

// firewallRule is a packet filter rule of the machine. Its comment contains the cluster's identity, by which Cleanup
// finds it.
type firewallRule struct {
	table, chain string
	match        []string
	target       string
}

// newFirewallRules returns the rules that let the node reach the machine and, through it, other networks. They also
// work where a firewall or Docker drops packets by default.
func newFirewallRules(id string, block string) []firewallRule {
	link := hostInterfaceName(id)
	return []firewallRule{
		{"filter", "INPUT", []string{"-i", link}, "ACCEPT"},
		{"filter", "FORWARD", []string{"-i", link}, "ACCEPT"},
		{"filter", "FORWARD", []string{"-o", link}, "ACCEPT"},
		{"nat", "POSTROUTING", []string{"-s", block, "!", "-o", link}, "MASQUERADE"},
	}
}

// iptablesArgs returns the arguments of iptables that insert (-I), check (-C) or delete (-D) the rule. With -w,
// iptables waits for other processes that change rules.
func (r firewallRule) iptablesArgs(action, id string) []string {
	args := []string{"-w", "-t", r.table, action, r.chain}
	args = append(args, r.match...)
	return append(args, "-m", "comment", "--comment", "devcluster-"+id, "-j", r.target)
}

func runCommands(commands [][]string) error {
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
