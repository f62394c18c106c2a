package opm

import (
	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/catalog/catalogs"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newRenderGraphCommand() *cobra.Command {
	var render catalogs.RenderGraph
	cmd := &cobra.Command{
		Use:   "render-graph CATALOG...",
		Short: "Draw the upgrade edges of catalogs as a Mermaid flowchart",
		Long: `Draw the upgrade edges of catalogs as a Mermaid flowchart. A catalog is a directory, an image or a
SQLite file, and does not have to be valid. Use 'opm graph' to draw one package, also as SVG or DOT.`,
		Example: `  opm alpha render-graph quay.io/operatorhubio/catalog:latest -p argocd-operator
  opm alpha render-graph ./catalog --minimum-edge argocd-operator.v0.6.0 --draw-v0-semantics`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			render.Refs = args
			render.Progress = terminal.NewSilentProgress(cmd.ErrOrStderr())
			return render.Run(cmd.Context(), cmd.OutOrStdout())
		},
	}

	AddRegistryFlags(cmd, &render.Registry)
	flags := cmd.Flags()
	flags.StringVar(&render.Mermaid.MinimumEdge, "minimum-edge", "", "name of a bundle; draw only this bundle and its successors in the package")
	flags.StringVarP(&render.Package, "package-name", "p", "", "package to draw (default: all packages)")
	flags.BoolVar(&render.Mermaid.V0Semantics, "draw-v0-semantics", false, "mark bundles and edges that OLM v0 ignores because they are skipped")

	return cmd
}
