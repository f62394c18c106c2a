package classic

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

// packageWorkers is the number of packages that are tried concurrently.
const packageWorkers = 2

// Scenario tries all packages of a folder.
type Scenario struct {
	// Name is the name of the program.
	Name string
	// Outcomes are the columns of the summary.
	Outcomes []trial.Outcome
	// CheckPackage tries a package, and prints a line for each outcome.
	CheckPackage func(ctx context.Context, s *Site, t *trial.Table, p *Package)
}

// Main runs a scenario with the flags of the command line, and exits.
func (s *Scenario) Main() {
	bundles := flag.String("bundles", "", "folder of <package>/<version>/ folders of bundles")
	names := flag.String("packages", "", "packages of the folder, separated by commas (default: all)")
	flag.Parse()
	log.SetLogger(logr.Discard()) // The table has all results.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	packages := strings.FieldsFunc(*names, func(r rune) bool { return r == ',' })
	err := s.run(ctx, *bundles, packages)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\n%s: %v\n", s.Name, err)
		os.Exit(1)
	}
}

func (s *Scenario) run(ctx context.Context, bundles string, packages []string) (err error) {
	if bundles == "" {
		return errors.New("name the folder with --bundles")
	}

	dir, err := os.MkdirTemp("", "mainstay-scenario-")
	if err != nil {
		return err
	}

	began := time.Now()
	fmt.Printf("The scenario runs in %s\n", dir)
	site, err := Start(ctx, dir, bundles, packages)
	defer func() { err = errors.Join(err, site.Stop(ctx, err == nil)) }()
	if err != nil {
		return err
	}

	fmt.Printf("The cluster and a catalog of %d packages are ready after %.0f s.\nNo pod runs: the node is simulated and makes Deployments available. opm serves the catalog beside the cluster.\n\n",
		len(site.Packages), time.Since(began).Seconds())
	table := &trial.Table{}
	table.PrintHeader()
	s.checkPackages(ctx, site, table)

	removed := time.Now()
	if err := site.CheckNothingLeft(ctx); err != nil && ctx.Err() == nil {
		table.PrintLine("(removal)", "", trial.Unexpected, time.Since(removed), err.Error())
		fmt.Println(err) // The table shortens it.
	}
	table.PrintSummary(time.Since(began), s.Outcomes...)
	return errors.Join(table.Err(), ctx.Err())
}

// checkPackages tries the packages, several at the same time. Packages with dependencies come last,
// and one after the other, because their dependencies are other packages that are tried too.
func (s *Scenario) checkPackages(ctx context.Context, site *Site, table *trial.Table) {
	queue := make(chan *Package)
	var running sync.WaitGroup
	for range packageWorkers {
		running.Go(func() {
			for p := range queue {
				s.CheckPackage(ctx, site, table, p)
			}
		})
	}

	// Packages with many versions come first, so that the workers are evenly busy.
	packages := slices.Clone(site.Packages)
	slices.SortStableFunc(packages, func(a, b *Package) int { return len(b.Bundles) - len(a.Bundles) })
	for _, p := range packages {
		if !p.HasDependencies() {
			queue <- p
		}
	}
	close(queue)
	running.Wait()

	for _, p := range packages {
		if p.HasDependencies() {
			s.CheckPackage(ctx, site, table, p)
		}
	}
}
