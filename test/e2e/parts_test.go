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

// part is a program that a test starts, kills and starts again.
type part struct {
	t       *testing.T
	name    string
	dir     string
	command func() *exec.Cmd
	// ready fails until the part does its work.
	ready func(ctx context.Context) error
	// process is nil when the part does not run.
	process *cluster.Process
}

// start starts the part and waits until it is ready.
func (p *part) start() {
	p.t.Helper()
	var err error
	if p.process, err = cluster.Launch(p.name, filepath.Join(p.dir, p.name+".log"), p.command()); err != nil {
		p.t.Fatal(err)
	}

	err = steps.Eventually(p.t.Context(), limit, func(ctx context.Context) error {
		return errors.Join(p.process.Alive(), p.ready(ctx))
	})
	if err != nil {
		p.t.Fatalf("%s is not ready: %v", p.name, err)
	}
}

// kill kills the part, and sees that it is gone: it does not answer any more.
func (p *part) kill() {
	p.t.Helper()
	p.process.Kill()
	p.process = nil
	if err := p.ready(p.t.Context()); err == nil {
		p.t.Fatalf("%s was killed, and answers", p.name)
	}
}

// parts are a control plane, a registry, and what updates the cluster: processes that are killed
// one by one. No pod runs here.
type parts struct {
	*cluster.Cluster
	t        *testing.T
	dir, bin string

	etcd, server, manager, registry *part
	// graphs is where the update service answers.
	graphs string
}

// startParts starts the control plane and the registry, each at an address that it keeps.
func startParts(t *testing.T) *parts {
	t.Helper()
	p := &parts{t: t, dir: t.TempDir(), bin: built(t, "devcluster", "mainstay")}
	etcd, server := freeAddress(t), freeAddress(t)
	_, port, err := net.SplitHostPort(server)
	if err != nil {
		t.Fatal(err)
	}

	registry, images := p.addRegistry("registry")
	p.Cluster, p.registry = cluster.Of(cluster.Options{Bin: p.bin, Dir: p.dir}, p.credentials(server), images), registry
	p.etcd = p.part("etcd", func(ctx context.Context) error { return cluster.Answers(ctx, "http://"+etcd+"/health") },
		"--data-dir="+p.file("etcd"), "--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://127.0.0.1:0", "--unsafe-no-fsync", "--log-level=warn")
	p.server = p.part("kube-apiserver", func(ctx context.Context) error { return p.asked(ctx, "/readyz") },
		"--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+p.file("certificates"),
		"--token-auth-file="+p.file("tokens"), "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+p.file("accounts.key"), "--service-account-signing-key-file="+p.file("accounts.key"))
	// Among its controllers is the one that removes what has no owner any more.
	p.manager = p.part("kube-controller-manager", func(ctx context.Context) error {
		return p.asked(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	},
		"--kubeconfig="+p.Kubeconfig, "--leader-elect=false", "--secure-port=0", "--service-account-private-key-file="+p.file("accounts.key"))
	for _, part := range []*part{p.etcd, p.server, p.manager, p.registry} {
		part.start()
	}

	return p
}

func (p *parts) file(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// asked asks the API server, which may be away.
func (p *parts) asked(ctx context.Context, path string) error {
	_, err := p.Kubectl(ctx, "get", "--request-timeout=5s", "--raw", path)
	return err
}

// part makes a part that is devcluster by another name.
func (p *parts) part(name string, ready func(context.Context) error, args ...string) *part {
	return p.add(name, ready, func() *exec.Cmd {
		return &exec.Cmd{Path: filepath.Join(p.bin, "devcluster"), Args: append([]string{name}, args...)}
	})
}

// run makes a part that is `mainstay run`.
func (p *parts) run(component string, ready func(context.Context) error, args ...string) *part {
	return p.add(component, ready, func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(p.bin, "mainstay"), append([]string{"run", component}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig)
		return cmd
	})
}

// add makes a part that is not there any more when the test has ended.
func (p *parts) add(name string, ready func(context.Context) error, command func() *exec.Cmd) *part {
	made := &part{t: p.t, name: name, dir: p.dir, ready: ready, command: command}
	p.t.Cleanup(func() {
		if made.process == nil {
			return
		}
		if err := made.process.Alive(); err != nil {
			p.t.Error(err)
		}
		made.process.Kill()
		if p.t.Failed() {
			p.t.Logf("the end of the log of %s:\n%s", made.name, made.process.LogEnd())
		}
	})

	return made
}

// addRegistry makes a registry, and gives how images in it are called. It answers to plain HTTP
// on localhost, and wants to have a certificate: that of the API server.
func (p *parts) addRegistry(name string) (*part, string) {
	listen := freeAddress(p.t)
	registry := p.part("devcluster-registry", func(ctx context.Context) error { return cluster.Answers(ctx, "http://"+listen+"/v2/") },
		"--dir="+p.file(name), "--listen="+listen, "--cert="+p.file("certificates/apiserver.crt"), "--key="+p.file("certificates/apiserver.key"))
	registry.name = name
	return registry, strings.Replace(listen, "127.0.0.1", "localhost", 1)
}

// credentials writes those of an administrator, and the key of service accounts.
func (p *parts) credentials(server string) string {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}

	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}

	// The API server makes its certificate when it starts. Nobody is between it and this test.
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: parts, contexts: [{name: parts, context: {cluster: parts, user: admin}}],
clusters: [{name: parts, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}], users: [{name: admin, user: {token: administrator}}]}
`, server)
	err = errors.Join(
		os.WriteFile(p.file("accounts.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600),
		os.WriteFile(p.file("tokens"), []byte("administrator,admin,1,system:masters\n"), 0o600),
		os.WriteFile(p.file("kubeconfig"), []byte(kubeconfig), 0o600),
	)
	if err != nil {
		p.t.Fatal(err)
	}

	return p.file("kubeconfig")
}

// freeAddress returns an address on localhost that is still free when its user begins anew: it is
// below those that the system gives to connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+mathrand.IntN(12000)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}

	t.Fatal("no address is free")
	return ""
}
