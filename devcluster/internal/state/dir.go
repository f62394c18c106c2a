// Package state is what a cluster keeps on disk: the layout of its data directory, the lock of its supervisor, its
// addresses, and the record that `status` prints.
//
// It knows paths and files, not components. Other packages decide which component listens on a port or writes to a
// folder.
package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dir is the absolute path of a data directory.
type Dir string

// Names of the files and folders in a data directory. Reset removes only these, so that a mistyped --data-dir loses nothing.
const (
	lockFile        = "lock"
	recordFile      = "record.json"
	addressesFile   = "addresses.json"
	kubeconfigFile  = "kubeconfig"
	auditPolicyFile = "audit-policy.yaml"
	etcdDir         = "etcd"
	logsDir         = "logs"
	nodeDir         = "node"
	pkiDir          = "pki"
	registryDir     = "registry"
)

// DefaultDir returns $XDG_DATA_HOME/mainstay/devcluster, or ~/.local/share/mainstay/devcluster if that variable is not
// set.
func DefaultDir() (string, error) {
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "mainstay", "devcluster"), nil
	}

	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no default data directory: %w; set one with --data-dir", err)
	}
	return filepath.Join(home, ".local", "share", "mainstay", "devcluster"), nil
}

// NewDir returns the data directory with the absolute form of path. It creates nothing.
func NewDir(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("data directory %q: %w", path, err)
	}
	return Dir(abs), nil
}

// Create creates the directory and its folders. Only the owner can read them, because they contain private keys.
func (d Dir) Create() error {
	for _, path := range []string{string(d), d.PKI(), d.Logs(), d.Registry(), d.Node()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("create the data directory: %w", err)
		}
	}
	return nil
}

// Etcd returns the path of etcd's database.
func (d Dir) Etcd() string { return filepath.Join(string(d), etcdDir) }

// PKI returns the folder of certificates, keys and the components' kubeconfig files.
func (d Dir) PKI() string { return filepath.Join(string(d), pkiDir) }

// CA returns the path of the cluster authority's certificate. That authority signs the certificates of the API server
// and the registry.
func (d Dir) CA() string { return filepath.Join(d.PKI(), "ca.crt") }

// Logs returns the folder of the components' logs.
func (d Dir) Logs() string { return filepath.Join(string(d), logsDir) }

// Log returns the path of a component's log, of the current or the latest run.
func (d Dir) Log(component string) string { return filepath.Join(d.Logs(), component+".log") }

// Registry returns the folder of the registry's blobs and manifests.
func (d Dir) Registry() string { return filepath.Join(string(d), registryDir) }

// Node returns the folder of a real node's containers, images and logs.
func (d Dir) Node() string { return filepath.Join(string(d), nodeDir) }

// Kubeconfig returns the path of the administrator's kubeconfig file.
func (d Dir) Kubeconfig() string { return filepath.Join(string(d), kubeconfigFile) }

// AuditPolicy returns the path of the file that selects the requests in the API server's audit log.
func (d Dir) AuditPolicy() string { return filepath.Join(string(d), auditPolicyFile) }

// WriteAuditPolicy writes the audit policy.
func (d Dir) WriteAuditPolicy(content []byte) error {
	if err := writeFileAtomically(d.AuditPolicy(), content, 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}

	return nil
}

// ComponentKubeconfig returns the path of the kubeconfig file that a component uses to connect to the API server.
func (d Dir) ComponentKubeconfig(component string) string {
	return filepath.Join(d.PKI(), component+".kubeconfig")
}

// Reset deletes everything that devcluster wrote, and the directory itself if it is empty after that. It is no error if
// the directory does not exist or contains nothing of devcluster.
func (d Dir) Reset() error {
	known := []string{
		etcdDir, logsDir, nodeDir, pkiDir, registryDir, // the state
		kubeconfigFile, auditPolicyFile, recordFile, addressesFile, lockFile, // the lock last: no other supervisor may start before that
	}
	for _, name := range known {
		if err := os.RemoveAll(filepath.Join(string(d), name)); err != nil {
			return fmt.Errorf("delete the state: %w", err)
		}
	}

	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		return nil
	}
	if err := os.Remove(string(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the empty data directory: %w", err)
	}

	return nil
}

// writeFileAtomically replaces a file in one step, so that neither a reader nor a crash leaves a partial file.
func writeFileAtomically(path string, content []byte, mode fs.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // Fails after the rename, as intended.
	if _, err := temporary.Write(content); err != nil {
		temporary.Close()
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	if err := os.Chmod(temporary.Name(), mode); err != nil {
		return err
	}

	return os.Rename(temporary.Name(), path)
}
