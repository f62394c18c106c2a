package run

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	catalogmetrics "github.com/mainstay-dev/mainstay/internal/catalog/metrics"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
	"github.com/mainstay-dev/mainstay/internal/testing/protocol"
)

// serverVariable is an environment variable with which the test binary runs a server instead of tests.
const serverVariable = "MAINSTAY_TEST_SERVER"

// loadedMetrics are the names of the metrics that are registered before a server is set up.
var loadedMetrics []string

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		os.Exit(runServer())
	}

	families, _ := crmetrics.Registry.Gather() // an error is reported by the tests that read metrics
	for _, family := range families {
		loadedMetrics = append(loadedMetrics, family.GetName())
	}

	os.Exit(env.Run(m))
}

// runServer runs `mainstay run` with the arguments of the process until it is interrupted.
func runServer() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := NewCommand("v1.2.3").ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A server exports the metrics of its own controllers only, so no package registers metrics when it is loaded.
func TestNoMetricsAreRegisteredAtStart(t *testing.T) {
	libraries := []string{"go_", "process_", "controller_runtime_", "rest_client_", "workqueue_", "certwatcher_", "leader_election_"}
	for _, name := range loadedMetrics {
		if !slices.ContainsFunc(libraries, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("%s is registered before a server is set up, want it in the setup of its controller", name)
		}
	}
}

// tokenOf creates a service account and returns a token of it.
func tokenOf(t *testing.T, c kubernetes.Interface, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	return env.ConnectAs(t, "default", name).BearerToken
}

// newMetricsReader creates a service account that is authorized to read metrics, and returns a token of it.
func newMetricsReader(t *testing.T, name string) string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(env.Start(t))
	if err != nil {
		t.Fatal(err)
	}

	token := tokenOf(t, clients, name)
	role, binding := builder.ClusterRole(metav1.ObjectMeta{Name: name},
		[]rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}, builder.ServiceAccountSubject("default", name))
	if _, err := clients.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	return token
}

// kubeconfig writes a kubeconfig file for the API server of the test and returns its path.
func kubeconfig(t *testing.T) string {
	t.Helper()
	return env.WriteKubeconfig(t, env.Start(t))
}

// TestMetricsAreForThoseWhoMayReadThem requests metrics without a token, with an unauthorized token, and with an
// authorized token.
func TestMetricsAreForThoseWhoMayReadThem(t *testing.T) {
	clients, err := kubernetes.NewForConfig(env.Start(t))
	if err != nil {
		t.Fatal(err)
	}

	stranger, reader := tokenOf(t, clients, "stranger"), newMetricsReader(t, "reader")
	address := startMetrics(t)
	for name, test := range map[string]struct {
		token string
		code  int
	}{
		"nobody":               {"", http.StatusUnauthorized},
		"a stranger":           {stranger, http.StatusForbidden},
		"an authorized client": {reader, http.StatusOK},
	} {
		// The authorizer of the API server can be stale for a moment.
		var code int
		var text string
		env.Eventually(t, name, func() error {
			var err error
			code, text, err = get(t.Context(), "https://"+address+"/metrics", test.token)
			if err == nil && code != test.code {
				err = fmt.Errorf("got status %d with %q, want %d", code, text, test.code)
			}
			return err
		})
		if has := strings.Contains(text, "mainstay_catalog_http_requests_in_flight"); has != (test.code == http.StatusOK) {
			t.Errorf("%s: got metrics of catalogs: %v", name, has)
		}
	}

	if code, text, err := get(t.Context(), "https://"+address+"/metrics", "x.y.z"); err != nil || code == http.StatusOK {
		t.Errorf("a forged token: got status %d with %q (error %v)", code, text, err)
	}

	if got := protocol.Negotiate(t, address); got != "http/1.1" {
		t.Errorf("got the protocol %q, want http/1.1", got)
	}
	if code, _, err := get(t.Context(), "http://"+address+"/metrics", ""); err == nil && code == http.StatusOK {
		t.Error("metrics are served without TLS")
	}
}

// freeAddress returns a loopback address with an unused port.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// startMetrics starts the manager of catalogd, and returns the address of its metrics.
func startMetrics(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	catalogmetrics.Register()
	o := &options{kubeconfig: kubeconfig(t), metricsAddress: address, healthAddress: "0", pprofAddress: "0"}
	mgr, err := o.newManager("catalogd")
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	return address
}

// get requests a URL with a token.
func get(ctx context.Context, url, token string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}} // #nosec G402 -- the certificate is not part of this test
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func TestParseProfilerAddress(t *testing.T) {
	for _, tc := range []struct{ given, want, err string }{
		{given: "0", want: "0"},
		{given: "", want: "0"},
		{given: ":6060", want: "127.0.0.1:6060"},
		{given: "localhost:6060", want: "127.0.0.1:6060"},
		{given: "127.0.0.1:0", want: "127.0.0.1:0"},
		{given: "[::1]:6060", want: "[::1]:6060"},
		{given: "0.0.0.0:6060", err: "is reachable from other machines"},
		{given: "[::]:6060", err: "is reachable from other machines"},
		{given: "example.com:6060", err: "is reachable from other machines"},
		{given: "6060", err: "must be a loopback address with a port"},
	} {
		got, err := parseProfilerAddress(tc.given)
		if got != tc.want || (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
			t.Errorf("%q: got %q (error %v), want %q (%s)", tc.given, got, err, tc.want, tc.err)
		}
	}
}
