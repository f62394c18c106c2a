// Package state is what a cluster keeps on disk: the layout of its data directory, the lock that says that a supervisor
// runs on it, the addresses chosen once and kept, and the record that `status` reads.
//
// It knows paths and files, not components: who listens on a port or writes into a folder is decided elsewhere.
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

// Names of what stands in a data directory. Reset removes exactly these, so that a mistyped --data-dir loses nothing.
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

// DefaultDir is $XDG_DATA_HOME/mainstay/devcluster, or ~/.local/share/mainstay/devcluster when that is not set.
func DefaultDir() (string, error) {
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "mainstay", "devcluster"), nil
	}

	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no default data directory: %w; give one with --data-dir", err)
	}
	return filepath.Join(home, ".local", "share", "mainstay", "devcluster"), nil
}

// NewDir returns the data directory at path, made absolute. Nothing is created.
func NewDir(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("data directory %q: %w", path, err)
	}
	return Dir(abs), nil
}

// Create makes the directory and its folders, readable by the owner only: it holds private keys.
func (d Dir) Create() error {
	for _, path := range []string{string(d), d.PKI(), d.Logs(), d.Registry(), d.Node()} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return fmt.Errorf("create the data directory: %w", err)
		}
	}
	return nil
}

// Etcd is where etcd keeps its database.
func (d Dir) Etcd() string { return filepath.Join(string(d), etcdDir) }

// PKI is where certificates, keys and the components' kubeconfig files stand.
func (d Dir) PKI() string { return filepath.Join(string(d), pkiDir) }

// CA is the certificate of the authority that signs the API server's and the registry's certificate.
func (d Dir) CA() string { return filepath.Join(d.PKI(), "ca.crt") }

// Logs is where each component has its log.
func (d Dir) Logs() string { return filepath.Join(string(d), logsDir) }

// Log is the log of one component, of the current or the latest run.
func (d Dir) Log(component string) string { return filepath.Join(d.Logs(), component+".log") }

// Registry is where the registry keeps blobs and manifests.
func (d Dir) Registry() string { return filepath.Join(string(d), registryDir) }

// Node is where a real node keeps its containers, images and logs.
func (d Dir) Node() string { return filepath.Join(string(d), nodeDir) }

// Kubeconfig is the administrator's kubeconfig file.
func (d Dir) Kubeconfig() string { return filepath.Join(string(d), kubeconfigFile) }

// AuditPolicy is the file that says which requests the API server writes to its audit log.
func (d Dir) AuditPolicy() string { return filepath.Join(string(d), auditPolicyFile) }

// WriteAuditPolicy writes the audit policy.
func (d Dir) WriteAuditPolicy(content []byte) error {
	if err := writeFile(d.AuditPolicy(), content, 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}

	return nil
}

// ComponentKubeconfig is the file by which a component logs in to the API server.
func (d Dir) ComponentKubeconfig(component string) string {
	return filepath.Join(d.PKI(), component+".kubeconfig")
}

// Reset deletes the state: everything that devcluster wrote, and the directory itself if nothing else stands in it.
// A directory that does not exist, or holds nothing of devcluster, is no error.
func (d Dir) Reset() error {
	known := []string{
		etcdDir, logsDir, nodeDir, pkiDir, registryDir, // the state
		kubeconfigFile, auditPolicyFile, recordFile, addressesFile, lockFile, // the lock last: until then nobody else may start
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

// writeFile replaces a file in one step, so that a reader or a crash never sees half of it.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // Fails after the rename, which is what we want.
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
