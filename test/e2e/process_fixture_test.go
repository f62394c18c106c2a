package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

// managedProcess is a program that a test starts, kills and starts again.
type managedProcess struct {
	t       *testing.T
	name    string
	dir     string
	command func() *exec.Cmd
	// checkReady returns an error until the process is ready.
	checkReady func(ctx context.Context) error
	// process is nil if the program is not running.
	process *cluster.Process
}

// start starts the process and waits until it is ready.
func (p *managedProcess) start() {
	p.t.Helper()
	var err error
	if p.process, err = cluster.Launch(p.name, filepath.Join(p.dir, p.name+".log"), p.command()); err != nil {
		p.t.Fatal(err)
	}

	err = steps.Eventually(p.t.Context(), stateTimeout, func(ctx context.Context) error {
		return errors.Join(p.process.CheckRunning(), p.checkReady(ctx))
	})
	if err != nil {
		p.t.Fatalf("%s is not ready: %v", p.name, err)
	}
}

// kill kills the process and checks that it does not respond any more.
func (p *managedProcess) kill() {
	p.t.Helper()
	p.process.Kill()
	p.process = nil
	if err := p.checkReady(p.t.Context()); err == nil {
		p.t.Fatalf("%s responds although it was killed", p.name)
	}
}

// processFixture is a control plane, a registry, and the programs that update the cluster. Tests
// kill the processes one by one. No pods run.
type processFixture struct {
	*cluster.Cluster
	t        *testing.T
	dir, bin string

	etcd, server, manager, registry *managedProcess
	// graphURL is the URL of the update service.
	graphURL string
}

// newProcessFixture starts the control plane and the registry, each at a fixed address.
func newProcessFixture(t *testing.T) *processFixture {
	t.Helper()
	p := &processFixture{t: t, dir: t.TempDir(), bin: requirePrograms(t, "devcluster", "mainstay")}
	etcd, server := reserveAddress(t), reserveAddress(t)
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}

	registry, images := p.addRegistry("registry")
	p.Cluster, p.registry = cluster.Attach(cluster.Options{Bin: p.bin, Dir: p.dir}, p.writeCredentials(server), images), registry
	p.etcd = p.addDevclusterProcess("etcd", func(ctx context.Context) error { return cluster.CheckURL(ctx, "http://"+etcd+"/health") },
		"--data-dir="+p.filePath("etcd"), "--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync", "--log-level=warn")
	p.server = p.addDevclusterProcess("kube-apiserver", func(ctx context.Context) error { return p.queryAPIServer(ctx, "/readyz") },
		"--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+p.filePath("certificates"),
		"--token-auth-file="+p.filePath("tokens"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+p.filePath("accounts.key"), "--service-account-signing-key-file="+p.filePath("accounts.key"))
	// The garbage collector is one of its controllers.
	p.manager = p.addDevclusterProcess("kube-controller-manager", func(ctx context.Context) error {
		return p.queryAPIServer(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	},
		"--kubeconfig="+p.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--service-account-private-key-file="+p.filePath("accounts.key"))
	for _, part := range []*managedProcess{p.etcd, p.server, p.manager, p.registry} {
		part.start()
	}

	return p
}

func (p *processFixture) filePath(name string) string {
	return filepath.Join(p.dir, filepath.FromSlash(name))
}

// queryAPIServer sends a GET request to the API server, which may be down.
func (p *processFixture) queryAPIServer(ctx context.Context, path string) error {
	_, err := p.Kubectl(ctx, "get", "--request-timeout=5s", "--raw", path)
	return err
}

// addDevclusterProcess adds a process that is devcluster with another program name.
func (p *processFixture) addDevclusterProcess(name string, ready func(context.Context) error, args ...string) *managedProcess {
	return p.addProcess(name, ready, func() *exec.Cmd {
		return &exec.Cmd{Path: filepath.Join(p.bin, "devcluster"), Args: append([]string{name}, args...)}
	})
}

// addServerProcess adds a process of `mainstay run`.
func (p *processFixture) addServerProcess(component string, ready func(context.Context) error, args ...string) *managedProcess {
	return p.addProcess(component, ready, func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(p.bin, "mainstay"), append([]string{"run", component}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig)
		return cmd
	})
}

// addProcess adds a process that is killed at the end of the test.
func (p *processFixture) addProcess(name string, ready func(context.Context) error, command func() *exec.Cmd) *managedProcess {
	managed := &managedProcess{t: p.t, name: name, dir: p.dir, checkReady: ready, command: command}
	p.t.Cleanup(func() {
		if managed.process == nil {
			return
		}
		if err := managed.process.CheckRunning(); err != nil {
			p.t.Error(err)
		}
		managed.process.Kill()
		if p.t.Failed() {
			p.t.Logf("the end of the log of %s:\n%s", managed.name, managed.process.LogEnd())
		}
	})

	return managed
}

// addRegistry adds a registry, and returns the prefix of images in it. It serves plain HTTP on
// localhost, but requires a certificate: that of the API server.
func (p *processFixture) addRegistry(name string) (*managedProcess, string) {
	listen := reserveAddress(p.t)
	registry := p.addDevclusterProcess("devcluster-registry", func(ctx context.Context) error { return cluster.CheckURL(ctx, "http://"+listen+"/v2/") },
		"--dir="+p.filePath(name), "--listen="+listen, "--cert="+p.filePath("certificates/apiserver.crt"), "--key="+p.filePath("certificates/apiserver.key"))
	registry.name = name
	return registry, strings.Replace(listen, "127.0.0.1", "localhost", 1)
}

// writeCredentials writes the credentials of an administrator and the key of service accounts. It
// returns the path of the kubeconfig.
func (p *processFixture) writeCredentials(server string) string {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}

	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}

	// The API server generates its certificate when it starts. The connection is local.
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: parts, contexts: [{name: parts, context: {cluster: parts, user: admin}}],
clusters: [{name: parts, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}], users: [{name: admin, user: {token: administrator}}]}
`, server)
	err = errors.Join(
		os.WriteFile(p.filePath("accounts.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(p.filePath("tokens"), []byte("administrator,admin,1,system:masters\n"), 0o600),
		os.WriteFile(p.filePath("kubeconfig"), []byte(kubeconfig), 0o600),
	)
	if err != nil {
		p.t.Fatal(err)
	}

	return p.filePath("kubeconfig")
}

// reserveAddress returns an address on localhost that stays free between restarts of its user.
// Its port is below those that the system assigns to connections.
func reserveAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+mathrand.IntN(12000)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}

	t.Fatal("got no free address")
	return ""
}
