package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the name of the cluster, the user and the context in kubeconfig files.
const contextName = "devcluster"

// WriteKubeconfig writes a kubeconfig file that connects to server with the certificate of pair. The file contains all
// certificates and only its owner can read it.
func WriteKubeconfig(path, server string, authority *Authority, pair Pair) error {
	config, err := newKubeconfig(server, authority, pair)
	if err != nil {
		return err
	}
	return writeKubeconfigFile(path, config)
}

// MergeKubeconfig adds the context "devcluster" to a kubeconfig file, which may contain other contexts, and makes it
// the current one.
func MergeKubeconfig(path, server string, authority *Authority, pair Pair) error {
	ours, err := newKubeconfig(server, authority, pair)
	if err != nil {
		return err
	}

	merged, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		merged, err = api.NewConfig(), nil
		if mkdirErr := os.MkdirAll(filepath.Dir(path), 0o700); mkdirErr != nil {
			return fmt.Errorf("create the folder of kubeconfig %s: %w", path, mkdirErr)
		}
	}

	if err != nil {
		return fmt.Errorf("read kubeconfig %s to add the cluster to it: %w", path, err)
	}

	merged.Clusters[contextName] = ours.Clusters[contextName]
	merged.AuthInfos[contextName] = ours.AuthInfos[contextName]
	merged.Contexts[contextName] = ours.Contexts[contextName]
	merged.CurrentContext = contextName

	return writeKubeconfigFile(path, merged)
}

func newKubeconfig(server string, authority *Authority, pair Pair) (*api.Config, error) {
	content := map[string][]byte{}
	for _, path := range []string{authority.CertFile, pair.CertFile, pair.KeyFile} {
		var err error
		if content[path], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read the certificates for a kubeconfig: %w", err)
		}
	}

	config := api.NewConfig()
	config.Clusters[contextName] = &api.Cluster{Server: server, CertificateAuthorityData: content[authority.CertFile]}
	config.AuthInfos[contextName] = &api.AuthInfo{
		ClientCertificateData: content[pair.CertFile], ClientKeyData: content[pair.KeyFile],
	}
	config.Contexts[contextName] = &api.Context{Cluster: contextName, AuthInfo: contextName}
	config.CurrentContext = contextName

	return config, nil
}

func writeKubeconfigFile(path string, config *api.Config) error {
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}
