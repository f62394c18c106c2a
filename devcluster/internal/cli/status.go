package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/devcluster/internal/state"
)

// errNotRunning makes `status` exit with a non-zero code after it has printed the status.
var errNotRunning = errors.New("the cluster does not run")

func newStatusCommand(dir *dataDirFlag) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the components of the cluster; fail if it does not run",
		Example: `  devcluster status
  devcluster status -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			dir, err := dir.resolveDataDir()
			if err != nil {
				return err
			}

			record, err := dir.ReadRecord()
			if err != nil {
				return err
			}
			if err := printStatus(command.OutOrStdout(), record, output); err != nil {
				return err
			}
			if record.Phase != state.Running {
				return fmt.Errorf("%w: %s is %s", errNotRunning, dir, record.Phase)
			}

			return nil
		},
	}

	command.Flags().StringVarP(&output, "output", "o", "", `output format: "" for a table, or "json"`)
	_ = command.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveNoFileComp))

	return command
}

func printStatus(out io.Writer, record state.Record, output string) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(record)
	case "":
	default:
		return fmt.Errorf("--output is %q; it must be json, or omitted for a table", output)
	}

	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tSTATE\tPID\tADDRESS")
	fmt.Fprintf(table, "supervisor\t%s\t%s\t\n", record.Phase, formatPID(record.PID))
	for _, component := range record.Components {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", component.Name, component.State, formatPID(component.PID), component.Address)
	}

	if err := table.Flush(); err != nil {
		return err
	}
	if record.Message != "" {
		fmt.Fprintf(out, "\n%s\n", record.Message)
	}

	return nil
}

func formatPID(formatPID int) string {
	if formatPID == 0 {
		return "-"
	}
	return strconv.Itoa(formatPID)
}
