package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
)

// Options are what a command line is made of beside this package.
type Options struct {
	// Run is the command `mainstay run`, which starts the servers. Nil leaves it out.
	Run *cobra.Command
}

// app is what the commands of one command line share.
type app struct {
	kube kubeFlags
	now  func() time.Time
}

// Mainstay makes the command line of the program mainstay.
func Mainstay(options Options) *cobra.Command {
	a := &app{now: time.Now}
	root := &cobra.Command{
		Use:   "mainstay",
		Short: "Manage what extends a Kubernetes cluster",
		Long: `mainstay installs extensions and operators from catalogs, keeps them up to date, and
builds the bundles and catalogs that they come from.

Begin with 'mainstay install', add a catalog with 'mainstay catalog add', and install
something from it with 'mainstay extension install'.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	root.AddCommand(
		a.bundleCommand(), a.catalogCommand(), a.extensionCommand(),
		imageCommand(), a.installCommand(), a.uninstallCommand(), versionCommand("mainstay", printVersion),
	)
	if options.Run != nil {
		root.AddCommand(options.Run)
	}
	return finish(root)
}

// Opm makes the command line of the program opm, which catalog authors use.
func Opm() *cobra.Command {
	root := &cobra.Command{
		Use:   "opm",
		Short: "Make and check catalogs of operators",
		Args:  cobra.ArbitraryArgs,
		RunE:  group,
	}
	root.AddCommand(renderCommand("opm"), validateCommand("opm"), versionCommand("opm", printOpmVersion))
	return finish(root)
}

// finish sets what holds for a whole command line.
func finish(root *cobra.Command) *cobra.Command {
	root.SilenceErrors = true // Execute prints them, with what to do
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.InitDefaultCompletionCmd()
	return root
}

// usageError is a command line that was not written as it must be.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// Execute runs a command line and gives the exit code of the program: 0, or 1 when it
// failed, after the error, with what to do about it, is written to standard error.
func Execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	out := cmd.ErrOrStderr()
	fmt.Fprintf(out, "Error: %v\n", err)
	switch advice := action.AdviceOf(err); {
	case advice != "":
		fmt.Fprintf(out, "What to do: %s.\n", advice)
	case isUsage(err):
		fmt.Fprintf(out, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return 1
}

// isUsage tells whether the command line was not written as it must be. What cobra says
// of flags that need or exclude one another has no type to know it by.
func isUsage(err error) bool {
	var usage *usageError
	return errors.As(err, &usage) || strings.HasPrefix(err.Error(), "required flag") || strings.HasPrefix(err.Error(), "if any flags in the group")
}

// group is what a command does that only holds others: it shows its help, and refuses a
// name that is not among them.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		err = fmt.Errorf("%w, did you mean %q?", err, similar[0])
	}
	return &usageError{err}
}

// takes checks that a command gets exactly the named arguments.
func takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return &usageError{fmt.Errorf("%s is missing", names[len(args)])}
		}
		if len(args) > len(names) {
			return &usageError{fmt.Errorf("unexpected argument %q", args[len(names)])}
		}
		return nil
	}
}

// takesUpTo checks that a command gets at most n arguments.
func takesUpTo(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return &usageError{fmt.Errorf("unexpected argument %q", args[n])}
		}
		return nil
	}
}
