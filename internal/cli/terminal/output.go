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

// Output is the flag -o: one of the formats that a command knows, or "" for people.
type Output struct {
	// Format is the chosen one, empty for what people read.
	Format  string
	allowed []string
}

// Bind adds the flag to a command as --output and -o.
func (o *Output) Bind(cmd *cobra.Command, allowed ...string) { o.BindAs(cmd, "output", allowed...) }

// BindAs adds the flag under another long name, for a command whose --output is a file.
func (o *Output) BindAs(cmd *cobra.Command, name string, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().VarP(o, name, "o", "output format: "+strings.Join(allowed, "|"))
	// The flag was just added under this name.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// String returns the format.
func (o *Output) String() string { return o.Format }

// Type names the value in the help.
func (o *Output) Type() string { return "format" }

// Set takes a format if the command knows it. One that ends with = stands for all that begin
// so and have something after it.
func (o *Output) Set(value string) error {
	knows := func(allowed string) bool {
		return value == allowed && !strings.HasSuffix(allowed, "=") ||
			strings.HasSuffix(allowed, "=") && strings.HasPrefix(value, allowed) && value != allowed
	}
	if !slices.ContainsFunc(o.allowed, knows) {
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

// PrintTable writes rows under headers, as kubectl lays them out.
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
