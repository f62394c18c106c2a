// Command scenario-extensions shows what becomes of every bundle of a folder: on an
// embedded cluster with a simulated node each is installed with exactly the rights that
// `mainstay rbac generate` writes, and removed again; then each package is updated from
// version to version, and what was refused for what it needs is installed with that. What is refused is listed with the reason that a person reads.
//
// It runs the built programs as a person would. `make scenario-extensions` builds and
// runs it, with any folder of <package>/<version>/ folders of bundles. It fails when
// something is a surprise: an extension that is neither installed nor refused for a
// reason, rights that do not suffice, or something that is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

// workers is how many packages are looked at side by side.
const workers = 2

func main() {
	bundles := flag.String("bundles", "", "folder of <package>/<version>/ folders of bundles")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *bundles)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nscenario-extensions:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bundles string) (err error) {
	if bundles == "" {
		return errors.New("name the folder with --bundles")
	}

	packages, err := packagesIn(bundles)
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "mainstay-scenario-")
	if err != nil {
		return err
	}

	began := time.Now()
	fmt.Printf("The scenario runs in %s\n", dir)
	s := &scenario{table: &table{}}
	defer func() { err = errors.Join(err, s.end(ctx, dir, err == nil)) }()
	if err := s.start(ctx, dir, bundles); err != nil {
		return err
	}

	fmt.Printf("The cluster and a catalog of %d packages are ready after %.0f s\n\n", len(packages), time.Since(began).Seconds())
	s.table.head()
	queue := make(chan *pkg)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for p := range queue {
				s.look(ctx, p)
			}
		})
	}

	for _, p := range packages {
		queue <- p
	}

	close(queue)
	running.Wait()
	s.meet(ctx)
	s.nothingLeft(ctx)
	s.table.summary(time.Since(began))
	if s.table.surprises > 0 {
		return fmt.Errorf("%d surprises", s.table.surprises)
	}

	return ctx.Err()
}

// end stops everything, and removes what was written when all went well.
func (s *scenario) end(ctx context.Context, dir string, good bool) error {
	if s.Cluster == nil {
		return os.RemoveAll(dir)
	}

	err := s.Down(ctx)
	if good && err == nil {
		return os.RemoveAll(dir)
	}

	fmt.Printf("What was written stays in %s\n", dir)
	return err
}

// start starts a cluster and the servers, and a catalog of the bundles.
func (s *scenario) start(ctx context.Context, dir, bundles string) error {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: dir})
	if err != nil {
		return err
	}

	s.Cluster = c
	// Some operators want to run beside the control plane.
	if _, err := c.Kubectl(ctx, "label", "nodes", "--all", "node-role.kubernetes.io/control-plane=", "node-role.kubernetes.io/master="); err != nil {
		return err
	}
	// One of the bundles is cert-manager, which on a node that is simulated issues nothing.
	if err := c.Serve(ctx, "--feature-gates=WebhookProviderCertManager=false"); err != nil {
		return err
	}

	image := c.Registry + "/scenario/bundles:latest"
	if _, err := c.Mainstay(ctx, "catalog", "build", filepath.Clean(bundles), "--push", image); err != nil {
		return err
	}
	if _, err := c.Mainstay(ctx, "catalog", "add", "scenario", "--image", image, "--wait"); err != nil {
		return err
	}
	if s.observer, err = newObserver(c.Kubeconfig); err != nil {
		return err
	}

	s.before, err = s.observer.names(ctx)
	return err
}
