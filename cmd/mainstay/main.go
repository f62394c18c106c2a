// Command mainstay is every server of Mainstay (mainstay run COMPONENT) and every
// command of its users.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/mainstay-dev/mainstay/internal/cli"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := terminal.Execute(ctx, cli.Mainstay(cli.Options{Run: run.Command(terminal.Version())}))
	stop()
	os.Exit(code)
}
