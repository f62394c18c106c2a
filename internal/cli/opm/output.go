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

// outputFlag is the flag --output of commands that are compatible with upstream opm. Its errors have the text of
// upstream opm.
type outputFlag struct {
	format  string
	allowed []string
}

// addFlag adds the flag with a default, which may be empty.
func (o *outputFlag) addFlag(cmd *cobra.Command, preset string, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().StringVarP(&o.format, "output", "o", preset, "output format: "+strings.Join(allowed, "|"))
	terminal.ValidateFlag(cmd, "output", o.validateFormat)
	// The flag was just added.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// validateFormat returns an error for a format that the command does not support.
func (o *outputFlag) validateFormat() error {
	if slices.Contains(o.allowed, o.format) {
		return nil
	}
	return fmt.Errorf("invalid --output value %q, expected (%s)", o.format, strings.Join(o.allowed, "|"))
}

// printColumns prints rows with two spaces between the columns.
func printColumns(w io.Writer, rows ...[]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	return table.Flush()
}
