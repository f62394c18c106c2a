// Package env starts a real Kubernetes API server for tests: one per test binary, with the
// project's CRDs installed. Test binaries that run one after the other can share one, see Servers.
//
// It is only for tests. No package of the product imports it.
package env

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// controlPlaneTimeout is the timeout for starting and stopping the API server, and for serving the CRDs.
const controlPlaneTimeout = 2 * time.Minute

// errBinariesMissing means that the programs of the control plane are missing.
var errBinariesMissing = errors.New("etcd and kube-apiserver were not found")

// shared is the API server of the test binary.
var shared struct {
	once   sync.Once
	config *rest.Config
	err    error
	// auditLog is the path of the audit log. The part before auditLogStart is from other test programs.
	auditLog      string
	auditLogStart int64

	// own is the API server if it was not borrowed.
	own      *controlPlane
	borrowed *borrowedServer
}

// Start returns an administrator's connection to the API server of this test binary. The first
// call starts the server, with every CRD of config installed.
//
// All tests of the binary share the server, so a test must use unique names for its objects.
// TestMain stops the server with Run:
//
//	func TestMain(m *testing.M) { os.Exit(env.Run(m)) }
//
// If the programs are missing, the test is skipped, or fails if checkout.RequireVariable is set.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	shared.once.Do(startEnvironment)
	switch {
	case errors.Is(shared.err, errBinariesMissing) && os.Getenv(checkout.RequireVariable) == "":
		t.Skipf("no API server: %v", shared.err)
	case shared.err != nil:
		t.Fatalf("starting the API server: %v", shared.err)
	}

	return rest.CopyConfig(shared.config)
}

// Client returns a client without a cache to the API server of Start. add are functions that
// register types in its scheme.
func Client(t testing.TB, add ...func(*runtime.Scheme) error) client.Client {
	t.Helper()
	config := Start(t)
	c, err := client.New(config, client.Options{Scheme: Scheme(t, add...)})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// Scheme returns a scheme with the types that the functions register.
func Scheme(t testing.TB, add ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, f := range add {
		if err := f(scheme); err != nil {
			t.Fatalf("adding kinds to the scheme: %v", err)
		}
	}
	return scheme
}

// LogVariable is the environment variable that makes tests print the logs of controllers.
const LogVariable = "MAINSTAY_TEST_LOG"

// Run runs the tests and stops the API server. It returns the exit code, which is not zero if
// stopping the server fails. The logs of controllers are discarded unless LogVariable is set.
func Run(m *testing.M) int {
	code := runTests(m)
	if err := Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		return max(code, 1)
	}
	return code
}

// runTests runs the tests, and returns the exit code.
func runTests(m *testing.M) int {
	logger := logr.Discard()
	if os.Getenv(LogVariable) != "" {
		logger = zap.New(zap.UseDevMode(true))
	}
	log.SetLogger(logger)
	return m.Run()
}

// Stop stops the API server if Start started it. Run calls it.
func Stop() error {
	if shared.borrowed != nil {
		return shared.borrowed.connection.Close()
	}
	if shared.own != nil {
		return shared.own.stop()
	}
	return nil
}

func startEnvironment() {
	root, err := checkout.Root()
	if err != nil {
		shared.err = err
		return
	}

	if os.Getenv(SharedVariable) != "" && trustedIssuer == nil {
		if shared.borrowed, shared.err = borrowServer(root, SocketPath(root)); shared.err == nil {
			l := shared.borrowed.loan
			shared.config = &rest.Config{Host: l.Host, TLSClientConfig: l.TLS, QPS: l.QPS, Burst: l.Burst}
			shared.auditLog, shared.auditLogStart = l.AuditLog, l.AuditLogStart
		}
		return
	}

	// A fuzz worker is killed before it could stop an API server, and the program that started it would wait for the API server.
	if worker := flag.Lookup("test.fuzzworker"); worker != nil && worker.Value.String() == "true" {
		shared.err = fmt.Errorf("fuzz workers borrow API servers: use make fuzz, or set %s as it does", SharedVariable)
		return
	}

	shared.own, shared.err = startControlPlane(root)
	if shared.err == nil {
		shared.config, shared.auditLog = shared.own.config, filepath.Join(shared.own.folder, auditLogFile)
	}
}
