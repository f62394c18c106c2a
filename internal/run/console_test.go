package run

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/protocol"
)

// runConsole runs the console until the end of the test, and returns its address.
func runConsole(t *testing.T, args ...string) string {
	t.Helper()
	listening := make(chan string, 1)
	cmd := newConsoleCommand("v1.2.3", func(a net.Addr) { listening <- a.String() })
	cmd.SetArgs(append([]string{"--address", "127.0.0.1:0", "--health-probe-bind-address", "0"}, args...))
	return runCommand(t, cmd, listening)
}

// writeCertificate writes the files of a certificate for 127.0.0.1.
func writeCertificate(t *testing.T, authority *certificate.Pair, dir string) {
	t.Helper()
	pair, err := authority.Issue([]string{"127.0.0.1"}, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"tls.crt": pair.CertificatePEM(), "tls.key": key} {
		// As a kubelet does: a reader sees the old or the new file.
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name+".new"), data, 0o600), os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
}

// The console starts without its certificate files, serves with them when they exist, and reloads them when they change.
func TestConsoleServesTheCertificateInFiles(t *testing.T) {
	env.Start(t)
	dir := t.TempDir()
	address := runConsole(t, "--kubeconfig", kubeconfig(t), "--tls-cert", filepath.Join(dir, "tls.crt"), "--tls-key", filepath.Join(dir, "tls.key"))
	serial := func(roots *x509.CertPool) string {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, InsecureSkipVerify: roots == nil})
		if err != nil {
			return ""
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	if serial(nil) == "" {
		t.Error("the console does not serve without files")
	}

	authority, err := certificate.NewAuthority("test", 2*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate)
	first := ""
	writeCertificate(t, authority, dir)
	env.EventuallyTrue(t, "the console serves the certificate", func() bool { first = serial(roots); return first != "" }, nil)
	writeCertificate(t, authority, dir)
	env.EventuallyTrue(t, "the console serves the renewed certificate", func() bool { s := serial(roots); return s != "" && s != first }, nil)
}

// getFromConsole returns the response of a path.
func getFromConsole(t *testing.T, method, address, path, body string) (status int, text string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, "https://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.ProtoMajor != 2 {
		t.Errorf("got %s, want HTTP/2: each page keeps a request open", response.Proto)
	}
	return response.StatusCode, string(data)
}

// All pages of a browser share a connection, on which the number of concurrent requests is limited.
func TestConsoleLimitsTheRequestsOfAConnection(t *testing.T) {
	address := runConsole(t, "--api-server", "https://127.0.0.1:1")
	if got := protocol.MaxConcurrentStreams(t, address); got != consoleStreams {
		t.Errorf("got a limit of %d requests, want %d", got, consoleStreams)
	}
}

// No user is signed in with the credentials of the kubeconfig, and a user's token signs that user in.
func TestConsoleHasNoRights(t *testing.T) {
	env.Start(t)
	address := runConsole(t, "--kubeconfig", kubeconfig(t))
	if status, text := getFromConsole(t, http.MethodGet, address, "/", ""); status != http.StatusOK || !strings.Contains(text, "<html") {
		t.Errorf("the pages: got %d %s", status, text)
	}
	if status, _ := getFromConsole(t, http.MethodGet, address, "/api/v1/installed", ""); status != http.StatusUnauthorized {
		t.Errorf("without a session: got %d, want 401", status)
	}
	if status, text := getFromConsole(t, http.MethodPost, address, "/api/v1/session", `{"token":"nonsense"}`); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: got %d %s, want 401", status, text)
	}
	status, text := getFromConsole(t, http.MethodGet, address, "/api/v1/session", "")
	var info struct {
		SignedIn bool
		SignIn   string
		Version  string
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil || status != http.StatusOK || info.SignedIn || info.SignIn != "token" || info.Version != "v1.2.3" {
		t.Errorf("got %d %s (%v), want no user signed in", status, text, err)
	}
}

// The console starts while the API server is down, and reports this to users.
func TestConsoleStartsWithoutTheAPIServer(t *testing.T) {
	address := runConsole(t, "--api-server", "https://127.0.0.1:1")
	status, text := getFromConsole(t, http.MethodPost, address, "/api/v1/session", `{"token":"some-token"}`)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "The API server does not answer") {
		t.Errorf("got %d %s, want 503 with the reason", status, text)
	}
}

func TestConsoleFlags(t *testing.T) {
	dir := writeSettings(t, map[string]string{"oidc-issuer-url": "https://id.example.com\n", "oidc-client-id": "kubernetes\n", "session-lifetime": "long", "..data": ""})
	misspelled := writeSettings(t, map[string]string{"oidc-issuer": "https://id.example.com", "config-dir": "/"})
	server := "--api-server https://127.0.0.1:1 "
	for line, want := range map[string]string{
		"--tls-cert c": "missing [tls-key]",
		server + "--oidc-issuer-url https://id.example.com":                                                                 "missing [oidc-client-id]",
		server + "--oidc-issuer-url https://id.example.com --oidc-client-id c":                                              `--external-url: ""`,
		server + "--oidc-issuer-url https://id.example.com --oidc-client-id c --external-url http://c":                      `--external-url: "http://c"`,
		server + "--oidc-issuer-url http://id --oidc-client-id c --external-url https://c":                                  "must be an https URL",
		server + "--oidc-issuer-url https://id --oidc-client-id c --external-url https://c --oidc-client-secret-file /none": "--oidc-client-secret-file: open /none",
		server + "--oidc-issuer-url https://id --oidc-client-id c --external-url https://c --oidc-ca-file /none":            "--oidc-ca-file: open /none",
		server + "--api-server-ca /none":                     "--api-server-ca: stat /none",
		server + "--config-dir " + dir:                       "--config-dir: session-lifetime: ",
		server + "--session-lifetime 1h --config-dir " + dir: `--external-url: ""`,
		server + "--config-dir " + misspelled:                "--config-dir: oidc-issuer: there is no such setting",
		server + "--config-dir " + misspelled + " ":          "--config-dir: config-dir: there is no such setting",
		server + "--config-dir /dev/null":                    "--config-dir: open /dev/null",
		"more":                                               `unknown command "more"`,
	} {
		cmd := NewCommand("test")
		cmd.SetArgs(append([]string{"console", "--address", "127.0.0.1:0"}, strings.Fields(line)...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", line, err, want)
		}
	}
}

// writeSettings writes a folder as it is mounted from a ConfigMap.
func writeSettings(t *testing.T, settings map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range settings {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
