package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// TestDeadRegistries has ten catalogs in registries that accept connections and never answer.
// A catalog in a registry that answers is served all the same, and an extension installed from
// it, before the first of the ten is given up.
func TestDeadRegistries(t *testing.T) {
	j := start(t, false)
	j.step("Mainstay runs", j.runMainstay)
	j.step("ten catalogs in dead registries are added", func(ctx context.Context) error {
		for i := range 10 {
			image := deadRegistry(t) + "/e2e/catalog:latest"
			if _, err := j.Mainstay(ctx, "catalog", "add", fmt.Sprintf("a-dead-%d", i), "--image", image); err != nil {
				return err
			}
		}
		return nil
	})

	// After two minutes a registry that does not answer is given up.
	soon := func(do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Second)
			defer cancel()
			return do(ctx)
		}
	}

	j.step("a catalog in another registry is served", soon(func(ctx context.Context) error {
		catalog := j.Registry + "/e2e/catalog:latest"
		if err := j.publish(ctx, catalog, "1.0.0"); err != nil {
			return err
		}
		_, err := j.Mainstay(ctx, "catalog", "add", "e2e", "--image", catalog, "--wait")
		return err
	}))

	j.step("an extension is installed from it", soon(func(ctx context.Context) error {
		if err := j.Apply(ctx, namespace("hello")+"---"+extension("hello", "")); err != nil {
			return err
		}
		return j.installed(ctx, "hello")
	}))

	j.step("the ten catalogs can be deleted", soon(func(ctx context.Context) error {
		for i := range 10 {
			if _, err := j.Kubectl(ctx, "delete", "clustercatalog", fmt.Sprintf("a-dead-%d", i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// deadRegistry starts a listener that accepts connections and never answers.
func deadRegistry(t *testing.T) string {
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
