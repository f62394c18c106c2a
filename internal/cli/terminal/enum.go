package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// enumFlag is a flag that accepts one of a fixed list of values.
type enumFlag struct {
	value   *string
	allowed []string
}

// AddEnumFlag adds a flag that accepts one of the allowed values. The first of them is the default
// of the API. The value stays empty when the flag is not set.
func AddEnumFlag(cmd *cobra.Command, value *string, name, usage string, allowed ...string) {
	cmd.Flags().Var(&enumFlag{value, allowed}, name, fmt.Sprintf("%s: %s (default %s)", usage, strings.Join(allowed, "|"), allowed[0]))
	// The flag was just added under this name.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (f *enumFlag) String() string {
	if f.value == nil {
		return ""
	}
	return *f.value
}

// Set implements pflag.Value.
func (f *enumFlag) Set(text string) error {
	if !slices.Contains(f.allowed, text) {
		return fmt.Errorf("must be one of %s", strings.Join(f.allowed, ", "))
	}
	*f.value = text
	return nil
}

// Type implements pflag.Value.
func (f *enumFlag) Type() string { return "policy" }
