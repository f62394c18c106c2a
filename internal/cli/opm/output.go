package opm

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// output is the flag --output of the field's commands. What it may be is checked when the
// command runs, in the field's words.
type output struct {
	format  string
	allowed []string
}

// bind adds the flag, with a default that may be empty.
func (o *output) bind(cmd *cobra.Command, preset string, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().StringVarP(&o.format, "output", "o", preset, "output format: "+strings.Join(allowed, "|"))
	// The flag was just added.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses a format that the command does not know.
func (o *output) check(cmd *cobra.Command) error {
	if slices.Contains(o.allowed, o.format) || o.format == "" && !cmd.Flags().Changed("output") {
		return nil
	}
	return &terminal.UsageError{Err: fmt.Errorf("invalid --output value %q, expected (%s)", o.format, strings.Join(o.allowed, "|"))}
}

// printColumns writes rows with two spaces between the columns.
func printColumns(w io.Writer, rows ...[]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
