package terminal

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// ConfigureRoot sets the error handling, the help command and the completion command of a root command, and returns it. All its
// subcommands must have been added.
func ConfigureRoot(root *cobra.Command) *cobra.Command {
	root.SilenceErrors = true // Execute prints them with advice
	root.SilenceUsage = true
	root.SetFlagErrorFunc(newFlagError)
	configureArguments(root)
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil && completion != root {
		completion.Args, completion.RunE = cobra.ArbitraryArgs, RunGroup // Cobra ignores an unknown shell.
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil && help != root {
		help.Run, help.RunE = nil, runHelp
	}
	return root
}

// runHelp is the RunE of the help command. It prints the help of a command, and returns a [UsageError] for an unknown one, for which
// cobra prints the help of the root command.
func runHelp(help *cobra.Command, args []string) error {
	cmd, rest, err := help.Root().Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 {
		err := newUnknownCommandError(cmd, rest[0])
		err.Advice = fmt.Sprintf("run '%s --help', which lists the commands", cmd.CommandPath())
		return err
	}

	cmd.InitDefaultHelpFlag() // The help lists it.
	cmd.InitDefaultVersionFlag()
	return cmd.Help()
}

// configureArguments makes a command and its subcommands report wrong arguments as a [UsageError]. For arguments of a command
// without subcommands, it replaces the error "unknown command" of cobra. To the errors of cobra that only count the arguments, which
// scripts of opm know, it adds which arguments the command has.
func configureArguments(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		configureArguments(child)
	}

	check := cmd.Args
	if check == nil {
		return
	}

	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := checkFlagAsValue(cmd); err != nil {
			return err
		}

		err := check(cmd, args)
		var usage *UsageError
		switch {
		case err == nil:
			return nil
		case !cmd.HasSubCommands() && len(args) > 0 && err.Error() == cobra.NoArgs(cmd, args).Error():
			return newUnexpectedArgumentError(cmd, args[0])
		case errors.As(err, &usage):
			return err
		}
		return &UsageError{Err: err, Advice: fmt.Sprintf("write '%s'; '%s --help' describes the arguments", cmd.UseLine(), cmd.CommandPath())}
	}
}

// UsageError is an error in the arguments or flags of a command.
type UsageError struct {
	// Err is the cause.
	Err error
	// Advice is what to do, as a sentence without a full stop. Empty means that the user is referred to the help.
	Advice string
}

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitError ends the program with a specific exit code.
type ExitError struct {
	// Code is the exit code, not 0.
	Code int
	// Err is the cause. It is nil if the output has stated it already.
	Err error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Execute runs a command line and returns the exit code of the program: 0 on success, the code of an
// [ExitError], or 1 for any other error. Errors are written to standard error with advice.
func Execute(ctx context.Context, root *cobra.Command) int {
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	err = rewordExclusiveFlags(err)

	code := 1
	var exit *ExitError
	if errors.As(err, &exit) {
		if code = exit.Code; exit.Err == nil {
			return code
		}
	}

	out := cmd.ErrOrStderr()
	fmt.Fprintf(out, "Error: %v\n", err)
	switch advice := adviceOf(err); {
	case advice != "":
		fmt.Fprintf(out, "What to do: %s.\n", advice)
	case isUsageError(err):
		fmt.Fprintf(out, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}

	return code
}

// adviceOf returns the advice of an error, or an empty string.
func adviceOf(err error) string {
	var usage *UsageError
	if errors.As(err, &usage) && usage.Advice != "" {
		return usage.Advice
	}
	return report.AdviceOf(err)
}

// exclusiveFlagsPattern matches cobra's error for flags that exclude each other, which has no type.
var exclusiveFlagsPattern = regexp.MustCompile(`^if any flags in the group \[.+\] are set none of the others can be; \[(.+)\] were all set$`)

// rewordExclusiveFlags returns a [UsageError] in one short sentence if err is cobra's error for flags that
// exclude each other, and err otherwise.
func rewordExclusiveFlags(err error) error {
	found := exclusiveFlagsPattern.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}

	flags := strings.Fields(found[1])
	for i := range flags {
		flags[i] = "--" + flags[i]
	}

	last := len(flags) - 1
	return &UsageError{Err: fmt.Errorf("%s and %s exclude each other; give one of them", strings.Join(flags[:last], ", "), flags[last])}
}

// isUsageError reports whether an error is about the arguments or flags of a command. Cobra's errors
// about flags that are missing have no type, so their texts are compared.
func isUsageError(err error) bool {
	var usage *UsageError
	return errors.As(err, &usage) || strings.HasPrefix(err.Error(), "required flag") || strings.HasPrefix(err.Error(), "if any flags in the group")
}

// RunGroup is the RunE of a command that only has subcommands. It prints the help, and returns a
// [UsageError] for an unknown subcommand.
func RunGroup(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}

	return newUnknownCommandError(cmd, args[0])
}

// newUnknownCommandError returns the error for a name that no subcommand of a command has, with a suggestion.
func newUnknownCommandError(cmd *cobra.Command, name string) *UsageError {
	err := fmt.Errorf("unknown command %q for %q", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		err = fmt.Errorf("%w, did you mean %q?", err, similar[0])
	}

	return &UsageError{Err: err}
}

// ExactArgs returns a validator that requires exactly the named arguments. None of them may be empty, as an unset variable of a
// script is.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			if i == len(args) {
				return &UsageError{Err: fmt.Errorf("%s is missing", name)}
			}
			if args[i] == "" {
				return &UsageError{Err: fmt.Errorf("%s is empty", name)}
			}
		}
		if len(args) > len(names) {
			return newUnexpectedArgumentError(cmd, args[len(names)])
		}
		return nil
	}
}

// MinimumArgs returns a validator that requires at least one argument of the name. None of them may be empty.
func MinimumArgs(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &UsageError{Err: fmt.Errorf("%s is missing", name)}
		}
		if slices.Contains(args, "") {
			return &UsageError{Err: fmt.Errorf("%s is empty", name)}
		}
		return nil
	}
}

// MaximumArgs returns a validator that allows at most n arguments.
func MaximumArgs(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return newUnexpectedArgumentError(cmd, args[n])
		}
		return nil
	}
}

// newUnexpectedArgumentError returns the error for the first argument that a command does not accept.
func newUnexpectedArgumentError(cmd *cobra.Command, arg string) error {
	err := &UsageError{Err: fmt.Errorf("unexpected argument %q", arg)}
	if arg == "true" || arg == "false" {
		cmd.Flags().Visit(func(flag *pflag.Flag) {
			if flag.Value.Type() == "bool" {
				err.Advice = fmt.Sprintf("set a flag to %[1]s with =, as in --%[2]s=%[1]s", arg, flag.Name)
			}
		})
	}
	return err
}
