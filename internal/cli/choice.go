package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choiceFlag is a flag that takes one of some values.
type choiceFlag struct {
	value   *string
	allowed []string
}

// oneOf adds a flag to a command that takes one of some values, the first of which is the
// default of the API, and empty when it is not given.
func oneOf(cmd *cobra.Command, value *string, name, usage string, allowed ...string) {
	cmd.Flags().Var(&choiceFlag{value, allowed}, name, fmt.Sprintf("%s: %s (default %s)", usage, strings.Join(allowed, "|"), allowed[0]))
	// The flag was just added under this name.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// String returns the value.
func (f *choiceFlag) String() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

// Set takes a value.
func (f *choiceFlag) Set(text string) error {
	if !slices.Contains(f.allowed, text) {
		return fmt.Errorf("it is one of %s", strings.Join(f.allowed, ", "))
	}
	*f.value = text
	return nil
}

// Type names the value in usage texts.
func (f *choiceFlag) Type() string { return "policy" }
