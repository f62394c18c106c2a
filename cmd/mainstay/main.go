// Command mainstay contains all servers of Mainstay (mainstay run COMPONENT) and its command line. In the
// component image, it is also installed as opm and as the utilities that pods of OLM Classic call by name.
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
	context.AfterFunc(ctx, stop) // a second signal terminates the program immediately
	code := terminal.Execute(ctx, newCommandForName(filepath.Base(os.Args[0])))
	stop()
	os.Exit(code)
}

// newCommandForName returns the command for the name under which the program is called: opm, a utility, or
// mainstay.
func newCommandForName(name string) *cobra.Command {
	if name == "opm" {
		return opm.NewCommand(opm.Options{Serve: serving.Serve})
	}
	if name == run.ConfigMapServerName {
		return terminal.ConfigureRoot(run.NewConfigMapServerCommand())
	}
	if command := utility.NewCommandByName(name); command != nil {
		return command
	}
	return cli.NewCommand(cli.Options{Run: run.NewCommand(terminal.Version())})
}
