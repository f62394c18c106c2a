package packageserver_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
	"github.com/mainstay-dev/mainstay/internal/testing/catalogserver"
)

// fakeCatalog is a catalog whose packages change while it is served.
type fakeCatalog struct {
	registrypb.UnimplementedRegistryServer

	mu    sync.Mutex
	names []string
	read  int
}

func (c *fakeCatalog) set(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = names
}

func (c *fakeCatalog) reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read
}

func (c *fakeCatalog) ListPackages(_ *registrypb.ListPackageRequest, stream grpc.ServerStreamingServer[registrypb.PackageName]) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read++
	for _, name := range c.names {
		if err := stream.Send(&registrypb.PackageName{Name: name}); err != nil {
			return err
		}
	}

	return nil
}

func (*fakeCatalog) ListBundles(*registrypb.ListBundlesRequest, grpc.ServerStreamingServer[registrypb.Bundle]) error {
	return nil
}

func (*fakeCatalog) GetPackage(_ context.Context, r *registrypb.GetPackageRequest) (*registrypb.Package, error) {
	return &registrypb.Package{Name: r.GetName(), DefaultChannelName: "stable", Channels: []*registrypb.Channel{{Name: "stable", CsvName: r.GetName() + ".v1"}}}, nil
}

func (*fakeCatalog) GetBundle(_ context.Context, r *registrypb.GetBundleRequest) (*registrypb.Bundle, error) {
	return &registrypb.Bundle{CsvName: r.GetCsvName(), CsvJson: fmt.Sprintf(`{"metadata":{"name":%q}}`, r.GetCsvName())}, nil
}

// serveFake serves a catalog until the end of the test.
func serveFake(t *testing.T, catalog registrypb.RegistryServer) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	catalogserver.ServeOn(t, listener, catalog)
	return listener.Addr().String()
}
