package pki

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

const otherClusters = `apiVersion: v1
kind: Config
clusters: [{name: work, cluster: {server: https://work.example}}]
users: [{name: me, user: {token: secret}}]
contexts: [{name: work, context: {cluster: work, user: me}}]
current-context: work
`

func TestMergeKubeconfigKeepsOtherClusters(t *testing.T) {
	cluster, err := Ensure(t.TempDir(), testNames)
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(otherClusters), 0o600); err != nil {
		t.Fatal(err)
	}

	for range 2 { // The second time replaces what the first added.
		if err := MergeKubeconfig(path, "https://127.0.0.1:6443", cluster.CA, cluster.Admin); err != nil {
			t.Fatal(err)
		}
	}

	merged, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if merged.CurrentContext != "devcluster" || len(merged.Contexts) != 2 || merged.AuthInfos["me"].Token != "secret" {
		t.Errorf("got current context %q and contexts %v", merged.CurrentContext, merged.Contexts)
	}
	if ours := merged.Clusters["devcluster"]; ours.Server != "https://127.0.0.1:6443" || len(ours.CertificateAuthorityData) == 0 {
		t.Errorf("got cluster %+v", ours)
	}
}

func TestMergeKubeconfigCreatesFile(t *testing.T) {
	cluster, err := Ensure(t.TempDir(), testNames)
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "new", "config")
	if err := MergeKubeconfig(path, "https://127.0.0.1:6443", cluster.CA, cluster.Admin); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v and error %v, want mode 0600: the file contains a key", info.Mode(), err)
	}
}
