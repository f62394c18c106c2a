package realnode

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/supervise"
)

// New checks that the machine can run a real node and writes the configuration files of the node. It changes nothing on
// the machine.
func New(config components.Config) (*Node, error) {
	if err := checkPrerequisites(); err != nil {
		return nil, err
	}

	node := &Node{config: config}
	if err := node.writeConfiguration(); err != nil {
		return nil, fmt.Errorf("write the node's configuration: %w", err)
	}
	return node, nil
}

// Prepare starts the caretaker and makes the changes to the machine that must precede the start of the node.
func (n *Node) Prepare() error {
	lock, err := acquireNodeLock(n.config.Dir)
	if err != nil {
		return err
	}

	n.hostChanges = hostChanges{ID: clusterIdentity(n.config.Dir), Block: n.config.Addresses.Block.String()}
	if err := n.hostChanges.writeHostChangesFile(n.config.Dir.Node()); err != nil {
		lock.Close()
		return err
	}
	if n.caretaker, err = startCaretaker(n.config.Dir, lock); err != nil {
		return err
	}

	return n.hostChanges.applyChanges()
}

// Init returns the first process of the node, and the command with its new namespaces.
func (n *Node) Init() (components.Component, supervise.Command) {
	link := n.config.Addresses.Link()
	return components.Component{
		Name: "node", Program: InitProgram, Address: n.config.Addresses.NodeIP().String(),
		Env: []string{"PATH=" + searchPath},
		Args: []string{
			"--dir=" + n.config.Dir.Node(),
			fmt.Sprintf("--node-ip=%s/%d", n.config.Addresses.NodeIP(), link.Bits()),
			"--gateway=" + n.config.Addresses.Gateway().String(),
		},
		Ready: func(context.Context) error {
			_, err := os.Stat(n.nodeDataPath(readyFile))
			return err
		},
	}, supervise.Command{NewNamespaces: initNamespaces}
}

// Connect connects the network of the node to the machine and starts the proxy to the API server. pid is the first
// process of the node.
func (n *Node) Connect(pid int) error {
	n.pid = pid
	if err := runCommands(hostLinkCommands(n.hostChanges.ID, pid, n.config.Addresses)); err != nil {
		return fmt.Errorf("connect the node to this machine: %w", err)
	}

	port := uint16(n.config.Addresses.APIServerPort) //nolint:gosec // A port fits.
	var err error
	n.apiServerProxy, err = startAPIServerProxy(
		netip.AddrPortFrom(n.config.Addresses.Gateway(), port), netip.AddrPortFrom(loopback, port))

	return err
}

var loopback = netip.MustParseAddr("127.0.0.1")

// Stop reverts all changes of the node to the machine. The processes of the node must have ended.
func (n *Node) Stop() error {
	n.apiServerProxy.close()
	if n.caretaker == nil {
		return nil
	}
	return n.caretaker.cleanUpAndWait()
}

// stopGracePeriod is short because the node ends like a machine that is switched off. Its programs need not finish
// anything. The next run starts its containers again.
const stopGracePeriod = 2 * time.Second
