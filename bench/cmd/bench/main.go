// Command bench takes the measurements of docs/performance.md on this machine and prints them. It
// measures how fast, and with how much memory, catalogs of three sizes are rendered, validated,
// stored and served. It also measures the start of the embedded cluster, installations, and a
// release, and how many clusters an update service can serve.
//
// `make bench` runs it. It has no thresholds, so noise is not a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	runs := flag.Int("runs", 5, "number of runs of each measurement")
	only := flag.String("only", "", "measurements to take, of "+measurementNames()+" (default: all)")
	flag.StringVar(&auditLog, "audit-log", "", "file to which the API server logs its requests, for extensions and classic-*")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := runCommand(ctx, *runs, strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }), flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runCommand(ctx context.Context, runs int, only, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "unpack":
		return unpackCatalog(ctx, args[1], args[2])
	case len(args) == 3 && args[0] == "generate":
		return generateCatalog(args[1], args[2])
	case len(args) == 3 && args[0] == "create-payload":
		return createPayload(ctx, args[1], args[2])
	case len(args) == 3 && args[0] == "apply-payload":
		return applyPayload(ctx, args[1], args[2])
	case len(args) > 0:
		return errors.New("usage: bench [--runs N] [--only NAME,NAME]")
	}

	for _, name := range only {
		if !slices.ContainsFunc(measurements, func(m measurement) bool { return m.name == name }) {
			return fmt.Errorf("--only: there is no measurement %q", name)
		}
	}

	dir, err := os.MkdirTemp("", "mainstay-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Printf("%-62s %10s %10s %10s\n", fmt.Sprintf("of %d runs", runs), "least", "median", "most")
	generated := false
	for _, m := range measurements {
		if len(only) > 0 && !slices.Contains(only, m.name) {
			continue
		}
		if m.needsCatalogs && !generated {
			if err := generateCatalogs(ctx, dir); err != nil {
				return err
			}
			generated = true
		}
		if err := m.measure(ctx, dir, runs); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}

	return nil
}

// measurement is a named group of measurements.
type measurement struct {
	name    string
	measure func(ctx context.Context, dir string, runs int) error
	// needsCatalogs is true for measurements that read the catalogs of catalogSizes.
	needsCatalogs bool
}

var measurements = []measurement{
	{"opm", measureOpm, true},
	{"registry", measureRegistry, true},
	{"serving", measureServing, true},
	{"store", measureCatalog, true},
	{"cluster", measureCluster, false},
	{"extensions", measureFleets, true},
	{"payload", measurePayload, false},
	{"updates", measureUpdates, false},
	{"classic-one", measureClassicOne, false},
	{"classic-fleet", measureClassicFleet, false},
	{"classic-namespace", measureClassicNamespace, false},
	{"classic-objects", measureClassicObjects, false},
	{"classic-copies", measureClassicCopies, false},
	{"classic-restart", measureClassicRestart, false},
	{"classic-packages", measureClassicPackages, true},
}

func measurementNames() string {
	var names []string
	for _, m := range measurements {
		names = append(names, m.name)
	}
	return strings.Join(names, ", ")
}

// samples are the values of several runs.
type samples []float64

func (f samples) printSummary(what, unit string, digits int) {
	slices.Sort(f)
	fmt.Printf("%-62s %10.*f %10.*f %10.*f  %s\n", what, digits, f[0], digits, f[len(f)/2], digits, f[len(f)-1], unit)
}

func secondsSince(began time.Time) float64 { return time.Since(began).Seconds() }
