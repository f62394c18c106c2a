package kube

import (
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// DryRunFlag is the flag --dry-run. With the value client, objects are printed instead of created.
type DryRunFlag struct {
	// Client is true if objects are printed and not sent to the server.
	Client bool
}

// AddFlag adds the flag to a command.
func (d *DryRunFlag) AddFlag(cmd *cobra.Command) {
	cmd.Flags().Var(d, "dry-run", `must be "none" or "client"; with client, the objects are printed and not sent to the server`)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "client"
}

// String implements pflag.Value.
func (d *DryRunFlag) String() string {
	if d.Client {
		return "client"
	}
	return "none"
}

// Type implements pflag.Value.
func (d *DryRunFlag) Type() string { return "string" }

// Set implements pflag.Value. It accepts none and client.
func (d *DryRunFlag) Set(value string) error {
	if value != "none" && value != "client" {
		return errors.New("must be none or client")
	}
	d.Client = value == "client"
	return nil
}

// PrintManifests prints the objects, as YAML unless another format was requested.
func (d *DryRunFlag) PrintManifests(cmd *cobra.Command, out *terminal.Output, objects []client.Object) error {
	format := out.Format
	if format == "" {
		format = terminal.FormatYAML
	}
	return PrintDocuments(cmd.OutOrStdout(), format, objects)
}
