// Command mainstay is every server of Mainstay (mainstay run COMPONENT) and every
// command of its users. In the image of the components it is also the programs that
// OLM's pods call beside it, by their names.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/cmd/opm/serving"
	"github.com/mainstay-dev/mainstay/internal/cli"
	"github.com/mainstay-dev/mainstay/internal/cli/opm"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/cli/utility"
	"github.com/mainstay-dev/mainstay/internal/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code := terminal.Execute(ctx, program(filepath.Base(os.Args[0])))
	stop()
	os.Exit(code)
}

// program is what the program is by the name that it is called.
func program(name string) *cobra.Command {
	if name == "opm" {
		return opm.New(opm.Options{Serve: serving.Serve})
	}
	if command := utility.ByName(name); command != nil {
		return command
	}
	return cli.Mainstay(cli.Options{Run: run.Command(terminal.Version())})
}
