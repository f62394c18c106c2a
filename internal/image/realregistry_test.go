package image

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// htpasswd has the login of the robot account.
const htpasswd = robot + ":$2b$04$abcdefghijklmnopqrstuuXzZpxaDWIc5fZa.cNlXMp53UE6CPkHC\n"

// realRegistry is the registry of the distribution project, as packaged by Debian.
type realRegistry struct {
	host string // of references
	dir  string
	ca   []byte // PEM; nil for plain HTTP
}

// realOptions configure a real registry.
type realOptions struct {
	plain   bool   // no TLS
	address string // the default is 127.0.0.1
	expired bool
}

// startRealRegistry starts a registry that requires a login. The test is skipped if the
// program is not installed, and fails where skipping is not allowed.
func startRealRegistry(t *testing.T, opts realOptions) *realRegistry {
	t.Helper()
	program := checkout.FindProgram(t, "docker-registry")
	if opts.address == "" {
		opts.address = "127.0.0.1"
	}

	r := &realRegistry{dir: t.TempDir()}
	r.writeFile(t, "htpasswd", []byte(htpasswd))
	tls := ""
	if !opts.plain {
		r.ca = r.issueCertificate(t, net.ParseIP(opts.address), opts.expired)
		tls = fmt.Sprintf("  tls: {certificate: %s/tls.crt, key: %s/tls.key}\n", r.dir, r.dir)
	}

	config := r.writeFile(t, "config.yml", fmt.Appendf(nil, `version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %s/data}}
auth: {htpasswd: {realm: test, path: %s/htpasswd}}
http:
  addr: %q
  secret: s3cr3t
%s`, r.dir, r.dir, net.JoinHostPort(opts.address, "0"), tls))

	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "serve", config)
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		stop()
		_ = command.Wait() // The registry was killed.
	})
	r.host = waitForListener(t, output)
	return r
}

var listeningOn = regexp.MustCompile(`listening on ([^ ",]+)`)

// waitForListener waits until the registry logs its address, and returns it.
func waitForListener(t *testing.T, output io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(output)
	var seen strings.Builder
	for lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		if match := listeningOn.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, output) }() // until it is killed
			return match[1]
		}
	}

	t.Fatalf("the registry ended:\n%s", seen.String())
	return ""
}

func (r *realRegistry) writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// issueCertificate writes a certificate of a new authority, and returns the certificate of
// the authority.
func (r *realRegistry) issueCertificate(t *testing.T, ip net.IP, expired bool) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}

	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}

	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test registry"},
		NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{ip}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if expired {
		leaf.NotAfter = now.Add(-time.Hour)
	}

	certificate, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}

	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}

	r.writeFile(t, "tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	r.writeFile(t, "tls.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
}

// strictRegistriesConf returns a registries.conf with which a registry of this machine is
// verified like any other.
func strictRegistriesConf(t *testing.T, host, more string) string {
	t.Helper()
	return writeFile(t, "registries.conf", fmt.Sprintf("[[registry]]\nlocation = %q\n%s", host, more))
}

func (r *realRegistry) options(t *testing.T) Options {
	t.Helper()
	opts := Options{
		RegistriesConf: strictRegistriesConf(t, r.host, ""),
		AuthFile:       writeFile(t, "auth.json", dockerConfig(r.host, robot, password)),
		Timeouts:       Timeouts{Backoff: time.Millisecond},
	}
	if r.ca != nil {
		opts.CADir = filepath.Dir(writeFile(t, "test.crt", string(r.ca)))
	}
	return opts
}

func TestRealRegistry(t *testing.T) {
	r := startRealRegistry(t, realOptions{})
	client := NewClient(r.options(t))
	ref := r.host + "/org/catalog:v1"
	first, second := catalogImage(t), imageForArch(t, "s390x")
	canonical, err := client.Push(t.Context(), ref, nil, first, second)
	if err != nil {
		t.Fatal(err)
	}

	existed := 0
	if _, err := client.Push(t.Context(), ref, func(p Progress) {
		if p.Exists {
			existed++
		}
	}, first, second); err != nil || existed != 3 {
		t.Errorf("pushing again: got unexpected number of existing parts %d (error %v)", existed, err)
	}

	resolved, err := client.Resolve(t.Context(), ref)
	if err != nil || resolved != canonical {
		t.Errorf("resolved to %s (%v), want %s", resolved, err, canonical)
	}

	for _, name := range []string{ref, canonical} {
		got, err := pullAndExtract(t.Context(), t, client, name, "/configs")
		if err != nil || got["foo/catalog.yaml"] == "" {
			t.Errorf("%s: got %v (%v)", name, got, err)
		}
	}

	_, err = client.Resolve(t.Context(), r.host+"/org/catalog:v2")
	wantError(t, err, KindNotFound, "404 Not Found")
	_, err = client.Pull(t.Context(), r.host+"/none/such:v1")
	wantError(t, err, KindNotFound, "MANIFEST_UNKNOWN", "check the name and the tag")

	img, err := client.Pull(t.Context(), canonical)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = img.Close() }()

	base, err := img.Base(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	upon := mustBuild(t, Spec{Base: base, Layers: []Layer{{Tree: fstest.MapFS{"bar/catalog.yaml": {Data: []byte("name: bar")}}, Target: "/configs"}}})
	if _, err := client.Push(t.Context(), r.host+"/org/upon:v1", nil, upon); err != nil {
		t.Fatal(err)
	}

	got, err := pullAndExtract(t.Context(), t, client, r.host+"/org/upon:v1", "/configs")
	if err != nil || got["foo/catalog.yaml"] == "" || got["bar/catalog.yaml"] == "" {
		t.Errorf("built on another image: got %v (error %v), want the catalogs of both", got, err)
	}
}

func TestRealRegistryRefuses(t *testing.T) {
	r := startRealRegistry(t, realOptions{})
	good := r.options(t)
	ref := r.host + "/org/catalog:v1"
	if _, err := NewClient(good).Push(t.Context(), ref, nil, catalogImage(t)); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		edit func(*Options)
		kind Kind
		want string
	}{
		"no login":          {func(o *Options) { o.AuthFile = writeFile(t, "auth.json", "{}") }, KindDenied, "check the pull secret"},
		"a wrong password":  {func(o *Options) { o.AuthFile = writeFile(t, "auth.json", dockerConfig(r.host, robot, "wr0ng-Pass")) }, KindDenied, "check the pull secret"},
		"an unknown CA":     {func(o *Options) { o.CADir = "" }, KindUnavailable, "add the registry's certificate authority to the trusted ones"},
		"a blocked one":     {func(o *Options) { o.RegistriesConf = strictRegistriesConf(t, r.host, "blocked = true\n") }, KindDenied, "is blocked"},
		"a missing library": {func(o *Options) { o.RegistriesConf += "-missing" }, KindDenied, "read the registries configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := good
			test.edit(&opts)
			client := NewClient(opts)
			for operation, run := range map[string]func() error{
				"resolve": func() error { _, err := client.Resolve(t.Context(), ref); return err },
				"pull":    func() error { _, err := client.Pull(t.Context(), ref); return err },
				"push":    func() error { _, err := client.Push(t.Context(), ref, nil, catalogImage(t)); return err },
			} {
				err := run()
				wantError(t, err, test.kind, operation+" image "+ref, test.want)
				if strings.Contains(err.Error(), "wr0ng-Pass") || strings.Contains(err.Error(), password) {
					t.Errorf("got error %v, want one without the password", err)
				}
			}
		})
	}
}

// TestRealRegistryTrustIsReloaded checks that certificate authorities and a pull secret are
// read again each time.
func TestRealRegistryTrustIsReloaded(t *testing.T) {
	r := startRealRegistry(t, realOptions{})
	opts := r.options(t)
	ref := r.host + "/org/catalog:v1"
	if _, err := NewClient(opts).Push(t.Context(), ref, nil, catalogImage(t)); err != nil {
		t.Fatal(err)
	}

	opts.CADir, opts.AuthFile = t.TempDir(), ""
	client := NewClient(opts)
	_, err := client.Resolve(t.Context(), ref)
	wantError(t, err, KindUnavailable, "certificate signed by unknown authority")
	file := filepath.Join(opts.CADir, "added.pem")
	if err := os.WriteFile(file, r.ca, 0o600); err != nil {
		t.Fatal(err)
	}

	_, err = client.Resolve(t.Context(), ref)
	wantError(t, err, KindDenied, "401 Unauthorized")
	secret, err := client.WithCredentials([]byte(dockerConfig(r.host, robot, password)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := secret.Resolve(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}

	_, err = secret.Resolve(t.Context(), ref)
	wantError(t, err, KindUnavailable, "certificate signed by unknown authority")
}

func TestRealRegistryWithExpiredCertificate(t *testing.T) {
	r := startRealRegistry(t, realOptions{expired: true})
	_, err := NewClient(r.options(t)).Push(t.Context(), r.host+"/org/catalog:v1", nil, catalogImage(t))
	wantError(t, err, KindUnavailable, "certificate has expired or is not yet valid")
}

func TestRealRegistryWithoutTLS(t *testing.T) {
	r := startRealRegistry(t, realOptions{plain: true})
	opts := r.options(t)
	ref := r.host + "/org/catalog:v1"
	_, err := NewClient(opts).Push(t.Context(), ref, nil, catalogImage(t))
	wantError(t, err, KindUnavailable, "server gave HTTP response to HTTPS client")
	for name, edit := range map[string]func(*Options){
		"insecure, as configured":  func(o *Options) { o.RegistriesConf = strictRegistriesConf(t, r.host, "insecure = true\n") },
		"insecure, by option":      func(o *Options) { o.Insecure = true },
		"on this machine, default": func(o *Options) { o.RegistriesConf = writeFile(t, "registries.conf", "") },
	} {
		opts := opts
		edit(&opts)
		client := NewClient(opts)
		if _, err := client.Push(t.Context(), ref, nil, catalogImage(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := pullAndExtract(t.Context(), t, client, ref, "/configs"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRealRegistryAsMirror pulls from mirrors with their own login, configured in files and
// by rules.
func TestRealRegistryAsMirror(t *testing.T) {
	r := startRealRegistry(t, realOptions{})
	opts := r.options(t)
	canonical, err := NewClient(opts).Push(t.Context(), r.host+"/mirror/org/catalog:v1", nil, catalogImage(t))
	if err != nil {
		t.Fatal(err)
	}

	_, digest, _ := strings.Cut(canonical, "@")
	byFile, byRule := opts, opts
	byFile.RegistriesConf = strictRegistriesConf(t, r.host, fmt.Sprintf("[[registry]]\nlocation = \"upstream.invalid\"\n[[registry.mirror]]\nlocation = %q\n", r.host+"/mirror"))
	byRule.Mirrors = func() []MirrorRule {
		return []MirrorRule{{Source: "upstream.invalid", Mirrors: []Mirror{{Location: r.host + "/mirror"}}, Blocked: true}}
	}
	for name, opts := range map[string]Options{"file": byFile, "rule": byRule} {
		client := NewClient(opts)
		resolved, err := client.Resolve(t.Context(), "upstream.invalid/org/catalog:v1")
		if want := "upstream.invalid/org/catalog@" + digest; err != nil || resolved != want {
			t.Errorf("%s: resolved to %s (%v), want %s", name, resolved, err, want)
		}
		if _, err := pullAndExtract(t.Context(), t, client, resolved, "/configs"); err != nil {
			t.Errorf("%s: %v", name, err)
		}

		_, err = client.Resolve(t.Context(), "upstream.invalid/org/none:v1")
		if name == "file" {
			wantError(t, err, KindUnavailable, "before it: "+r.host+"/mirror/org/none: look up the tag v1: the registry answered 404")
		} else {
			wantError(t, err, KindNotFound, "its mirror "+r.host+"/mirror/org/none")
		}
	}
}

// TestRealRegistryOverBrokenConnections pulls from a real registry with TLS over
// connections that are cut.
func TestRealRegistryOverBrokenConnections(t *testing.T) {
	r := startRealRegistry(t, realOptions{})
	content := incompressibleText(3 << 20)
	built := mustBuild(t, Spec{OS: "linux", Architecture: "amd64", Layers: []Layer{{Files: []File{{Path: "/configs/a", Content: []byte(content)}}}}})
	opts := r.options(t)
	if _, err := NewClient(opts).Push(t.Context(), r.host+"/org/catalog:v1", nil, built); err != nil {
		t.Fatal(err)
	}

	var cuts atomic.Int32
	line := startCuttingProxy(t, r.host, 700_000, &cuts)
	opts.RegistriesConf = strictRegistriesConf(t, line, "")
	opts.AuthFile = writeFile(t, "auth.json", dockerConfig(line, robot, password))
	got, err := pullAndExtract(t.Context(), t, NewClient(opts), line+"/org/catalog:v1", "/configs")
	if err != nil || got["a"] != content {
		t.Errorf("got %d bytes (error %v), want %d", len(got["a"]), err, len(content))
	}
	if cuts.Load() < 2 {
		t.Errorf("got %d interrupted connections, want at least 2", cuts.Load())
	}
}

// startCuttingProxy forwards connections to an address, and cuts each one after some bytes.
func startCuttingProxy(t *testing.T, to string, after int64, cuts *atomic.Int32) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}

			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				return
			}

			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() {
				if n, _ := io.CopyN(near, far, after); n == after {
					cuts.Add(1)
				}
				_ = near.Close()
			}()
		}
	}()

	return listener.Addr().String()
}

func TestRealRegistryOverIPv6(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}

	_ = listener.Close()
	r := startRealRegistry(t, realOptions{address: "::1"})
	if !strings.HasPrefix(r.host, "[::1]:") {
		t.Fatalf("got unexpected address %s of the registry", r.host)
	}

	client := NewClient(r.options(t))
	ref := r.host + "/org/catalog:v1"
	canonical, err := client.Push(t.Context(), ref, nil, catalogImage(t))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(canonical, r.host+"/org/catalog@sha256:") {
		t.Errorf("pushing: got unexpected reference %s", canonical)
	}

	for _, name := range []string{ref, canonical} {
		if _, err := pullAndExtract(t.Context(), t, client, name, "/configs"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	entry, err := NewCache(t.TempDir()).Ensure(t.Context(), client, canonical, "/configs")
	if err != nil || entry.Labels[LabelConfigs] != "/configs" {
		t.Errorf("got cached entry %v (error %v), want its label", entry, err)
	}
}
