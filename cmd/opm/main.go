// Command opm makes and checks catalogs of operators. It is compatible with the opm
// that the scripts of catalog authors call, and the same code as `mainstay catalog`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mainstay-dev/mainstay/cmd/opm/sampling"
	"github.com/mainstay-dev/mainstay/cmd/opm/serving"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := terminal.Execute(ctx, opm.New(opm.Options{Serve: serve}))
	stop()
	os.Exit(code)
}

// serve serves a catalog over gRPC, and profiles of the heap.
func serve(ctx context.Context, s opm.Serving) error {
	sampling.Start()
	return serving.Serve(ctx, s)
}
