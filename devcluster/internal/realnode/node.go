// Package realnode runs a real node: containerd, the kubelet and kube-proxy in namespaces of their own, and CoreDNS beside
// them. Linux and root only.
//
// The node is a machine within the machine. It has its own process, mount, network, host name and IPC namespaces, with its
// own /run, /var/lib and /var/log, so that whatever runs in it, and every mount, network interface and packet filter rule
// that it makes, is gone when its first process is. What it needs outside (one network interface with two routes, four
// packet filter rules, its control groups, a few kernel settings) is listed in host.go and network.go and taken back by
// one function, Cleanup, that the caretaker calls when the supervisor has ended, however that ended.
package realnode

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// NodeName is the name of the real node. It is that of the first simulated one, so that what was bound to it is not lost
// when a cluster changes from one kind to the other.
const NodeName = "node-0"

// Names that the executable is called by for the node's first process and for the caretaker.
const (
	InitProgram      = "devcluster-node"
	CaretakerProgram = "devcluster-caretaker"
)

// Paths inside of the node. The folder of the data directory is mounted at a fixed place, so that a data directory may
// stand anywhere, even where the node has its own files.
const (
	nodeRoot         = "/run/devcluster"
	containerdSocket = "/run/containerd/containerd.sock"
)

// Folders and files of the node's folder in the data directory.
const (
	configFolder = "etc"
	libFolder    = "lib" // the node's /var/lib
	logFolder    = "log" // the node's /var/log
	readyFile    = "ready"
	markerFile   = "host.json"
	lockFile     = "lock"
)

// Node is the real node of one run.
type Node struct {
	config components.Config
	host   host

	pid       int
	caretaker *caretaker
	gateway   *gateway
}

// PID is the node's first process, 0 before there is one.
func (n *Node) PID() int { return n.pid }

func (n *Node) folder(elements ...string) string {
	return filepath.Join(append([]string{n.config.Dir.Node()}, elements...)...)
}

// configFile is the path of a configuration file outside of the node, and inInside the same inside.
func (n *Node) configFile(name string) string { return n.folder(configFolder, name) }

func inside(name string) string { return filepath.Join(nodeRoot, configFolder, name) }

// identity names what a cluster has on the machine: it is the same for every run on one data directory.
func identity(dir state.Dir) string {
	hash := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(hash[:3]) // 6 characters: an interface's name may have 15.
}

// writeFiles writes the files of a folder, and the folders they need.
func writeFiles(folder string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}

	return nil
}
