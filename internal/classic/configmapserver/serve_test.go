package configmapserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/classic/configmapserver"
	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// fixture holds an API server with a namespace, and an account that may get one ConfigMap.
type fixture struct {
	*env.Fixture
	namespace string
	// account is the connection of the account.
	account *rest.Config
}

// newFixture creates the objects that catalog-operator creates for a CatalogSource.
func newFixture(t *testing.T, configMap string) *fixture {
	t.Helper()
	f := &fixture{Fixture: env.NewFixture(t, corev1.AddToScheme, rbacv1.AddToScheme)}
	f.namespace = f.NewNamespace("configmap-")

	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: "server"}
	role, binding := builder.Role(meta, builder.Rules("get core configmaps "+configMap), builder.ServiceAccountSubject(meta.Namespace, meta.Name))
	f.CreateAll(&corev1.ServiceAccount{ObjectMeta: meta}, role, binding)
	f.account = env.ConnectAs(t, meta.Namespace, meta.Name)

	return f
}

// create creates a ConfigMap.
func (f *fixture) create(name string, data map[string]string) {
	f.T.Helper()
	f.Must(f.Create(f.T.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Data: data}))
}

// newServer returns a server of a ConfigMap.
func (f *fixture) newServer(name string) *configmapserver.Server {
	return &configmapserver.Server{Config: f.account, Namespace: f.namespace, Name: name}
}

// runUntilReady runs a server until the test ends, and returns a connection to it. run must call
// ready with the address.
func runUntilReady(t testing.TB, run func(ctx context.Context, ready func(net.Addr)) error) registrypb.RegistryClient {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	addresses, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() { ended <- run(ctx, func(address net.Addr) { addresses <- address }) }()
	t.Cleanup(cancel)
	select {
	case address := <-addresses:
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the server ended with: %v", err)
			}
		})
		connection, err := grpc.NewClient(address.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return registrypb.NewRegistryClient(connection)
	case err := <-ended:
		t.Fatalf("the server did not start: %v", err)
		return nil
	}
}

// serve runs the server of a ConfigMap.
func (f *fixture) serve(s *configmapserver.Server) registrypb.RegistryClient {
	f.T.Helper()
	return runUntilReady(f.T, func(ctx context.Context, ready func(net.Addr)) error {
		s.Registry.Address, s.Registry.OnReady = "127.0.0.1:0", ready
		return s.Run(ctx)
	})
}

// serveFolder runs the server of a file-based catalog.
func serveFolder(t *testing.T, catalog string) registrypb.RegistryClient {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(catalog), 0o600); err != nil {
		t.Fatal(err)
	}
	return runUntilReady(t, func(ctx context.Context, ready func(net.Addr)) error {
		return (&registry.Server{Source: content.Folder{Dir: dir}, Address: "127.0.0.1:0", OnReady: ready}).Run(ctx)
	})
}

// newBundleBlob returns the olm.bundle blob of a bundle folder with the same manifests as an entry
// of the ConfigMap.
func newBundleBlob(t *testing.T, pkg, csv, crd string) string {
	t.Helper()
	manifest := func(entry string) *fstest.MapFile {
		var list []any
		if err := yaml.Unmarshal([]byte(entry), &list); err != nil {
			t.Fatal(err)
		}
		data, err := yaml.Marshal(list[0])
		if err != nil {
			t.Fatal(err)
		}
		return &fstest.MapFile{Data: data}
	}
	b, err := bundle.Load(fstest.MapFS{
		"manifests/csv.yaml":        manifest(csv),
		"manifests/crd.yaml":        manifest(crd),
		"metadata/annotations.yaml": {Data: []byte("annotations: {operators.operatorframework.io.bundle.package.v1: " + pkg + "}")},
	})
	if err != nil {
		t.Fatal(err)
	}

	blob, err := b.FBC("", bundle.WithObjects)
	if err != nil {
		t.Fatal(err)
	}
	return "---\n" + string(blob.AppendJSON(nil)) + "\n"
}

// newFileBasedCatalog returns the file-based catalog with the content of twoPackages.
func newFileBasedCatalog(t *testing.T) string {
	t.Helper()
	kettle, toaster := newCRD("kettles", "Kettle"), newCRD("toasters", "Toaster")
	return `
schema: olm.package
name: kettle
defaultChannel: stable
---
schema: olm.channel
package: kettle
name: stable
entries:
- name: kettle.v1.0.0
- {name: kettle.v1.1.0, replaces: kettle.v1.0.0}
---
schema: olm.channel
package: kettle
name: next
entries:
- name: kettle.v1.0.0
- {name: kettle.v1.1.0, replaces: kettle.v1.0.0}
- {name: kettle.v2.0.0, replaces: kettle.v1.1.0, skips: [kettle.v1.0.0]}
---
schema: olm.package
name: toaster
defaultChannel: alpha
---
schema: olm.channel
package: toaster
name: alpha
entries:
- {name: toaster.v0.1.0, replaces: toaster.v0.0.9}
` +
		newBundleBlob(t, "kettle", newCSV("kettle", "1.0.0", owned("kettles", "Kettle")), kettle) +
		newBundleBlob(t, "kettle", newCSV("kettle", "1.1.0", "    replaces: kettle.v1.0.0\n"+owned("kettles", "Kettle")), kettle) +
		newBundleBlob(t, "kettle", newCSV("kettle", "2.0.0", "    replaces: kettle.v1.1.0\n    skips: [kettle.v1.0.0]\n"+owned("kettles", "Kettle")), kettle) +
		newBundleBlob(t, "toaster", newCSV("toaster", "0.1.0", "    replaces: toaster.v0.0.9\n"+owned("toasters", "Toaster")), toaster)
}

// collect returns all messages of a stream.
func collect[T proto.Message](stream interface{ Recv() (T, error) }, err error) ([]proto.Message, error) {
	var all []proto.Message
	for err == nil {
		var message T
		if message, err = stream.Recv(); err == nil {
			all = append(all, message)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}

// single returns a message as a list.
func single[T proto.Message](message T, err error) ([]proto.Message, error) {
	return []proto.Message{message}, err
}

// queries are calls of every method, by description.
func queries(ctx context.Context) map[string]func(registrypb.RegistryClient) ([]proto.Message, error) {
	all := map[string]func(registrypb.RegistryClient) ([]proto.Message, error){
		"ListPackages": func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return collect(c.ListPackages(ctx, &registrypb.ListPackageRequest{}))
		},
		"ListBundles": func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return collect(c.ListBundles(ctx, &registrypb.ListBundlesRequest{}))
		},
	}
	for _, name := range []string{"kettle", "toaster", "absent"} {
		all["GetPackage "+name] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return single(c.GetPackage(ctx, &registrypb.GetPackageRequest{Name: name}))
		}
	}
	for _, place := range [][3]string{
		{"kettle", "stable", "kettle.v1.0.0"}, {"kettle", "stable", "kettle.v1.1.0"}, {"kettle", "next", "kettle.v1.1.0"}, {"kettle", "next", "kettle.v2.0.0"},
		{"toaster", "alpha", "toaster.v0.1.0"}, {"kettle", "stable", "kettle.v2.0.0"},
	} {
		all[fmt.Sprintf("GetBundle %s", place)] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return single(c.GetBundle(ctx, &registrypb.GetBundleRequest{PkgName: place[0], ChannelName: place[1], CsvName: place[2]}))
		}
		all[fmt.Sprintf("GetBundleForChannel %s", place[:2])] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return single(c.GetBundleForChannel(ctx, &registrypb.GetBundleInChannelRequest{PkgName: place[0], ChannelName: place[1]})) //nolint:staticcheck // Old clients call it.
		}
		all[fmt.Sprintf("GetBundleThatReplaces %s", place)] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return single(c.GetBundleThatReplaces(ctx, &registrypb.GetReplacementRequest{PkgName: place[0], ChannelName: place[1], CsvName: place[2]}))
		}
		all["GetChannelEntriesThatReplace "+place[2]] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return collect(c.GetChannelEntriesThatReplace(ctx, &registrypb.GetAllReplacementsRequest{CsvName: place[2]}))
		}
	}
	for _, kind := range []string{"Kettle", "Toaster", "Pan"} {
		all["GetChannelEntriesThatProvide "+kind] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return collect(c.GetChannelEntriesThatProvide(ctx, &registrypb.GetAllProvidersRequest{Group: "example.com", Version: "v1", Kind: kind}))
		}
		all["GetLatestChannelEntriesThatProvide "+kind] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return collect(c.GetLatestChannelEntriesThatProvide(ctx, &registrypb.GetLatestProvidersRequest{Group: "example.com", Version: "v1", Kind: kind}))
		}
		all["GetDefaultBundleThatProvides "+kind] = func(c registrypb.RegistryClient) ([]proto.Message, error) {
			return single(c.GetDefaultBundleThatProvides(ctx, &registrypb.GetDefaultProviderRequest{Group: "example.com", Version: "v1", Kind: kind}))
		}
	}

	return all
}

// TestServe: the responses are those of a file-based catalog with the same content.
func TestServe(t *testing.T) {
	f := newFixture(t, "content")
	f.create("content", twoPackages())
	got, want := f.serve(f.newServer("content")), serveFolder(t, newFileBasedCatalog(t))
	answered := 0
	for name, query := range queries(t.Context()) {
		wanted, wantErr := query(want)
		answer, err := query(got)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s: got error %v, want %v", name, err, wantErr)
			continue
		}
		if diff := cmp.Diff(wanted, answer, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err == nil && len(answer) > 0 {
			answered++
		}
	}
	if answered < 20 {
		t.Errorf("got %d responses that are not empty, want at least 20", answered)
	}
}

// TestServeProblems: the error is in the termination log, where the status of the pod shows it.
func TestServeProblems(t *testing.T) {
	f := newFixture(t, "content")
	log := filepath.Join(t.TempDir(), "log")
	requireError := func(s *configmapserver.Server, want ...string) {
		t.Helper()
		s.Registry.TerminationLog = log
		err := s.Run(t.Context())
		written, _ := os.ReadFile(log)
		for _, text := range want {
			text = strings.ReplaceAll(text, "NAMESPACE", f.namespace)
			if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(string(written), text) {
				t.Errorf("got %v and log %s, want %q", err, written, text)
			}
		}
	}

	requireError(f.newServer("content"), "ConfigMap NAMESPACE/content does not exist: create it, or correct spec.configMap of the CatalogSource")
	requireError(f.newServer("other"), "reading ConfigMap NAMESPACE/other: ", "forbidden", "grant the service account of this pod the right to get it")

	data := with("packages", func(s string) string { return s + "- packageName: pan\n" })
	data["clusterServiceVersions"] += "- kind: Pan\n"
	f.create("content", data)
	requireError(f.newServer("content"), "ConfigMap NAMESPACE/content is not a valid catalog:\nclusterServiceVersions[4]: its kind is \"Pan\"", "\npackages[2] (pan): channels is empty")

	permissive := f.newServer("content")
	var logged bytes.Buffer
	permissive.Permissive, permissive.Registry.Log = true, slog.New(slog.NewTextHandler(&logged, nil))
	c := f.serve(permissive)
	packages, err := collect(c.ListPackages(t.Context(), &registrypb.ListPackageRequest{}))
	if err != nil || len(packages) != 2 {
		t.Errorf("got packages %v (%v), want the two valid ones", packages, err)
	}
	if !strings.Contains(logged.String(), "packages[2] (pan)") {
		t.Errorf("the problem is not logged:\n%s", logged.String())
	}
}
