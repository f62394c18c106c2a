package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Output formats.
const (
	FormatJSON = "json"
	FormatYAML = "yaml"
	FormatWide = "wide"
	FormatName = "name"
)

// Output is the flag -o: one of the formats that a command supports, or "" for the default format.
type Output struct {
	// Format is the requested format, or empty for the default format.
	Format  string
	allowed []string
}

// AddFlag adds the flag to a command as --output and -o.
func (o *Output) AddFlag(cmd *cobra.Command, allowed ...string) {
	o.AddFlagAs(cmd, "output", allowed...)
}

// AddFlagAs adds the flag under another long name, for a command whose --output is a file.
func (o *Output) AddFlagAs(cmd *cobra.Command, name string, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().VarP(o, name, "o", "output format: "+strings.Join(allowed, "|"))
	// The flag was just added under this name.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (o *Output) String() string { return o.Format }

// Type implements pflag.Value.
func (o *Output) Type() string { return "format" }

// Set implements pflag.Value. It accepts the formats that the command supports. A supported format
// that ends with = accepts every value with that prefix and a non-empty rest.
func (o *Output) Set(value string) error {
	matches := func(allowed string) bool {
		return value == allowed && !strings.HasSuffix(allowed, "=") ||
			strings.HasSuffix(allowed, "=") && strings.HasPrefix(value, allowed) && value != allowed
	}
	if !slices.ContainsFunc(o.allowed, matches) {
		return fmt.Errorf("must be one of %s", strings.Join(o.allowed, "|"))
	}

	o.Format = value
	return nil
}

// PrintValue writes a value as JSON or YAML.
func PrintValue(w io.Writer, format string, value any) error {
	if format == FormatYAML {
		data, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = w.Write(data)
		return err
	}

	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}

	return nil
}

// CollapseWhitespace returns the text on one line, with one space between words.
func CollapseWhitespace(text string) string { return strings.Join(strings.Fields(text), " ") }

// PrintTable writes a table in the layout of kubectl.
func PrintTable(w io.Writer, headers []string, rows [][]string) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 6, 4, 3, ' ', 0)
	for _, row := range append([][]string{headers}, rows...) {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}

	if err := table.Flush(); err != nil {
		return err
	}

	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}

	return nil
}
