package registry_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// newCatalogs returns a server of several catalogs, and a function that connects to it with an authority.
func newCatalogs(t *testing.T) (catalogs *registry.Catalogs, connect func(authority string) *grpc.ClientConn) {
	t.Helper()
	catalogs = registry.NewCatalogs(slog.New(slog.DiscardHandler))
	t.Cleanup(catalogs.Stop)
	return catalogs, func(authority string) *grpc.ClientConn {
		t.Helper()
		conn, err := grpc.NewClient("passthrough:///"+authority, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return catalogs.Dial(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// contentOf builds the content of a catalog.
func contentOf(t *testing.T, text string) *content.Content {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := content.Cache{Log: slog.New(slog.DiscardHandler)}.Open(t.Context(), content.Folder{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// packageCatalog is a catalog with one package.
func packageCatalog(name string) string {
	return "{schema: olm.package, name: " + name + ", defaultChannel: stable}\n---\n" +
		"{schema: olm.channel, package: " + name + ", name: stable, entries: [{name: " + name + ".v1.0.0}]}\n---\n" +
		"{schema: olm.bundle, package: " + name + ", name: " + name + ".v1.0.0, image: example.com/" + name + ":v1, properties: [{type: olm.package, value: {packageName: " + name + ", version: 1.0.0}}]}\n"
}

func listPackages(t *testing.T, conn *grpc.ClientConn) ([]string, error) {
	t.Helper()
	stream, err := registrypb.NewRegistryClient(conn).ListPackages(t.Context(), &registrypb.ListPackageRequest{})
	packages, err := receive(t, stream, err)
	var names []string
	for _, p := range packages {
		names = append(names, p.GetName())
	}
	return names, err
}

// TestCatalogsAreRoutedByAuthority serves two catalogs with one server.
func TestCatalogsAreRoutedByAuthority(t *testing.T) {
	catalogs, connect := newCatalogs(t)
	catalogs.Set("first", "olm", contentOf(t, packageCatalog("etcd")))
	catalogs.Set("second", "team", contentOf(t, packageCatalog("redis")))
	for authority, want := range map[string][]string{
		"first.olm.svc:50051":                {"etcd"},
		"first.olm.svc.cluster.local.:50051": {"etcd"},
		"first.olm":                          {"etcd"},
		"second.team.svc:50051":              {"redis"},
	} {
		conn := connect(authority)
		got, err := listPackages(t, conn)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("packages at %s: %v (-want +got):\n%s", authority, err, diff)
		}

		health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health at %s: %v (%v), want SERVING", authority, health, err)
		}
	}

	for _, authority := range []string{"first.team.svc:50051", "first", "localhost:50051", "10.0.0.1:50051"} {
		if got, err := listPackages(t, connect(authority)); status.Code(err) != codes.Unavailable {
			t.Errorf("packages at %s: %v (%v), want code Unavailable", authority, got, err)
		}
	}
}

// TestCatalogContentIsReplaced replaces content during a call.
func TestCatalogContentIsReplaced(t *testing.T) {
	catalogs, connect := newCatalogs(t)
	catalogs.Set("c", "olm", contentOf(t, packageCatalog("etcd")))
	conn := connect("c.olm.svc:50051")
	stream, err := registrypb.NewRegistryClient(conn).ListBundles(t.Context(), &registrypb.ListBundlesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetPackageName() != "etcd" {
		t.Fatalf("received %v (%v), want a bundle of etcd", first, err)
	}

	catalogs.Set("c", "olm", contentOf(t, packageCatalog("redis")))
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("got error %v at the end of the call, want EOF", err)
	}
	if got, err := listPackages(t, conn); err != nil || !cmp.Equal([]string{"redis"}, got) {
		t.Errorf("got packages %v (%v), want redis", got, err)
	}

	catalogs.Remove("c", "olm")
	if _, err := listPackages(t, conn); status.Code(err) != codes.Unavailable {
		t.Errorf("after the removal: %v, want code Unavailable", err)
	}
}

// TestCatalogsServeListeners serves over TCP as well.
func TestCatalogsServeListeners(t *testing.T) {
	catalogs := registry.NewCatalogs(slog.New(slog.DiscardHandler))
	catalogs.Set("c", "olm", contentOf(t, packageCatalog("etcd")))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- catalogs.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("c.olm.svc:50051"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // the test is over
	if got, err := listPackages(t, conn); err != nil || !cmp.Equal([]string{"etcd"}, got) {
		t.Errorf("got packages %v (%v), want etcd", got, err)
	}

	catalogs.Stop()
	if err := <-ended; err != nil {
		t.Errorf("Serve ended with %v, want nil", err)
	}
}
