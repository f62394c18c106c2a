// Package catalogserver serves catalogs over gRPC, as the pods of CatalogSources do.
//
// It is only for tests. No package of the product imports it.
package catalogserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mainstay-dev/mainstay/internal/classic/registry"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/content"
	"github.com/mainstay-dev/mainstay/internal/classic/registry/registrypb"
)

// Serve serves a catalog until stop is called or the test ends, and returns its address. An empty address means a free
// port of this machine. The test fails if the server ends with an error. stop waits until it has ended, and may be called
// several times.
func Serve(t testing.TB, address string, catalog content.Source) (at string, stop func()) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}

	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	s := &registry.Server{Source: catalog, Address: address, ShutdownTimeout: time.Millisecond, OnReady: func(a net.Addr) { ready <- a.String() }}
	go func() { ended <- s.Run(ctx) }()
	select {
	case at = <-ready:
	case err := <-ended:
		cancel()
		t.Fatalf("the catalog does not start: %v", err)
	}

	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the catalog ended: %v", err)
		}
	})

	t.Cleanup(stop)
	return at, stop
}

// ServeOn serves an implementation of the API on a listener until the test ends. The test fails if the server ends with an
// error.
func ServeOn(t testing.TB, listener net.Listener, catalog registrypb.RegistryServer) {
	server, ended := grpc.NewServer(), make(chan error, 1)
	registrypb.RegisterRegistryServer(server, catalog)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("the catalog ended: %v", err)
		}
	})
}

// ServeFolder serves a folder with a file-based catalog until the test ends, and returns the address.
func ServeFolder(t testing.TB, folder string) string {
	t.Helper()
	address, _ := Serve(t, "", content.Folder{Dir: folder})
	return address
}

// ServeTunnel answers a CONNECT request of a proxy's client with a tunnel to the catalog at an address. It ignores the
// address in the request.
func ServeTunnel(w http.ResponseWriter, address string) {
	catalog, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer catalog.Close()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "the connection cannot be taken over", http.StatusInternalServerError)
		return
	}
	client, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n") // The copies end if this fails.
	go func() {
		_, _ = io.Copy(catalog, buffered.Reader)
		_ = catalog.Close()
	}()
	_, _ = io.Copy(client, catalog)
}

// Dial returns a client of the catalog at an address. Its connection is closed when the test ends.
func Dial(t testing.TB, address string) registrypb.RegistryClient {
	t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = connection.Close() }) // Nothing depends on it.
	return registrypb.NewRegistryClient(connection)
}
