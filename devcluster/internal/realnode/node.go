// Package realnode runs a real node: containerd, the kubelet and kube-proxy in their own namespaces, and CoreDNS next to
// them. It needs Linux and root.
//
// The node has its own process, mount, network, host name and IPC namespaces, and its own /run, /var/lib and /var/log.
// All its processes, mounts, network interfaces and packet filter rules therefore disappear when its first process
// ends.
//
// The node also needs changes outside its namespaces: one network interface with two routes, four packet filter rules,
// control groups and some kernel settings. hostchanges.go and network.go list them. The caretaker reverts them when the
// supervisor has ended for any reason. Cleanup does the same for a caretaker that was killed.
package realnode

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/mainstay-dev/mainstay/devcluster/internal/components"
	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// NodeName is the name of the real node. The first simulated node has the same name, so that pods that are bound to it
// are not lost when a cluster changes from one kind of node to the other.
const NodeName = "node-0"

// Names by which the executable is called to run the first process of the node and the caretaker.
const (
	InitProgram      = "devcluster-node"
	CaretakerProgram = "devcluster-caretaker"
)

// Paths in the node. The node's folder of the data directory is mounted at a fixed path, so that the data directory may be
// anywhere, even where the node has its own files.
const (
	nodeRoot         = "/run/devcluster"
	containerdSocket = "/run/containerd/containerd.sock"
)

// Folders and files in the node's folder of the data directory.
const (
	configFolder    = "etc"
	libFolder       = "lib" // the node's /var/lib
	logFolder       = "log" // the node's /var/log
	readyFile       = "ready"
	hostChangesFile = "host.json"
	lockFile        = "lock"
)

// Node is the real node of one run.
type Node struct {
	config      components.Config
	hostChanges hostChanges

	pid            int
	caretaker      *caretaker
	apiServerProxy *apiServerProxy
}

// PID returns the first process of the node, or 0 if it has not started.
func (n *Node) PID() int { return n.pid }

// nodeDataPath returns a path in the node's folder of the data directory.
func (n *Node) nodeDataPath(elements ...string) string {
	return filepath.Join(append([]string{n.config.Dir.Node()}, elements...)...)
}

// configPathOnHost returns the path of a configuration file outside the node.
func (n *Node) configPathOnHost(name string) string { return n.nodeDataPath(configFolder, name) }

// configPathInNode returns the path of a configuration file in the node.
func configPathInNode(name string) string { return filepath.Join(nodeRoot, configFolder, name) }

// clusterIdentity returns the identity of a cluster in the names of its changes to the machine. It is the same for each
// run on one data directory.
func clusterIdentity(dir state.Dir) string {
	hash := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(hash[:3]) // 6 characters, because an interface name has at most 15.
}

// writeFiles writes files to a folder and creates the subfolders that they need.
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
