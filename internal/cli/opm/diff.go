package opm

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/browse"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// DiffCommand makes `diff`. The program is what its examples are called by.
func DiffCommand(program string) *cobra.Command {
	var (
		out      terminal.Output
		pkg      string
		stranded bool
	)
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Tell what changes from one catalog to another",
		Long: `Tell what changes from one catalog to another: packages, channels, bundles and updates that
come and go, and which installed versions would get no update any more.

` + sources,
		Example: fmt.Sprintf(`  # What an update of the catalog that the cluster serves would bring
  %[1]s diff clustercatalog/operatorhub quay.io/operatorhubio/catalog:latest

  # In a pipeline: fail if somebody would be left behind
  %[1]s diff registry.example.com/catalog:latest ./catalog --fail-on-stranded`, program),
		Args: terminal.Takes("OLD", "NEW"),
	}

	load := readAny(cmd)
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
			printDiff(cmd.OutOrStdout(), diff, terminal.StyleFor(cmd.OutOrStdout()))
		}

		if stranded && diff.Stranded() > 0 {
			return &report.Error{
				Object: fmt.Sprintf("catalog %q", args[1]), Err: errors.New("it strands installed versions"),
				Advice: "have a newer bundle replace, skip or cover by its skipRange what is marked with !",
			}
		}

		return nil
	}

	cmd.Flags().StringVarP(&pkg, "package", "p", "", "compare only this package")
	cmd.Flags().BoolVar(&stranded, "fail-on-stranded", false, "fail when installed versions would get no update any more")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// printDiff writes a line for each change: + what comes, - what goes, ~ what changes, and
// ! what is stranded.
func printDiff(w io.Writer, diff browse.Diff, style terminal.Style) {
	if len(diff.Packages)+len(diff.PackagesAdded)+len(diff.PackagesRemoved) == 0 {
		fmt.Fprintln(w, "The catalogs offer the same.")
		return
	}

	come := map[string]string{}
	for _, name := range diff.PackagesAdded {
		come[name] = style.Paint(terminal.Green, "+ ")
	}

	for _, name := range diff.PackagesRemoved {
		come[name] = style.Paint(terminal.Red, "- ")
	}

	for _, p := range diff.Packages {
		fmt.Fprintf(w, "%spackage %s\n", come[p.Package], p.Package)
		line := func(colour, sign, format string, args ...any) {
			fmt.Fprintf(w, "    %s\n", style.Paint(colour, sign+" "+fmt.Sprintf(format, args...)))
		}
		if p.DefaultChannel != "" {
			line(terminal.Yellow, "~", "default channel is now %s", p.DefaultChannel)
		}

		each(p.ChannelsRemoved, func(name string) { line(terminal.Red, "-", "channel %s", name) })
		each(p.ChannelsAdded, func(name string) { line(terminal.Green, "+", "channel %s", name) })
		each(p.BundlesRemoved, func(name string) { line(terminal.Red, "-", "bundle %s", name) })
		each(p.BundlesAdded, func(name string) { line(terminal.Green, "+", "bundle %s", name) })
		each(p.BundlesChanged, func(name string) { line(terminal.Yellow, "~", "bundle %s has another image", name) })
		for _, edge := range p.EdgesRemoved {
			line(terminal.Red, "-", "update %s → %s in %s", edge.From, edge.To, edge.Channel)
		}

		for _, edge := range p.EdgesAdded {
			line(terminal.Green, "+", "update %s → %s in %s", edge.From, edge.To, edge.Channel)
		}

		each(p.Deprecated, func(name string) { line(terminal.Yellow, "~", "%s is deprecated", name) })
		each(p.Stranded, func(name string) { line(terminal.Red, "!", "%s gets no update any more", name) })
	}
}

func each(names []string, do func(string)) {
	for _, name := range names {
		do(name)
	}
}
