// Command opm builds, validates and serves operator catalogs. It is compatible with upstream opm, and shares
// its code with `mainstay catalog`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mainstay-dev/mainstay/cmd/opm/serving"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal terminates the program immediately
	code := terminal.Execute(ctx, opm.NewCommand(opm.Options{Serve: serving.Serve}))
	stop()
	os.Exit(code)
}
