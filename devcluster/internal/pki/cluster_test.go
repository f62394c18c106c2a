package pki

import (
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var testNames = Names{
	KubernetesService: netip.MustParseAddr("10.201.128.1"),
	Gateway:           netip.MustParseAddr("10.201.192.1"),
	NodeName:          "node-0",
	NodeIP:            netip.MustParseAddr("10.201.192.2"),
}

func readCertificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	block, _ := pem.Decode(content)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}

	return certificate
}

// files returns the content of each file of a folder by name.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}

	contents := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		contents[entry.Name()] = string(content)
	}

	return contents
}

func TestCertificatesVerify(t *testing.T) {
	cluster, err := Ensure(t.TempDir(), testNames)
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name      string
		pair      Pair
		authority *Authority
		host      string
		usage     x509.ExtKeyUsage
	}{
		{"API server by its Service", cluster.APIServer, cluster.CA, "kubernetes.default.svc", x509.ExtKeyUsageServerAuth},
		{"API server by its ClusterIP", cluster.APIServer, cluster.CA, "10.201.128.1", x509.ExtKeyUsageServerAuth},
		{"API server on this machine", cluster.APIServer, cluster.CA, "127.0.0.1", x509.ExtKeyUsageServerAuth},
		{"registry on this machine", cluster.Registry, cluster.CA, "localhost", x509.ExtKeyUsageServerAuth},
		{"registry from the node", cluster.Registry, cluster.CA, "10.201.192.1", x509.ExtKeyUsageServerAuth},
		{"kubelet", cluster.KubeletServing, cluster.CA, "10.201.192.2", x509.ExtKeyUsageServerAuth},
		{"etcd", cluster.Etcd, cluster.EtcdCA, "127.0.0.1", x509.ExtKeyUsageServerAuth},
		{"etcd as client of itself", cluster.Etcd, cluster.EtcdCA, "", x509.ExtKeyUsageClientAuth},
		{"administrator", cluster.Admin, cluster.CA, "", x509.ExtKeyUsageClientAuth},
		{"front proxy", cluster.FrontProxyClient, cluster.FrontProxyCA, "", x509.ExtKeyUsageClientAuth},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readCertificate(t, test.pair.CertFile).Verify(x509.VerifyOptions{
				Roots: test.authority.CertPool(), DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}

	kubelet := readCertificate(t, cluster.Kubelet.CertFile)
	if kubelet.Subject.CommonName != "system:node:node-0" || strings.Join(kubelet.Subject.Organization, ",") != "system:nodes" {
		t.Errorf("got kubelet subject %s, want one that the Node authorizer accepts", kubelet.Subject)
	}
}

func TestOnlyOwnerReadsKeys(t *testing.T) {
	dir := t.TempDir()
	if _, err := Ensure(dir, testNames); err != nil {
		t.Fatal(err)
	}

	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) == 0 {
		t.Fatalf("got keys %v and error %v", keys, err)
	}

	for _, key := range keys {
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
			t.Errorf("%s: got mode %v and error %v, want mode 0600", key, info.Mode(), err)
		}
	}
}

func TestEnsureKeepsMatchingCertificates(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	at := func(now time.Time, names Names) map[string]string {
		t.Helper()
		if _, err := (store{dir: dir, now: func() time.Time { return now }}).ensureCluster(names); err != nil {
			t.Fatal(err)
		}
		return files(t, dir)
	}

	changed := func(before, after map[string]string) []string {
		var names []string
		for name := range after {
			if before[name] != after[name] && strings.HasSuffix(name, ".crt") {
				names = append(names, name)
			}
		}
		return names
	}

	first := at(now, testNames)
	if again := changed(first, at(now, testNames)); len(again) != 0 {
		t.Errorf("without a change: got new certificates %v, want none", again)
	}

	moved := testNames
	moved.NodeIP = netip.MustParseAddr("10.202.192.2")
	second := at(now, moved)
	if again := changed(first, second); len(again) != 1 || again[0] != "kubelet-serving.crt" {
		t.Errorf("after a change of the node IP: got new certificates %v, want only kubelet-serving.crt", again)
	}

	old := at(now.Add(certificateLifetime-renewBefore), moved)
	again := changed(second, old)
	if len(again) == 0 || old["ca.crt"] != second["ca.crt"] || old["admin.crt"] == second["admin.crt"] {
		t.Errorf("near expiry: got new certificates %v, want all certificates and no authority", again)
	}

	ancient := at(now.Add(authorityLifetime), moved)
	if ancient["ca.crt"] == old["ca.crt"] || ancient["service-accounts.key"] != first["service-accounts.key"] {
		t.Error("after the authority expired: want a new authority and the same service account key")
	}

	if _, err := readCertificate(t, filepath.Join(dir, "admin.crt")).Verify(x509.VerifyOptions{
		Roots:       (&Authority{certificate: readCertificate(t, filepath.Join(dir, "ca.crt"))}).CertPool(),
		CurrentTime: now.Add(authorityLifetime), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		t.Errorf("with a new authority: %v", err)
	}
}

func TestDamagedFilesAreNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(dir, testNames); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("got error %v, want one that names ca.crt", err)
	}
}
