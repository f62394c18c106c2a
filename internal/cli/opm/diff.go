package opm

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/browse"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewDiffCommand returns the command diff. The examples start with program.
func NewDiffCommand(program string) *cobra.Command {
	var (
		out      terminal.Output
		pkg      string
		stranded bool
	)
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show the differences between two catalogs",
		Long: `Show the differences between two catalogs: packages, channels, bundles and upgrade edges that are
added or removed, and installed versions that would no longer receive updates.

` + CatalogSourcesHelp,
		Example: fmt.Sprintf(`  # Show what an update of a catalog of the cluster would change
  %[1]s diff clustercatalog/operatorhub quay.io/operatorhubio/catalog:latest

  # In a pipeline: fail if installed versions would be stranded
  %[1]s diff registry.example.com/catalog:latest ./catalog --fail-on-stranded`, program),
		Args: terminal.ExactArgs("OLD", "NEW"),
	}

	load := NewCatalogReader(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var catalogs [2][]*browse.Package
		for i, ref := range args {
			packages, err := browse.Load(pkg, load(cmd.Context(), ref))
			if err != nil {
				return fmt.Errorf("catalog %q: %w", ref, err)
			}
			catalogs[i] = packages
		}

		diff := browse.Compare(catalogs[0], catalogs[1])
		if out.Format != "" {
			if err := terminal.PrintValue(cmd.OutOrStdout(), out.Format, diff); err != nil {
				return err
			}
		} else {
			printCatalogDiff(cmd.OutOrStdout(), diff, terminal.StyleFor(cmd.OutOrStdout()))
		}

		if stranded && diff.Stranded() > 0 {
			return &report.Error{
				Object: fmt.Sprintf("catalog %q", args[1]), Err: errors.New("installed versions are stranded"),
				Advice: "add bundles that replace, skip or cover with their skipRange the versions that are marked with !",
			}
		}

		return nil
	}

	cmd.Flags().StringVarP(&pkg, "package", "p", "", "compare only this package")
	cmd.Flags().BoolVar(&stranded, "fail-on-stranded", false, "fail if installed versions would no longer receive updates")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// printCatalogDiff prints a line for each change: + for added, - for removed, ~ for changed, and ! for
// a stranded version.
func printCatalogDiff(w io.Writer, diff browse.Diff, style terminal.Style) {
	if len(diff.Packages)+len(diff.PackagesAdded)+len(diff.PackagesRemoved) == 0 {
		fmt.Fprintln(w, "No differences found.")
		return
	}

	marks := map[string]string{}
	for _, name := range diff.PackagesAdded {
		marks[name] = style.Paint(terminal.Green, "+ ")
	}

	for _, name := range diff.PackagesRemoved {
		marks[name] = style.Paint(terminal.Red, "- ")
	}

	for _, p := range diff.Packages {
		fmt.Fprintf(w, "%spackage %s\n", marks[p.Package], p.Package)
		line := func(colour, sign, format string, args ...any) {
			fmt.Fprintf(w, "    %s\n", style.Paint(colour, sign+" "+fmt.Sprintf(format, args...)))
		}
		if p.DefaultChannel != "" {
			line(terminal.Yellow, "~", "default channel is now %s", p.DefaultChannel)
		}

		forEachName(p.ChannelsRemoved, func(name string) { line(terminal.Red, "-", "channel %s", name) })
		forEachName(p.ChannelsAdded, func(name string) { line(terminal.Green, "+", "channel %s", name) })
		forEachName(p.BundlesRemoved, func(name string) { line(terminal.Red, "-", "bundle %s", name) })
		forEachName(p.BundlesAdded, func(name string) { line(terminal.Green, "+", "bundle %s", name) })
		forEachName(p.BundlesChanged, func(name string) { line(terminal.Yellow, "~", "bundle %s has another image", name) })
		for _, edge := range p.EdgesRemoved {
			line(terminal.Red, "-", "update %s → %s in %s", edge.From, edge.To, edge.Channel)
		}

		for _, edge := range p.EdgesAdded {
			line(terminal.Green, "+", "update %s → %s in %s", edge.From, edge.To, edge.Channel)
		}

		forEachName(p.Deprecated, func(name string) { line(terminal.Yellow, "~", "%s is deprecated", name) })
		forEachName(p.Stranded, func(name string) { line(terminal.Red, "!", "%s no longer receives updates", name) })
	}
}

func forEachName(names []string, do func(string)) {
	for _, name := range names {
		do(name)
	}
}
