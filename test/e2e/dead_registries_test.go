package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// TestDeadRegistries creates ten catalogs in registries that accept connections and never
// respond. A catalog in a working registry is still served, and an extension is installed from
// it, before the first of the ten requests times out.
func TestDeadRegistries(t *testing.T) {
	f := newFixture(t, false)
	f.runStep("Mainstay runs", f.startMainstay)
	f.runStep("ten catalogs in dead registries are added", func(ctx context.Context) error {
		for i := range 10 {
			image := newDeadRegistry(t) + "/e2e/catalog:latest"
			if _, err := f.Mainstay(ctx, "catalog", "add", fmt.Sprintf("a-dead-%d", i), "--image", image); err != nil {
				return err
			}
		}
		return nil
	})

	// Requests to a registry that does not respond time out after two minutes.
	soon := func(do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Second)
			defer cancel()
			return do(ctx)
		}
	}

	f.runStep("a catalog in another registry is served", soon(func(ctx context.Context) error {
		catalog := f.Registry + "/e2e/catalog:latest"
		if err := f.publishCatalog(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := f.Mainstay(ctx, "catalog", "add", "e2e", "--image", catalog, "--wait")
		return err
	}))

	f.runStep("an extension is installed from it", soon(func(ctx context.Context) error {
		if err := f.Apply(ctx, namespaceManifest("hello")+"---"+extensionManifest("hello", "")); err != nil {
			return err
		}
		return f.waitForInstalled(ctx, "hello")
	}))

	f.runStep("the ten catalogs can be deleted", soon(func(ctx context.Context) error {
		for i := range 10 {
			if _, err := f.Kubectl(ctx, "delete", "clustercatalog", fmt.Sprintf("a-dead-%d", i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// newDeadRegistry starts a listener that accepts connections and never responds. It returns the
// address.
func newDeadRegistry(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		var open []net.Conn
		defer func() {
			for _, conn := range open {
				_ = conn.Close()
			}
		}()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open = append(open, conn)
		}
	}()

	return listener.Addr().String()
}
