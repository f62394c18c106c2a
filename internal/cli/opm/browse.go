package opm

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/browse"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/upgradegraph"
)

// CatalogSourcesHelp is the help text of the argument CATALOG.
const CatalogSourcesHelp = `A catalog is a directory, an image, or a catalog that the cluster of the kubeconfig serves, as
clustercatalog/NAME.`

// CatalogReader reads the blobs of a catalog. The reference is a directory, an image or
// clustercatalog/NAME.
type CatalogReader func(ctx context.Context, ref string) iter.Seq2[fbc.Meta, error]

// NewSearchCommand returns the command search. The examples start with program.
func NewSearchCommand(program string) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "search CATALOG [WORD...]",
		Short: "Find packages in a catalog",
		Long: `Find packages in a catalog. A package matches if every word occurs in its name, display name,
keywords, kinds, provider or description. Without words, all packages are listed.

` + CatalogSourcesHelp,
		Example: fmt.Sprintf(`  %[1]s search quay.io/operatorhubio/catalog:latest database backup
  %[1]s search ./catalog
  %[1]s search clustercatalog/operatorhub postgres -o name`, program),
		Args: cobra.MinimumNArgs(1),
	}

	load := NewCatalogReader(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		packages, err := browse.Load("", load(cmd.Context(), args[0]))
		if err != nil {
			return err
		}
		return printSearchResults(cmd, out.Format, browse.Search(packages, args[1:]...))
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)

	return cmd
}

func printSearchResults(cmd *cobra.Command, format string, found []browse.SearchResult) error {
	w := cmd.OutOrStdout()
	switch format {
	case terminal.FormatJSON, terminal.FormatYAML:
		return terminal.PrintValue(w, format, found)
	case terminal.FormatName:
		for _, f := range found {
			fmt.Fprintln(w, f.Name)
		}
		return nil
	}

	if len(found) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No packages found.")
		return nil
	}

	headers := []string{"NAME", "DISPLAY NAME", "DEFAULT CHANNEL", "VERSION", "FOUND IN"}
	if format == terminal.FormatWide {
		headers = append(headers, "PROVIDER", "CHANNELS", "BUNDLES")
	}

	var rows [][]string
	for _, f := range found {
		version := ""
		if newest := f.Newest(); newest != nil {
			version = newest.Version
		}

		row := []string{f.Name, f.DisplayName, f.DefaultChannel, version, strings.Join(f.Where, ", ")}
		if format == terminal.FormatWide {
			row = append(row, f.Provider, strconv.Itoa(len(f.Channels)), strconv.Itoa(len(f.Bundles)))
		}

		rows = append(rows, row)
	}

	return terminal.PrintTable(w, headers, rows)
}

// NewShowCommand returns the command show. The examples start with program.
func NewShowCommand(program string) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "show PACKAGE CATALOG",
		Short: "Show the details of a package",
		Long: `Show the details of a package: its channels with their heads, its versions, and the provided APIs,
requirements and install modes of the newest version.

` + CatalogSourcesHelp,
		Example: fmt.Sprintf(`  %[1]s show argocd-operator quay.io/operatorhubio/catalog:latest
  %[1]s show argocd-operator clustercatalog/operatorhub -o yaml`, program),
		Args: terminal.ExactArgs("PACKAGE", "CATALOG"),
	}

	load := NewCatalogReader(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := loadPackage(cmd.Context(), program, load, args[0], args[1])
		if err != nil {
			return err
		}
		if out.Format != "" {
			return terminal.PrintValue(cmd.OutOrStdout(), out.Format, p)
		}
		return printPackage(cmd.OutOrStdout(), p)
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// loadPackage reads one package of a catalog. The commands in the advice of an error start with
// program.
func loadPackage(ctx context.Context, program string, load CatalogReader, name, ref string) (*browse.Package, error) {
	packages, err := browse.Load(name, load(ctx, ref))
	if err != nil {
		return nil, err
	}

	if len(packages) == 0 {
		return nil, &report.Error{
			Object: fmt.Sprintf("package %q", name), Err: fmt.Errorf("catalog %q does not have it", ref),
			Advice: "'" + program + " search " + ref + "' lists the packages that it has",
		}
	}

	return packages[0], nil
}

func printPackage(w io.Writer, p *browse.Package) error {
	fmt.Fprintln(w, strings.TrimSpace(p.Name+"  "+p.DisplayName))
	if p.Deprecated != "" {
		fmt.Fprintf(w, "Deprecated: %s\n", p.Deprecated)
	}
	if text := strings.TrimSpace(p.Description); text != "" {
		fmt.Fprintf(w, "\n%s\n", text)
	}
	if p.Provider != "" {
		fmt.Fprintf(w, "\nProvider: %s\n", p.Provider)
	}
	if len(p.Keywords) > 0 {
		fmt.Fprintf(w, "Keywords: %s\n", strings.Join(p.Keywords, ", "))
	}

	fmt.Fprintln(w)
	if err := terminal.PrintTable(w, []string{"CHANNEL", "HEAD", "BUNDLES", ""}, formatChannelRows(p)); err != nil {
		return err
	}

	fmt.Fprintln(w)
	var rows [][]string
	for _, b := range p.Bundles {
		rows = append(rows, []string{b.Version, b.Name, strings.Join(b.Channels, ","), formatDeprecation(b.Deprecated)})
	}

	if err := terminal.PrintTable(w, []string{"VERSION", "BUNDLE", "CHANNELS", ""}, rows); err != nil {
		return err
	}
	if newest := p.Newest(); newest != nil {
		printBundle(w, newest)
	}

	return nil
}

func formatChannelRows(p *browse.Package) [][]string {
	var rows [][]string
	for _, c := range p.Channels {
		note := formatDeprecation(c.Deprecated)
		if c.Name == p.DefaultChannel {
			note = strings.TrimSuffix("default; "+note, "; ")
		}
		rows = append(rows, []string{c.Name, strings.Join(c.Heads, ","), strconv.Itoa(c.Entries), note})
	}

	return rows
}

func formatDeprecation(message string) string {
	if message == "" {
		return ""
	}
	return "deprecated: " + strings.Join(strings.Fields(message), " ")
}

func printBundle(w io.Writer, b *browse.Bundle) {
	fmt.Fprintf(w, "\n%s\n", b.Name)
	lines := []struct {
		name   string
		values []string
	}{
		{"image", []string{b.Image}}, {"install modes", []string{strings.Join(b.InstallModes, ", ")}},
		{"Kubernetes", []string{b.MinKubeVersion}}, {"provides", b.Provides}, {"requires", b.Requires},
	}

	for _, line := range lines {
		for i, value := range line.values {
			name := line.name
			if i > 0 {
				name = ""
			}
			if value != "" {
				fmt.Fprintf(w, "  %-14s %s\n", name, value)
			}
		}
	}
}

// Output formats of drawings.
const (
	formatMermaid = "mermaid"
	formatDOT     = "dot"
	formatSVG     = "svg"
)

// NewGraphCommand returns the command graph. The examples start with program.
func NewGraphCommand(program string) *cobra.Command {
	var (
		out      terminal.Output
		channels []string
	)
	cmd := &cobra.Command{
		Use:   "graph PACKAGE CATALOG",
		Short: "Draw the upgrade graph of a package",
		Long: `Draw the upgrade graph of a package as a Mermaid flowchart, as an SVG image, or as DOT for Graphviz.

` + CatalogSourcesHelp,
		Example: fmt.Sprintf(`  %[1]s graph argocd-operator ./catalog
  %[1]s graph argocd-operator quay.io/operatorhubio/catalog:latest --channel alpha -o svg`, program),
		Args: terminal.ExactArgs("PACKAGE", "CATALOG"),
	}

	load := NewCatalogReader(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := loadPackage(cmd.Context(), program, load, args[0], args[1])
		if err != nil {
			return err
		}

		for _, problem := range p.Graph(channels...).Problems() {
			fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %v\n", problem)
		}

		write := map[string]func(io.Writer, ...upgradegraph.Drawing) error{
			formatMermaid: upgradegraph.WriteMermaid, formatDOT: upgradegraph.WriteDOT, formatSVG: upgradegraph.WriteSVG,
		}[cmp.Or(out.Format, formatMermaid)]
		return write(cmd.OutOrStdout(), p.Drawing(channels...))
	}

	cmd.Flags().StringSliceVar(&channels, "channel", nil, "channel to draw; can be repeated (default: all channels)")
	out.AddFlag(cmd, formatMermaid, formatDOT, formatSVG)

	return cmd
}
