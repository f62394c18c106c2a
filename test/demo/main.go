// Command demo demonstrates the main use case of Mainstay on an embedded cluster: it installs an
// operator on an empty machine, updates it and removes it again. It prints a line for each step.
//
// It runs the built programs as a user would and checks the results. `make demo` builds and runs
// it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
	"github.com/mainstay-dev/mainstay/internal/testing/steps"
)

func main() {
	bundles := flag.String("bundles", "", "folder of <version>/ folders of one real package; unset: the sample operator")
	keep := flag.Bool("keep", false, "leave the cluster running at the end")
	console := flag.Bool("console", false, "serve the web console on the cluster at the end, until the demo is interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runDemo(ctx, *bundles, *keep, *console)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

// demo is the state that the steps share.
type demo struct {
	*cluster.Cluster
	dir   string
	began time.Time
	// console keeps what is installed, and serves the console at the end.
	console bool
}

func runDemo(ctx context.Context, bundles string, keep, console bool) (err error) {
	dir, err := os.MkdirTemp("", "mainstay-demo-")
	if err != nil {
		return err
	}

	d := &demo{dir: dir, began: time.Now(), console: console}
	fmt.Printf("The demo runs in %s\n\n", dir)
	err = steps.Do(ctx, "A real Kubernetes, with a registry, starts", func(ctx context.Context) (string, error) {
		c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: dir})
		d.Cluster = c
		if err != nil {
			return "", err
		}
		return "images go to " + c.Registry, nil
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.tearDown(ctx, keep && err == nil)) }()
	if err := steps.Do(ctx, "Mainstay starts", func(ctx context.Context) (string, error) {
		return "catalogd and operator-controller run in one process", d.Serve(ctx)
	}); err != nil {
		return err
	}

	demonstrate := d.demonstrateSampleOperator
	if bundles != "" {
		demonstrate = func(ctx context.Context) error { return d.demonstrateRealPackage(ctx, bundles) }
	}
	if err := demonstrate(ctx); err != nil || !console {
		return err
	}
	return d.serveConsole(ctx)
}

// tearDown stops the cluster and the servers, or prints how to use them.
func (d *demo) tearDown(ctx context.Context, keep bool) error {
	if keep {
		bin, err := filepath.Abs("bin")
		if err != nil {
			return err
		}
		fmt.Printf(`
The cluster is left running. To look around:

    export KUBECONFIG=%s PATH=%s:%s/k8s:$PATH
    kubectl get clustercatalogs,clusterextensions,clusterobjectsets
    mainstay extension list

Mainstay runs as process %d and logs to %s. To stop it all:

    kill %d && devcluster down --data-dir %s && rm -r %s
`, d.Kubeconfig, bin, bin, d.ServersPID(), d.ServersLog(), d.ServersPID(), filepath.Join(d.dir, "cluster"), d.dir)
		return nil
	}

	began := time.Now()
	if err := d.Down(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return err
	}

	fmt.Printf("%6.2f s  Everything is stopped and removed\n\nThe demo took %.0f s.\n", time.Since(began).Seconds(), time.Since(d.began).Seconds())
	return nil
}
