package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Names are the names and addresses in the certificates.
type Names struct {
	// KubernetesService is the ClusterIP of the Service "kubernetes", by which pods reach the API server.
	KubernetesService netip.Addr
	// Gateway is the machine's address by which a real node reaches the API server and the registry.
	Gateway netip.Addr
	// NodeName and NodeIP are the name and address of a real node.
	NodeName string
	NodeIP   netip.Addr
}

// Cluster is the certificates of a cluster. All of them are valid and on disk.
type Cluster struct {
	// CA signs the certificates of the API server, the registry, the kubelet and their clients. EtcdCA signs those of
	// etcd and its only client. FrontProxyCA signs the one that the API server presents to aggregated API servers.
	CA, EtcdCA, FrontProxyCA *Authority

	Etcd, EtcdClient Pair
	APIServer        Pair
	// KubeletClient is the certificate that the API server presents to a kubelet, for logs and exec.
	KubeletClient    Pair
	FrontProxyClient Pair
	Registry         Pair
	KubeletServing   Pair

	// Admin is in the group system:masters.
	Admin             Pair
	ControllerManager Pair
	Scheduler         Pair
	Kubelet           Pair
	KubeProxy         Pair
	CoreDNS           Pair
	Nodes             Pair

	// ServiceAccounts is the path of the key that signs the tokens of service accounts.
	ServiceAccounts string
}

// CoreDNSUser is the user by which the DNS server connects to the API server. Package realnode grants its permissions.
const CoreDNSUser = "system:coredns"

// Ensure creates the certificates and keys in dir that are missing or no longer match names, and returns all of them.
// dir must exist.
func Ensure(dir string, names Names) (*Cluster, error) {
	return store{dir: dir, now: time.Now}.ensureCluster(names)
}

func (s store) ensureCluster(names Names) (*Cluster, error) {
	cluster := &Cluster{ServiceAccounts: filepath.Join(s.dir, "service-accounts.key")}
	for _, authority := range []struct {
		into             **Authority
		name, commonName string
	}{
		{&cluster.CA, "ca", "devcluster"},
		{&cluster.EtcdCA, "etcd-ca", "devcluster etcd"},
		{&cluster.FrontProxyCA, "front-proxy-ca", "devcluster front proxy"},
	} {
		var err error
		if *authority.into, err = s.ensureAuthority(authority.name, authority.commonName); err != nil {
			return nil, err
		}
	}

	for _, certificate := range cluster.plannedCertificates(names) {
		var err error
		if *certificate.into, err = s.ensureCertificate(certificate.authority, certificate.certificateRequest); err != nil {
			return nil, err
		}
	}

	return cluster, ensureServiceAccountKey(cluster.ServiceAccounts)
}

// plannedCertificate is a certificate that a cluster needs: its authority, where the result is stored, and its content.
type plannedCertificate struct {
	authority *Authority
	into      *Pair
	certificateRequest
}

func (c *Cluster) plannedCertificates(names Names) []plannedCertificate {
	loopback := netip.MustParseAddr("127.0.0.1")
	local := []netip.Addr{loopback, names.Gateway}
	serving := func(name string, dnsNames []string, addresses ...netip.Addr) certificateRequest {
		return certificateRequest{name: name, commonName: name, serving: true, dnsNames: dnsNames, addresses: addresses}
	}
	client := func(name, user string, groups ...string) certificateRequest {
		return certificateRequest{name: name, commonName: user, organisation: groups, client: true}
	}
	etcd := serving("etcd", []string{"localhost"}, loopback)
	etcd.client = true // etcd is a client of itself.
	node := "system:node:" + names.NodeName

	return []plannedCertificate{
		{c.EtcdCA, &c.Etcd, etcd},
		{c.EtcdCA, &c.EtcdClient, client("etcd-client", "kube-apiserver")},
		{c.FrontProxyCA, &c.FrontProxyClient, client("front-proxy-client", "front-proxy-client")},
		{c.CA, &c.APIServer, serving("kube-apiserver", []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}, slices.Concat(local, []netip.Addr{names.KubernetesService})...)},
		{c.CA, &c.Registry, serving("registry", []string{"localhost"}, local...)},
		{c.CA, &c.KubeletServing, serving("kubelet-serving", []string{names.NodeName}, names.NodeIP)},
		{c.CA, &c.KubeletClient, client("kubelet-client", "kube-apiserver", "system:masters")},
		{c.CA, &c.Admin, client("admin", "devcluster-admin", "system:masters")},
		{c.CA, &c.ControllerManager, client("kube-controller-manager", "system:kube-controller-manager")},
		{c.CA, &c.Scheduler, client("kube-scheduler", "system:kube-scheduler")},
		{c.CA, &c.Kubelet, client("kubelet", node, "system:nodes")},
		{c.CA, &c.KubeProxy, client("kube-proxy", "system:kube-proxy")},
		{c.CA, &c.CoreDNS, client("coredns", CoreDNSUser)},
		// The node simulator writes the status of any node and impersonates any service account.
		{c.CA, &c.Nodes, client("nodes", "devcluster-nodes", "system:masters")},
	}
}

// ensureServiceAccountKey creates the key at path if there is none. An existing key is never replaced, because every
// token would stop working. The key has the older SEC 1 form: it is the only form of private key that the API server
// accepts where it expects a public key.
func ensureServiceAccountKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("create the key of the service accounts: %w", err)
	}

	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("write the key of the service accounts: %w", err)
	}

	return writePEMFile(path, "EC PRIVATE KEY", der, 0o600)
}

// CertPool returns a pool that contains only the authority's certificate.
func (a *Authority) CertPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}
