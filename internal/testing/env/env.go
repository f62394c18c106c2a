// Package env starts a real Kubernetes API server for tests: one per test binary, with the
// project's CRDs installed.
//
// It is only for tests. No package of the product imports it.
package env

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// RequireVariable is an environment variable. If it is set, a test that needs missing programs of
// the control plane fails instead of being skipped. CI sets it, so that no test is silently
// skipped.
const RequireVariable = "MAINSTAY_REQUIRE_ENV"

// controlPlaneTimeout is the timeout for starting and stopping the API server, and for serving the CRDs.
const controlPlaneTimeout = 2 * time.Minute

// errBinariesMissing means that the programs of the control plane are missing.
var errBinariesMissing = errors.New("etcd and kube-apiserver were not found")

// shared is the environment of the test binary.
var shared struct {
	once   sync.Once
	env    *envtest.Environment
	folder string
	config *rest.Config
	err    error
}

// Start returns an administrator's connection to the API server of this test binary. The first
// call starts the server, with every CRD of config installed.
//
// All tests of the binary share the server, so a test must use unique names for its objects.
// TestMain stops the server with Run:
//
//	func TestMain(m *testing.M) { os.Exit(env.Run(m)) }
//
// If the programs are missing, the test is skipped, or fails if RequireVariable is set.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	shared.once.Do(startEnvironment)
	switch {
	case errors.Is(shared.err, errBinariesMissing) && os.Getenv(RequireVariable) == "":
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

// Run runs the tests and stops the API server. It returns the exit code, which is not zero if
// stopping the server fails.
func Run(m *testing.M) int {
	code := m.Run()
	if err := Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		return max(code, 1)
	}
	return code
}

// Stop stops the API server if Start started it. Run calls it.
func Stop() error {
	if shared.env == nil {
		return nil
	}
	return errors.Join(shared.env.Stop(), os.RemoveAll(shared.folder))
}

func startEnvironment() {
	root, err := Root()
	if err != nil {
		shared.err = err
		return
	}

	binaries, err := findBinaries(root)
	if err != nil {
		shared.err = err
		return
	}

	shared.env = &envtest.Environment{
		BinaryAssetsDirectory: binaries,
		CRDDirectoryPaths:     []string{filepath.Join(root, "config", "crd"), filepath.Join(root, "config", "platform"), filepath.Join(root, "config", "classic", "crd"), filepath.Join(root, "config", "classic", "marketplace")},
		ErrorIfCRDPathMissing: true,
		// The defaults are too short for a busy machine.
		ControlPlaneStartTimeout: controlPlaneTimeout, ControlPlaneStopTimeout: controlPlaneTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: controlPlaneTimeout},
		Scheme:            runtime.NewScheme(),
	}
	if shared.folder, shared.err = os.MkdirTemp("", "mainstay-env-"); shared.err != nil {
		return
	}
	if shared.err = makeServerRestartable(shared.env, binaries, shared.folder); shared.err != nil {
		return
	}
	if shared.err = enableAggregation(shared.env, shared.folder); shared.err != nil {
		return
	}
	if shared.err = enableAuditLog(shared.env, shared.folder); shared.err != nil {
		return
	}
	if shared.err = trustIssuer(shared.env, shared.folder); shared.err != nil {
		return
	}

	shared.config, shared.err = shared.env.Start()
}

// findBinaries returns the folder of etcd and kube-apiserver: KUBEBUILDER_ASSETS if it is set,
// otherwise bin/k8s of the repository.
func findBinaries(root string) (string, error) {
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		folder = filepath.Join(root, "bin", "k8s")
	}

	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return "", fmt.Errorf("%w: %w; build them into bin/k8s or set KUBEBUILDER_ASSETS", errBinariesMissing, err)
		}
	}
	return folder, nil
}

// Root returns the root of the repository: the first folder with go.mod and config/crd, upward
// from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}

	for {
		_, modErr := os.Stat(filepath.Join(dir, "go.mod"))
		_, crdErr := os.Stat(filepath.Join(dir, "config", "crd"))
		if modErr == nil && crdErr == nil {
			return dir, nil
		}

		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no repository above the working directory: %w", fs.ErrNotExist)
		}

		dir = parent
	}
}

// SharedData returns the folder of a kind of real data, shared/data/<kind> beside the repository.
// It skips the test if the folder does not exist.
func SharedData(t testing.TB, kind string) string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}

	folder := filepath.Join(filepath.Dir(root), "shared", "data", kind)
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("real data is not here: %v", err)
	}

	return folder
}
