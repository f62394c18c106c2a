package opm

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
)

func newListCommand() *cobra.Command {
	return newCommandGroup("list", "List the content of a catalog",
		newListSubcommand("packages CATALOG", "List the packages of a catalog", cobra.ExactArgs(1), formatPackageRows),
		newListSubcommand("channels CATALOG [PACKAGE]", "List the channels of a catalog and their heads", cobra.RangeArgs(1, 2), formatHeadRows),
		newListSubcommand("bundles CATALOG [PACKAGE]", "List the bundles of a catalog for each of their channels", cobra.RangeArgs(1, 2), formatBundleRows),
	)
}

// newListSubcommand returns a command that lists a property of each package. The function rows returns
// the table, starting with the header row.
func newListSubcommand(use, short string, args cobra.PositionalArgs, rows func([]*fbc.ModelPackage) [][]string) *cobra.Command {
	var list catalogs.List
	name, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Long:    short + `. A catalog is a directory, an image or a SQLite file, and must be valid.`,
		Example: "  opm alpha list " + name + " quay.io/operatorhubio/catalog:latest\n  opm alpha list " + name + " ./catalog",
		Args:    args,
		RunE: func(cmd *cobra.Command, args []string) error {
			list.Ref = args[0]
			if len(args) > 1 {
				list.Package = args[1]
			}

			list.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			packages, err := list.Run(cmd.Context())
			if err != nil {
				return err
			}

			return printColumns(cmd.OutOrStdout(), rows(packages)...)
		},
	}

	AddRegistryFlags(cmd, &list.Registry)

	return cmd
}

func formatPackageRows(packages []*fbc.ModelPackage) [][]string {
	rows := [][]string{{"NAME", "DISPLAY NAME", "DEFAULT CHANNEL"}}
	for _, p := range packages {
		displayName := ""
		// For compatibility, only a bundle that contains its manifests has a display name here.
		if channel := p.Channel(p.DefaultChannel); channel != nil && channel.Head.Bundle.HasCSV {
			displayName = channel.Head.Bundle.DisplayName
		}
		rows = append(rows, []string{p.Name, displayName, p.DefaultChannel})
	}

	return rows
}

func formatHeadRows(packages []*fbc.ModelPackage) [][]string {
	rows := [][]string{{"PACKAGE", "CHANNEL", "HEAD"}}
	for _, p := range packages {
		for _, channel := range p.Channels {
			rows = append(rows, []string{p.Name, channel.Name, channel.Head.Name})
		}
	}
	return rows
}

func formatBundleRows(packages []*fbc.ModelPackage) [][]string {
	rows := [][]string{{"PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE"}}
	for _, p := range packages {
		for _, channel := range p.Channels {
			entries := slices.Clone(channel.Entries)
			slices.SortFunc(entries, func(a, b fbc.ModelEntry) int { return strings.Compare(a.Name, b.Name) })
			for _, e := range entries {
				rows = append(rows, []string{p.Name, channel.Name, e.Name, e.Replaces, strings.Join(e.Skips, ","), e.SkipRange, e.Bundle.Image})
			}
		}
	}

	return rows
}
