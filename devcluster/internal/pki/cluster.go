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

// Names says whom the certificates are for.
type Names struct {
	// KubernetesService is the ClusterIP of the Service "kubernetes": pods reach the API server by it.
	KubernetesService netip.Addr
	// Gateway is the machine's address that a real node reaches the API server and the registry by.
	Gateway netip.Addr
	// NodeName and NodeIP are those of a real node.
	NodeName string
	NodeIP   netip.Addr
}

// Cluster is the certificates of a cluster, all of them valid and on disk.
type Cluster struct {
	// CA signs the certificates of the API server, the registry, the kubelet and their clients; EtcdCA those of etcd and
	// its one client; FrontProxyCA the one that the API server shows to aggregated API servers.
	CA, EtcdCA, FrontProxyCA *Authority

	Etcd, EtcdClient Pair
	APIServer        Pair
	// KubeletClient is what the API server shows to a kubelet, for logs and exec.
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

	// ServiceAccounts is the key that signs the tokens of service accounts.
	ServiceAccounts string
}

// CoreDNSUser is the user that the name server is to the API server; package realnode grants it what it needs.
const CoreDNSUser = "system:coredns"

// Ensure makes what is missing or no longer fits in dir, which must exist, and gives all of it.
func Ensure(dir string, names Names) (*Cluster, error) {
	return store{dir: dir, now: time.Now}.cluster(names)
}

func (s store) cluster(names Names) (*Cluster, error) {
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
		if *authority.into, err = s.authority(authority.name, authority.commonName); err != nil {
			return nil, err
		}
	}

	for _, certificate := range cluster.requests(names) {
		var err error
		if *certificate.into, err = s.certificate(certificate.authority, certificate.request); err != nil {
			return nil, err
		}
	}

	return cluster, ensureKey(cluster.ServiceAccounts)
}

// issue is a certificate to have: by whom, where it goes and what it says.
type issue struct {
	authority *Authority
	into      *Pair
	request
}

func (c *Cluster) requests(names Names) []issue {
	loopback := netip.MustParseAddr("127.0.0.1")
	local := []netip.Addr{loopback, names.Gateway}
	serving := func(name string, dnsNames []string, addresses ...netip.Addr) request {
		return request{name: name, commonName: name, serving: true, dnsNames: dnsNames, addresses: addresses}
	}
	client := func(name, user string, groups ...string) request {
		return request{name: name, commonName: user, organisation: groups, client: true}
	}
	etcd := serving("etcd", []string{"localhost"}, loopback)
	etcd.client = true // etcd is a client of itself.
	node := "system:node:" + names.NodeName

	return []issue{
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
		// The player of simulated nodes writes any node's status and impersonates service accounts at will.
		{c.CA, &c.Nodes, client("nodes", "devcluster-nodes", "system:masters")},
	}
}

// ensureKey makes the key at path when there is none. It is never made anew: every token would stop working. It is of the
// older SEC 1 form, the only private key that the API server reads where it asks for a public one.
func ensureKey(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of the service accounts: %w", err)
	}

	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("write the key of the service accounts: %w", err)
	}

	return writePEM(path, "EC PRIVATE KEY", der, 0o600)
}

// CertPool holds the cluster's authority and nothing else.
func (a *Authority) CertPool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}
