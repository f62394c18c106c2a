package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/classic/snapshot"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// server is a catalog that a test configures.
type server struct {
	registrypb.UnimplementedRegistryServer

	mu       sync.Mutex
	bundles  []*registrypb.Bundle
	packages map[string]*registrypb.Package
	err      error
	reads    int
}

func (s *server) ListBundles(_ *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for _, b := range s.bundles {
		if err := stream.Send(b); err != nil {
			return err
		}
	}

	return s.err
}

func (s *server) GetPackage(_ context.Context, r *registrypb.GetPackageRequest) (*registrypb.Package, error) {
	if p := s.packages[r.GetName()]; p != nil {
		return p, nil
	}
	return nil, status.Error(codes.Unknown, "it cannot be read")
}

func (s *server) GetBundle(_ context.Context, r *registrypb.GetBundleRequest) (*registrypb.Bundle, error) {
	if r.GetCsvName() == "" || r.GetPkgName() == "" || r.GetChannelName() == "" {
		return nil, status.Error(codes.InvalidArgument, "something is missing")
	}
	return &registrypb.Bundle{CsvJson: "csv of " + r.GetCsvName(), Object: []string{"one", "two"}}, nil
}

// clients are those of the catalogs of a test.
type clients map[types.NamespacedName]registrypb.RegistryClient

func (c clients) Client(catalog types.NamespacedName) (registrypb.RegistryClient, bool) {
	client, ok := c[catalog]
	return client, ok
}

// serve runs a catalog and returns its client. wrap are functions that wrap its listener.
func serve(t *testing.T, s registrypb.RegistryServer, wrap ...func(net.Listener) net.Listener) registrypb.RegistryClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	address := listener.Addr().String()
	for _, f := range wrap {
		listener = f(listener)
	}

	catalogserver.ServeOn(t, listener, s)
	return catalogserver.Dial(t, address)
}

func bundle(pkg, channel, name string, properties ...*registrypb.Property) *registrypb.Bundle {
	return &registrypb.Bundle{CsvName: name, PackageName: pkg, ChannelName: channel, Version: "1.0.0", BundlePath: "image", Properties: properties}
}

// named returns the name of a catalog that no other test uses.
func named(t *testing.T) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: strings.ToLower(t.Name())}
}

func TestSnapshotContent(t *testing.T) {
	broken := bundle("a", "x", "a.v0", &registrypb.Property{Type: "olm.gvk", Value: `{`})
	bare := bundle("a", "x", "a.v3")
	bare.ProvidedApis = []*registrypb.GroupVersionKind{{Group: "g", Version: "v1", Kind: "P", Plural: "ps"}}
	bare.RequiredApis = []*registrypb.GroupVersionKind{{Group: "g", Version: "v1", Kind: "R", Plural: "rs"}}
	old := bundle("a", "y", "a.v2", &registrypb.Property{Type: "t", Value: `1`})
	old.Deprecation = &registrypb.Deprecation{Message: "old"}
	old.Replaces, old.Skips, old.SkipRange = "a.v1", []string{"a.v1.5"}, "<2.0.0"
	key := named(t)
	store := snapshot.New(clients{key: serve(t, &server{
		bundles: []*registrypb.Bundle{broken, bare, old, bundle("unknown", "x", "u.v1"), bundle("", "", "")},
		packages: map[string]*registrypb.Package{"a": {
			Name: "a", DefaultChannelName: "x", Deprecation: &registrypb.Deprecation{Message: "package"},
			Channels: []*registrypb.Channel{{Name: "x"}, {Name: "y", Deprecation: &registrypb.Deprecation{Message: "channel"}}},
		}},
	})}, nil)

	got, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got.Len() != 2 || got.Find("unknown", "", "u.v1") != nil {
		t.Fatalf("%d entries", got.Len())
	}

	p := got.Packages["a"]
	if p.DefaultChannel != "x" || p.Deprecation != "package" || !cmp.Equal(p.DeprecatedChannels, map[string]string{"y": "channel"}) {
		t.Errorf("package %+v", p)
	}

	e := got.Find("a", "y", "a.v2")
	if e == nil || e.Deprecation != "old" || e.Replaces != "a.v1" || !cmp.Equal(e.Skips, []string{"a.v1.5"}) || e.SkipRange != "<2.0.0" || e.Image != "image" || e.Catalog() != key {
		t.Errorf("entry %+v", e)
	}

	var properties []string
	for _, property := range got.Find("a", "", "a.v3").Properties {
		properties = append(properties, property.Type+" "+string(property.Value))
	}

	want := []string{
		`olm.gvk {"group":"g","kind":"P","version":"v1"}`, `olm.gvk.required {"group":"g","kind":"R","version":"v1"}`,
		`olm.package {"packageName":"a","version":"1.0.0"}`,
	}
	if diff := cmp.Diff(want, properties); diff != "" {
		t.Errorf("properties of a bundle that has none (-want +got)\n%s", diff)
	}

	csv, objects, err := store.Manifests(t.Context(), e)
	if err != nil || csv != "csv of a.v2" || len(objects) != 2 {
		t.Errorf("manifests %q, %q, %v", csv, objects, err)
	}
}

// cutListener remembers its connections, so that they can be cut.
type cutListener struct {
	net.Listener

	mu   sync.Mutex
	open []net.Conn
}

func (l *cutListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, connection)
	return connection, err
}

// cut closes all connections.
func (l *cutListener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, connection := range l.open {
		_ = connection.Close()
	}
	l.open = nil
}

// replacedServer is a catalog whose first connection is lost while it lists bundles, as when its pod is replaced.
type replacedServer struct {
	server

	lose func()
}

func (s *replacedServer) ListBundles(r *registrypb.ListBundlesRequest, stream grpc.ServerStreamingServer[registrypb.Bundle]) error {
	err := s.server.ListBundles(r, stream)
	if s.reads == 1 {
		s.lose()
		<-stream.Context().Done()
	}
	return err
}

// A catalog whose connection is lost while it is read is read again on the next connection.
func TestReadAfterLostConnection(t *testing.T) {
	s := &replacedServer{server: server{
		bundles: []*registrypb.Bundle{bundle("a", "x", "a.v1")}, packages: map[string]*registrypb.Package{"a": {Name: "a"}},
	}}
	key := named(t)
	store := snapshot.New(clients{key: serve(t, s, func(l net.Listener) net.Listener {
		cut := &cutListener{Listener: l}
		s.lose = cut.cut
		return cut
	})}, nil)

	got, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if got.Len() != 1 || s.reads != 2 {
		t.Errorf("got %d entries after %d reads, want 1 after 2", got.Len(), s.reads)
	}
}

// Servers of SQLite catalogs list requirements as dependencies only, and those of file-based
// catalogs list them as properties too.
func TestSnapshotDependencies(t *testing.T) {
	dependencies := []*registrypb.Dependency{
		{Type: "olm.gvk", Value: `{"group":"g","version":"v1","kind":"K"}`},
		{Type: "olm.package", Value: `{"packageName":"p","version":">=1.0.0"}`},
		{Type: "olm.constraint", Value: `{"failureMessage":"f"}`},
		{Type: "olm.label", Value: `{"label":"l"}`},
	}
	provided := &registrypb.Property{Type: "t", Value: `1`}
	rows := bundle("a", "x", "a.v1", provided)
	rows.Dependencies = dependencies
	repeated := bundle("a", "x", "a.v2", provided, &registrypb.Property{Type: "olm.gvk.required", Value: `{"kind":"K","group":"g","version":"v1"}`})
	repeated.Dependencies = dependencies[:1]
	apis := bundle("a", "x", "a.v3", provided)
	apis.RequiredApis = []*registrypb.GroupVersionKind{{Group: "g", Version: "v1", Kind: "K"}}
	broken := bundle("a", "x", "a.v4", provided)
	broken.Dependencies = []*registrypb.Dependency{{Type: "olm.constraint", Value: `{`}}
	key := named(t)
	store := snapshot.New(clients{key: serve(t, &server{bundles: []*registrypb.Bundle{rows, repeated, apis, broken}, packages: map[string]*registrypb.Package{"a": {}}})}, nil)
	got, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}

	const gvk = `olm.gvk.required {"group":"g","kind":"K","version":"v1"}`
	for name, want := range map[string][]string{
		"a.v1": {gvk, `olm.package.required {"packageName":"p","versionRange":">=1.0.0"}`, `olm.constraint {"failureMessage":"f"}`, `olm.label.required {"label":"l"}`},
		"a.v2": {gvk},
		"a.v3": {gvk},
		"a.v4": nil,
	} {
		var properties []string
		if e := got.Find("a", "", name); e != nil {
			for _, p := range e.Properties {
				if p.Type != "t" && p.Type != "olm.package" {
					properties = append(properties, p.Type+" "+string(p.Value))
				}
			}
		}

		if diff := cmp.Diff(want, properties); diff != "" {
			t.Errorf("requirements of %s (-want +got)\n%s", name, diff)
		}
	}

	if got.Find("a", "", "a.v4") != nil {
		t.Error("a bundle with an invalid dependency is not left out")
	}
}

// A catalog is read once, and again when it may have changed.
func TestSnapshotRefresh(t *testing.T) {
	key := named(t)
	s := &server{bundles: []*registrypb.Bundle{bundle("a", "x", "a.v1")}, packages: map[string]*registrypb.Package{"a": {}}}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	store := snapshot.New(clients{key: serve(t, s)}, clock)
	read := func(times int) {
		t.Helper()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				if _, err := store.Get(t.Context(), key); err != nil {
					t.Error(err)
				}
			})
		}

		group.Wait()
		if s.reads != times {
			t.Errorf("got %d reads, want %d", s.reads, times)
		}
		if n, err := testutil.GatherAndCount(metrics.Registry, "catalog_source_snapshots_total"); err != nil || n == 0 {
			t.Errorf("%d series: %v", n, err)
		}
	}

	read(1)
	store.Invalidate(key)
	read(2)
	clock.SetTime(clock.Now().Add(31 * time.Minute))
	read(3)
	store.Remove(key)
	read(4)
}

func TestCatalogErrors(t *testing.T) {
	key := named(t)
	other := types.NamespacedName{Namespace: "ns", Name: "broken-off"}
	s := &server{bundles: []*registrypb.Bundle{bundle("a", "x", "a.v1")}, err: errors.New("the disk is gone"), packages: map[string]*registrypb.Package{"a": {}}}
	store := snapshot.New(clients{other: serve(t, s)}, nil)
	for _, test := range []struct {
		catalog types.NamespacedName
		want    string
	}{
		{key, fmt.Sprintf("no registry client established for catalogsource %s", key)},
		{other, "failed to list bundles: rpc error: code = Unknown desc = the disk is gone"},
	} {
		if _, err := store.Get(t.Context(), test.catalog); err == nil || err.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}

	// A failed read is retried.
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	if _, err := store.Get(t.Context(), other); err != nil {
		t.Error(err)
	}
}
