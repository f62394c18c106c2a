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

// New checks that the machine can run a real node and writes the node's files. It changes nothing on the machine.
func New(config components.Config) (*Node, error) {
	if err := preflight(); err != nil {
		return nil, err
	}

	node := &Node{config: config}
	if err := node.writeConfiguration(); err != nil {
		return nil, fmt.Errorf("write the node's configuration: %w", err)
	}
	return node, nil
}

// Prepare starts the caretaker and makes the changes to the machine that the node's first process needs.
func (n *Node) Prepare() error {
	lock, err := lockNode(n.config.Dir)
	if err != nil {
		return err
	}

	n.host = host{ID: identity(n.config.Dir), Block: n.config.Addresses.Block.String()}
	if err := n.host.write(n.config.Dir.Node()); err != nil {
		lock.Close()
		return err
	}
	if n.caretaker, err = startCaretaker(n.config.Dir, lock); err != nil {
		return err
	}

	return n.host.prepare()
}

// Init is the node's first process, and how it is born.
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
			_, err := os.Stat(n.folder(readyFile))
			return err
		},
	}, supervise.Command{NewNamespaces: initNamespaces}
}

// Connect joins the node's network to the machine's. pid is the node's first process.
func (n *Node) Connect(pid int) error {
	n.pid = pid
	if err := runAll(linkCommands(n.host.ID, pid, n.config.Addresses)); err != nil {
		return fmt.Errorf("connect the node to this machine: %w", err)
	}

	port := uint16(n.config.Addresses.APIServerPort) //nolint:gosec // A port fits.
	var err error
	n.gateway, err = openGateway(
		netip.AddrPortFrom(n.config.Addresses.Gateway(), port), netip.AddrPortFrom(loopback, port))

	return err
}

var loopback = netip.MustParseAddr("127.0.0.1")

// Stop takes back all that the node changed on the machine. Its processes must be gone.
func (n *Node) Stop() error {
	n.gateway.close()
	if n.caretaker == nil {
		return nil
	}
	return n.caretaker.finish()
}

// stopGrace is short: nothing that a node's programs do when they end is worth waiting for, because the node ends like a
// machine that is switched off. Its containers are started again by the next run.
const stopGrace = 2 * time.Second
