package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// controlPlane is a running etcd with an API server.
type controlPlane struct {
	environment *envtest.Environment
	// folder has the certificates, the audit log and the process ID of the API server.
	folder string
	config *rest.Config
	// isKilled and isFull are the faults that tests have caused.
	isKilled, isFull bool
}

// startControlPlane starts an API server with every CRD of config installed. It must be stopped even if starting failed.
func startControlPlane(root string) (*controlPlane, error) {
	binaries, err := findBinaries(root)
	if err != nil {
		return &controlPlane{}, err
	}

	c := &controlPlane{environment: &envtest.Environment{
		BinaryAssetsDirectory: binaries,
		CRDDirectoryPaths:     crdFolders(root),
		ErrorIfCRDPathMissing: true,
		// The defaults are too short for a busy machine.
		ControlPlaneStartTimeout: controlPlaneTimeout, ControlPlaneStopTimeout: controlPlaneTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: controlPlaneTimeout},
		Scheme:            runtime.NewScheme(),
	}}
	if c.folder, err = os.MkdirTemp("", "mainstay-env-"); err != nil {
		return c, err
	}
	if err := makeServerRestartable(c.environment, binaries, c.folder); err != nil {
		return c, err
	}
	if err := EnableAggregation(c.environment, c.folder); err != nil {
		return c, err
	}
	if err := enableAuditLog(c.environment, c.folder); err != nil {
		return c, err
	}
	if err := trustIssuer(c.environment, c.folder); err != nil {
		return c, err
	}

	c.config, err = c.environment.Start()
	return c, err
}

// crdFolders returns the folders of the CRDs that each API server has.
func crdFolders(root string) []string {
	var folders []string
	for _, name := range []string{"crd", "platform", "classic/crd", "classic/marketplace"} {
		folders = append(folders, filepath.Join(root, "config", filepath.FromSlash(name)))
	}
	return folders
}

// stop stops the API server and etcd, and removes the folder.
func (c *controlPlane) stop() error {
	if c.environment == nil || c.folder == "" {
		return nil
	}
	return errors.Join(c.environment.Stop(), os.RemoveAll(c.folder))
}

// findBinaries returns the folder of etcd and kube-apiserver: KUBEBUILDER_ASSETS if it is set,
// otherwise bin/k8s of the repository.
func findBinaries(root string) (string, error) {
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		folder = filepath.Join(root, "bin", "k8s")
	}

	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return "", fmt.Errorf("%w: %w; build them into bin/k8s or set KUBEBUILDER_ASSETS", errBinariesMissing, err)
		}
	}
	return folder, nil
}
