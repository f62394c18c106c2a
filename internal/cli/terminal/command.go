package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// Finish sets what holds for a whole command line.
func Finish(root *cobra.Command) *cobra.Command {
	root.SilenceErrors = true // Execute prints them, with what to do
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{Err: err} })
	root.InitDefaultCompletionCmd()
	return root
}

// UsageError is a command line that was not written as it must be.
type UsageError struct {
	// Err is what is wrong with it.
	Err error
}

// Error returns what is wrong.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitError ends the program with an exit code of its own.
type ExitError struct {
	// Code of the program, not 0.
	Code int
	// Err is what failed. It is nil when the output has said so already.
	Err error
}

// Error returns what failed.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns what failed.
func (e *ExitError) Unwrap() error { return e.Err }

// Execute runs a command line and gives the exit code of the program: 0, or 1 (or that of
// an [ExitError]) when it failed, after the error, with what to do about it, is written to
// standard error.
func Execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}

	code := 1
	var exit *ExitError
	if errors.As(err, &exit) {
		if code = exit.Code; exit.Err == nil {
			return code
		}
	}

	out := cmd.ErrOrStderr()
	fmt.Fprintf(out, "Error: %v\n", err)
	switch advice := report.AdviceOf(err); {
	case advice != "":
		fmt.Fprintf(out, "What to do: %s.\n", advice)
	case isUsage(err):
		fmt.Fprintf(out, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}

	return code
}

// isUsage reports whether the command line was not written as it must be. What cobra says
// of flags that need or exclude one another has no type to know it by.
func isUsage(err error) bool {
	var usage *UsageError
	return errors.As(err, &usage) || strings.HasPrefix(err.Error(), "required flag") || strings.HasPrefix(err.Error(), "if any flags in the group")
}

// Group is what a command does that only holds others: it shows its help, and refuses a
// name that is not among them.
func Group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}

	err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		err = fmt.Errorf("%w, did you mean %q?", err, similar[0])
	}

	return &UsageError{Err: err}
}

// Usage makes what a check of arguments says a [UsageError].
func Usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &UsageError{Err: err}
		}
		return nil
	}
}

// Takes checks that a command gets exactly the named arguments.
func Takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return &UsageError{Err: fmt.Errorf("%s is missing", names[len(args)])}
		}
		if len(args) > len(names) {
			return &UsageError{Err: fmt.Errorf("unexpected argument %q", args[len(names)])}
		}
		return nil
	}
}

// TakesUpTo checks that a command gets at most n arguments.
func TakesUpTo(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return &UsageError{Err: fmt.Errorf("unexpected argument %q", args[n])}
		}
		return nil
	}
}
