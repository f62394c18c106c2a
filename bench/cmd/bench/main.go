// Command bench measures what docs/performance.md says, on this machine, and prints
// it: how soon the embedded cluster is ready, how long an installation takes, and how
// fast and in how much memory a large catalog is unpacked and indexed.
//
// `make bench` runs it. It measures and judges nothing: noise is not a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	runs := flag.Int("runs", 5, "how often each thing is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *runs, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, runs int, args []string) error {
	switch {
	case len(args) == 3 && args[0] == "unpack":
		return unpack(ctx, args[1], args[2])
	case len(args) > 0:
		return errors.New("usage: bench [--runs N]")
	}
	dir, err := os.MkdirTemp("", "mainstay-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Printf("%-62s %10s %10s %10s\n", fmt.Sprintf("of %d runs", runs), "least", "median", "most")
	return errors.Join(measureCatalog(ctx, dir, runs), measureCluster(ctx, dir, runs))
}

// figures are what was measured in several runs.
type figures []float64

func (f figures) print(what, unit string, digits int) {
	slices.Sort(f)
	fmt.Printf("%-62s %10.*f %10.*f %10.*f  %s\n", what, digits, f[0], digits, f[len(f)/2], digits, f[len(f)-1], unit)
}

func since(began time.Time) float64 { return time.Since(began).Seconds() }
