package packageserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operatorsv1 "github.com/mainstay-dev/mainstay/api/operators/v1"
	operatorsv1alpha1 "github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	packagesv1 "github.com/mainstay-dev/mainstay/api/packages/v1"
	"github.com/mainstay-dev/mainstay/internal/certificate"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver"
	"github.com/mainstay-dev/mainstay/internal/classic/packageserver/serve"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) {
	code := env.CheckRights(m.Run(), env.ShippedRights{
		Files:   []string{"config/classic/packageserver/role.yaml"},
		Account: func(string) string { return "system:serviceaccount:" + accountNamespace + ":" + accountName },
	})
	if serving.stop != nil {
		serving.stop() // The API server waits for its watches.
	}
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = max(code, 1)
	}

	os.Exit(code)
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() (bool, string)) {
	t.Helper()
	env.Eventually(t, what, func() error {
		done, state := ok()
		if !done {
			return errors.New(state)
		}
		return nil
	})
}

// fixture has an API server that forwards requests for packages to a package server.
type fixture struct {
	t      testing.TB
	config *rest.Config
	client client.Client
	// namespace is the namespace of the test, with catalogs that only it sees.
	namespace string
	// global is the namespace whose catalogs all namespaces see.
	global string
}

// serving is the package server of the test binary: there is one APIService.
var serving struct {
	once    sync.Once
	address string
	stop    func()
	err     error
}

// accountNamespace and accountName identify the service account of the package server.
const accountNamespace, accountName = "olm", "packageserver"

const globalNamespace = "global-catalogs"

// newFixture starts the API server and the package server, and creates a namespace for the
// test.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{t: t, config: env.Start(t), global: globalNamespace}
	c.client = env.Client(t, corev1.AddToScheme, rbacv1.AddToScheme, operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme, packagesv1.AddToScheme)
	serving.once.Do(func() { serving.err = c.serve() })
	if serving.err != nil {
		t.Fatal(serving.err)
	}

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"}}
	c.create(ns)
	c.namespace = ns.Name

	return c
}

func (f *fixture) create(o client.Object) {
	f.t.Helper()
	if err := f.client.Create(f.t.Context(), o); err != nil {
		f.t.Fatal(err)
	}
}

// serve starts the package server, and has the API server pass requests on to it.
func (f *fixture) serve() error {
	ctx := context.Background()
	shipped := &env.Fixture{Client: f.client, T: f.t}
	for _, name := range []string{globalNamespace, "package-server", accountNamespace} {
		shipped.EnsureNamespace(name)
	}
	for _, file := range []string{"service_account", "role", "rbac"} {
		shipped.CreateConfig("classic/packageserver/" + file + ".yaml")
	}

	address, stop, err := start(f.t, env.ConnectAs(f.t, accountNamespace, accountName), packageserver.Options{GlobalNamespace: globalNamespace, Access: serve.Access{DenyTTL: time.Millisecond}})
	if err != nil {
		return err
	}

	serving.address, serving.stop = address, stop
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "package-server", Name: "packageserver"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if err := f.client.Create(ctx, service); err != nil {
		return err
	}

	api := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1.packages.operators.coreos.com"},
		"spec": map[string]any{
			"group": packagesv1.GroupVersion.Group, "version": packagesv1.GroupVersion.Version,
			"groupPriorityMinimum": int64(2000), "versionPriority": int64(15), "insecureSkipTLSVerify": true,
			"service": map[string]any{"namespace": "package-server", "name": "packageserver", "port": number(port)},
		},
	}}
	if err := f.client.Create(ctx, api); err != nil {
		return err
	}

	until(f.t, "the API server passes requests on", func() (bool, string) {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(api), api); err != nil {
			return false, err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		return strings.Contains(fmt.Sprint(conditions), "status:True"), fmt.Sprint(conditions)
	})

	return nil
}

func number(text string) (n int64) {
	_, _ = fmt.Sscan(text, &n) // It is a port.
	return n
}

// start runs a package server until the end of the test binary, or until it is stopped.
func start(t testing.TB, config *rest.Config, options packageserver.Options) (address string, stop func(), err error) {
	log := testr.NewWithInterface(silentTB{}, testr.Options{})
	if testing.Verbose() {
		log = ctrl.Log
	}

	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  env.Scheme(t, corev1.AddToScheme, operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Logger: log,
	})
	if err != nil {
		return "", nil, err
	}

	now := time.Now()
	authority, err := certificate.NewAuthority("test", time.Hour, now)
	if err != nil {
		return "", nil, err
	}

	pair, err := authority.Issue([]string{"localhost"}, time.Hour, now)
	if err != nil {
		return "", nil, err
	}

	listening := make(chan string, 1)
	options.Address, options.TLS = "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*pair.TLS()}, MinVersion: tls.VersionTLS12}
	options.OnListening = func(a net.Addr) { listening <- a.String() }
	options.AlwaysAllow = []string{"/healthz", "/readyz", "/livez"}
	options.Name = fmt.Sprintf("packageserver-%d", now.UnixNano())
	ctx, cancel := context.WithCancel(context.Background())
	if err := packageserver.Setup(ctx, mgr, options); err != nil {
		cancel()
		return "", nil, err
	}

	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	select {
	case address = <-listening:
	case err := <-ended:
		cancel()
		return "", nil, fmt.Errorf("the server ended: %w", err)
	}

	return address, func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Fprintln(os.Stderr, "the package server ended with:", err)
		}
	}, nil
}

type silentTB struct{}

func (silentTB) Helper()    {}
func (silentTB) Log(...any) {}

// serveCatalog serves a catalog by the program that serves real ones, until the end of the test or
// until it is stopped.
func serveCatalog(t testing.TB, folder string) (address string, stop func()) {
	t.Helper()
	return catalogserver.Serve(t, "", content.Folder{Dir: folder})
}

// folderOf writes a file-based catalog into a folder.
func folderOf(t testing.TB, blobs ...string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "catalog.yaml"), []byte(strings.Join(blobs, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// catalog creates a CatalogSource with the address of a catalog server, in the state that its controller sets.
func (f *fixture) catalog(namespace, name, address string, change ...func(*operatorsv1alpha1.CatalogSource)) *operatorsv1alpha1.CatalogSource {
	f.t.Helper()
	made := &operatorsv1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: operatorsv1alpha1.CatalogSourceSpec{
			SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: address, DisplayName: "The " + name, Publisher: "Someone",
		},
	}

	for _, edit := range change {
		edit(made)
	}

	f.create(made)
	f.t.Cleanup(func() {
		if err := f.client.Delete(context.Background(), made); client.IgnoreNotFound(err) != nil {
			f.t.Error(err)
		}
	})
	made.Status.RegistryServiceStatus = &operatorsv1alpha1.RegistryServiceStatus{Protocol: "grpc", CreatedAt: metav1.Now()}
	if err := f.client.Status().Update(f.t.Context(), made); err != nil {
		f.t.Fatal(err)
	}

	return made
}

// packages lists the packages of a namespace, as CATALOG/PACKAGE, through the API server.
func (f *fixture) packages(namespace string, options ...client.ListOption) []string {
	f.t.Helper()
	var list packagesv1.PackageManifestList
	if err := f.client.List(f.t.Context(), &list, append(options, client.InNamespace(namespace))...); err != nil {
		f.t.Fatal(err)
	}

	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Status.CatalogSource+"/"+list.Items[i].Name)
	}

	return names
}

// untilPackages waits until a namespace sees these packages.
func (f *fixture) untilPackages(namespace string, want ...string) {
	f.t.Helper()
	until(f.t, fmt.Sprintf("the packages %q", want), func() (bool, string) {
		got := f.packages(namespace)
		return fmt.Sprint(got) == fmt.Sprint(want), fmt.Sprint(got)
	})
}
