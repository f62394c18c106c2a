// Command scenario-catalogs checks that catalogs are served without interruption. On an embedded
// cluster it builds images of catalogs, adds, polls, disables and deletes them, and restarts the
// servers one by one. Meanwhile clients read without a failed request. It compares every served
// blob with its source.
//
// It runs the built programs as a user would. `make scenario-catalogs` builds and runs it, with
// any folder of file-based catalogs and any folder of bundles.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mainstay-dev/mainstay/internal/testing/cluster"
)

func main() {
	fbc := flag.String("fbc", "", "folder of a file-based catalog")
	bundles := flag.String("bundles", "", "folder of <package>/<version>/ folders of bundles")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runScenario(ctx, *fbc, *bundles)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nscenario-catalogs:", err)
		os.Exit(1)
	}
}

// scenario is the state that the steps share.
type scenario struct {
	*cluster.Cluster
	dir           string
	replicas      *replicaSet
	readers       *catalogReaders
	fileCatalog   *catalog
	bundleCatalog *catalog
}

func runScenario(ctx context.Context, fbc, bundles string) (err error) {
	if fbc == "" || bundles == "" {
		return errors.New("name the folders with --fbc and --bundles")
	}

	dir, err := os.MkdirTemp("", "mainstay-scenario-")
	if err != nil {
		return err
	}

	fmt.Printf("The scenario runs in %s\n\n%-58s %8s  %s\n", dir, "STEP", "SECONDS", "RESULT")
	s := &scenario{dir: dir}
	defer func() { err = errors.Join(err, s.tearDown(ctx, err == nil)) }()
	for _, step := range s.listSteps(fbc, bundles) {
		began := time.Now()
		result, err := step.do(ctx)
		if err == nil {
			err = s.readers.firstFailure()
		}
		if err != nil {
			return fmt.Errorf("%q failed: %w", step.what, err)
		}

		fmt.Printf("%-58s %8.2f  %s\n", step.what, time.Since(began).Seconds(), result)
	}

	return nil
}

// tearDown stops everything. It removes the files if the scenario has succeeded.
func (s *scenario) tearDown(ctx context.Context, good bool) error {
	s.readers.stopClients()
	err := s.replicas.stopAll()
	if s.Cluster != nil {
		err = errors.Join(err, s.Down(ctx))
	}
	if good && err == nil {
		err = os.RemoveAll(s.dir)
	}

	return err
}

// waitFor waits for a state of the cluster.
func waitFor(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("within %s: %w", limit, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
