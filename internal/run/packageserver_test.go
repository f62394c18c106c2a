package run

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// runPackageServer runs package-server until the end of the test, and returns its address.
func runPackageServer(t *testing.T, args ...string) string {
	t.Helper()
	p, listening := &packageServerOptions{}, make(chan string, 1)
	p.served.Name = "packageserver-" + filepath.Base(t.TempDir()) + strings.Join(args, "")
	p.served.OnListening = func(a net.Addr) { listening <- a.String() }
	cmd := server{name: "package-server", metricsAddress: "0", addFlags: p.addFlags, setup: p.setupPackageServer}.newCommand("v1.2.3")
	cmd.SetArgs(append([]string{
		"--kubeconfig", kubeconfig(t), "--health-probe-bind-address", "0", "--bind-address", "127.0.0.1", "--secure-port", "0", "--debug",
	}, args...))
	return runCommand(t, cmd, listening)
}

// runCommand runs the command of a server until the end of the test, and returns the address that the server listens on.
func runCommand(t *testing.T, cmd *cobra.Command, listening <-chan string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	select {
	case address := <-listening:
		return address
	case err := <-done:
		done <- nil
		t.Fatalf("got error %v of the server", err)
		return ""
	}
}

// package-server serves with the certificate files if they exist, and with a self-issued certificate otherwise.
func TestPackageServerServes(t *testing.T) {
	env.Start(t)
	now := time.Now()
	authority, err := certificate.NewAuthority("test", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}

	pair, err := authority.Issue([]string{"packages.example.com"}, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}

	key, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}

	folder := t.TempDir()
	for name, content := range map[string][]byte{"apiserver.crt": pair.CertificatePEM(), "apiserver.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for want, dir := range map[string]string{"packages.example.com": folder, "localhost": t.TempDir()} {
		address := runPackageServer(t, "--cert-dir", dir, "--tls-min-version", "VersionTLS13")
		var presented string
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, // The certificate is checked below.
			VerifyConnection: func(s tls.ConnectionState) error {
				presented = strings.Join(s.PeerCertificates[0].DNSNames, ",")
				if s.Version != tls.VersionTLS13 {
					return errors.New("another version of TLS")
				}
				return nil
			},
		}}}

		t.Cleanup(client.CloseIdleConnections)
		for path, code := range map[string]int{"/readyz": http.StatusOK, "/apis": http.StatusUnauthorized} {
			env.Eventually(t, path, func() error {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
				if err != nil {
					return err
				}

				answer, err := client.Do(request)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				body, err := io.ReadAll(answer.Body)
				if err == nil && answer.StatusCode != code {
					err = fmt.Errorf("got %s %s, want %d", answer.Status, body, code)
				}
				return err
			})
		}

		if presented != want {
			t.Errorf("got the certificate of %s, want that of %s", presented, want)
		}
	}
}

func TestPackageServerRefuses(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	broken := filepath.Join(t.TempDir(), "broken.crt")
	if err := os.WriteFile(broken, pem.EncodeToMemory(&pem.Block{Type: "NONSENSE"}), 0o600); err != nil {
		t.Fatal(err)
	}

	for args, want := range map[string]string{
		"--tls-min-version VersionTLS10":                                  `--tls-min-version: "VersionTLS10" must be one of VersionTLS12, VersionTLS13`,
		"--tls-cipher-suites TLS_RSA_WITH_RC4_128_SHA":                    `--tls-cipher-suites: "TLS_RSA_WITH_RC4_128_SHA" is unknown or insecure`,
		"--tls-cert-file " + absent + " --tls-private-key-file " + absent: "reading the serving certificate",
		"--tls-cert-file " + absent:                                       "tls-private-key-file",
		"--authentication-kubeconfig " + absent:                           "--authentication-kubeconfig: ",
		"--authorization-kubeconfig " + absent:                            "--authorization-kubeconfig: ",
		"--client-ca-file " + broken:                                      "reading authorities",
		"--requestheader-client-ca-file " + absent:                        "reading authorities",
	} {
		cmd := NewCommand("v1.2.3")
		cmd.SilenceErrors = true
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append([]string{"package-server", "--kubeconfig", kubeconfig(t), "--health-probe-bind-address", "0", "--metrics-bind-address", "0"}, strings.Fields(args)...))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", args, err, want)
		}
	}
}

// The cache contains only the fields of CatalogSources that are read.
func TestStripCatalogSource(t *testing.T) {
	catalog := &operatorsv1alpha1.CatalogSource{}
	catalog.Labels, catalog.Annotations = map[string]string{"a": "b"}, map[string]string{"long": "text"}
	catalog.Spec.DisplayName, catalog.Spec.Icon = "Name", &operatorsv1alpha1.Icon{Data: "x"}
	if _, err := stripCatalogSource(catalog); err != nil {
		t.Fatal(err)
	}
	if catalog.Annotations != nil || catalog.Spec.Icon != nil || catalog.Spec.DisplayName != "Name" || catalog.Labels["a"] != "b" {
		t.Errorf("got the cached catalog %+v", catalog)
	}
}
