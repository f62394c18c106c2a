// Package env starts the real Kubernetes API server that tests run against: one per
// test binary, with the project's kinds installed.
//
// It is for tests only. No room of the product imports it.
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

// RequireVariable is the environment variable that turns a test which cannot run,
// because the control plane's programs are missing, from skipped to failed. CI sets
// it, so that nothing is skipped in silence.
const RequireVariable = "MAINSTAY_REQUIRE_ENV"

// startTime bounds how long the API server may take to start, and to stop.
const startTime = 2 * time.Minute

// errMissing says that the programs of the control plane are not there.
var errMissing = errors.New("etcd and kube-apiserver were not found")

// shared is the environment of the test binary.
var shared struct {
	once   sync.Once
	env    *envtest.Environment
	folder string
	config *rest.Config
	err    error
}

// Start returns the connection to the API server of this test binary, as an
// administrator, and starts the server at the first call. Every CRD of config is installed.
//
// The server is shared by all tests of the binary: a test names its objects so that
// they meet no other test's. TestMain stops it, by Stop:
//
//	func TestMain(m *testing.M) { os.Exit(env.Run(m)) }
//
// The test is skipped when the programs are missing, and fails instead when
// RequireVariable is set.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	shared.once.Do(start)
	switch {
	case errors.Is(shared.err, errMissing) && os.Getenv(RequireVariable) == "":
		t.Skipf("no API server: %v", shared.err)
	case shared.err != nil:
		t.Fatalf("starting the API server: %v", shared.err)
	}

	return rest.CopyConfig(shared.config)
}

// Client returns a client without a cache to the API server that Start starts. It
// knows the kinds that the functions add to its scheme.
func Client(t testing.TB, add ...func(*runtime.Scheme) error) client.Client {
	t.Helper()
	config := Start(t)
	c, err := client.New(config, client.Options{Scheme: Scheme(t, add...)})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// Scheme makes a scheme from the functions that add kinds to it.
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

// Run runs the tests and stops what they started. It gives the exit code, which is
// not zero either when the server does not stop.
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

func start() {
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
		// A busy machine takes its time.
		ControlPlaneStartTimeout: startTime, ControlPlaneStopTimeout: startTime,
		Scheme: runtime.NewScheme(),
	}
	if shared.folder, shared.err = os.MkdirTemp("", "mainstay-env-"); shared.err != nil {
		return
	}
	if shared.err = makeRestartable(shared.env, binaries, shared.folder); shared.err != nil {
		return
	}
	if shared.err = aggregate(shared.env, shared.folder); shared.err != nil {
		return
	}
	if shared.err = logRequests(shared.env, shared.folder); shared.err != nil {
		return
	}

	shared.config, shared.err = shared.env.Start()
}

// findBinaries returns the folder of etcd and kube-apiserver: KUBEBUILDER_ASSETS when
// that is set, else bin/k8s of the repository.
func findBinaries(root string) (string, error) {
	folder := os.Getenv("KUBEBUILDER_ASSETS")
	if folder == "" {
		folder = filepath.Join(root, "bin", "k8s")
	}

	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return "", fmt.Errorf("%w: %w; build them into bin/k8s or set KUBEBUILDER_ASSETS", errMissing, err)
		}
	}
	return folder, nil
}

// Root returns the root of the repository: the first folder, upward from the working
// directory, that holds go.mod and config/crd.
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

// SharedData returns the folder of a kind of real data, shared/data/<kind> beside the
// repository, and skips the test when it is absent.
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
