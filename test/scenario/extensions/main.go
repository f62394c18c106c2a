// Command scenario-extensions tests every bundle of a folder on an embedded cluster with a
// simulated node. It installs each bundle with exactly the rights that `mainstay rbac generate`
// writes, and removes it again. Then it updates each package from version to version. Bundles
// that were refused because of their dependencies are installed together with these. Refused
// bundles are listed with the reason that a user sees.
//
// It runs the built programs as a user would. `make scenario-extensions` builds and runs it, with
// any folder of <package>/<version>/ folders of bundles. It fails on an unexpected outcome: an
// extension that is neither installed nor refused with a reason, insufficient rights, or objects
// that are left behind.
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
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// packageWorkers is the number of packages that are tested concurrently.
const packageWorkers = 2

func main() {
	bundles := flag.String("bundles", "", "folder of <package>/<version>/ folders of bundles")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runScenario(ctx, *bundles)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nscenario-extensions:", err)
		os.Exit(1)
	}
}

func runScenario(ctx context.Context, bundles string) (err error) {
	if bundles == "" {
		return errors.New("name the folder with --bundles")
	}

	packages, err := listPackages(bundles)
	if err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "mainstay-scenario-")
	if err != nil {
		return err
	}

	began := time.Now()
	fmt.Printf("The scenario runs in %s\n", dir)
	s := &scenario{table: &trial.Table{}}
	defer func() { err = errors.Join(err, s.tearDown(ctx, dir, err == nil)) }()
	if err := s.startCluster(ctx, dir, bundles); err != nil {
		return err
	}

	fmt.Printf("The cluster and a catalog of %d packages are ready after %.0f s\n\n", len(packages), time.Since(began).Seconds())
	s.table.PrintHeader()
	queue := make(chan *packageVersions)
	var running sync.WaitGroup
	for range packageWorkers {
		running.Go(func() {
			for p := range queue {
				s.checkPackage(ctx, p)
			}
		})
	}

	for _, p := range packages {
		queue <- p
	}

	close(queue)
	running.Wait()
	s.retryWithDependencies(ctx)
	s.checkNothingLeft(ctx)
	s.table.PrintSummary(time.Since(began), installed, refused, updated)
	return errors.Join(s.table.Err(), ctx.Err())
}

// tearDown stops everything. It removes the files if the scenario has succeeded.
func (s *scenario) tearDown(ctx context.Context, dir string, good bool) error {
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

// startCluster starts a cluster and the servers, and adds a catalog of the bundles.
func (s *scenario) startCluster(ctx context.Context, dir, bundles string) error {
	c, err := cluster.Up(ctx, cluster.Options{Bin: "bin", Dir: dir})
	if err != nil {
		return err
	}

	s.Cluster = c
	// Some operators require a control plane node.
	if _, err := c.Kubectl(ctx, "label", "nodes", "--all", "node-role.kubernetes.io/control-plane=", "node-role.kubernetes.io/master="); err != nil {
		return err
	}
	// One of the bundles is cert-manager, which issues no certificates on a simulated node.
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

	s.user = &extensionUser{cluster: c, observer: s.observer}
	s.initialObjects, err = s.observer.ListStableObjects(ctx)
	return err
}
