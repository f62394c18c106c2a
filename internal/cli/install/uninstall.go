package install

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewUninstallCommand returns the command `mainstay uninstall`.
func NewUninstallCommand(session *kube.Session) *cobra.Command {
	var (
		uninstall action.Uninstall
		wait      kube.WaitFlags
		out       terminal.Output
		parts     optionalParts
	)
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Mainstay from a cluster",
		Long: `Remove Mainstay from a cluster, with its CRDs and catalogs.

The command fails while extensions are installed, unless --delete-extensions or --keep-crds is set.
With --delete-extensions, nothing is deleted and the exit code is 3 if custom resources of the
extensions would be lost. Objects that are kept on the cluster are listed with the reason.`,
		Example: `  mainstay uninstall --wait

  # Uninstall all extensions and their objects first
  mainstay uninstall --delete-extensions

  # Remove OLM Classic as well
  mainstay uninstall --with classic

  # Keep extensions and catalogs for a later installation
  mainstay uninstall --keep-crds`,
		Args: terminal.MaximumArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			uninstall.Classic = parts.has(partClassic)

			uninstall.Client, uninstall.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			uninstall.Wait, uninstall.WaitForAll = action.Wait{Timeout: wait.Timeout}, wait.Wait
			result, err := uninstall.Run(cmd.Context())
			if result != nil {
				err = errors.Join(printUninstallResult(cmd, &out, result, err == nil), err)
			}

			return kube.WithExitCode(err)
		},
	}

	session.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&uninstall.Namespace, "namespace", "n", action.DefaultSystemNamespace, "namespace of the components")
	flags.BoolVar(&uninstall.DeleteExtensions, "delete-extensions", false, "uninstall all extensions and their objects first")
	flags.BoolVar(&uninstall.DeleteCustomResources, "delete-custom-resources", false, "with --delete-extensions, also delete the custom resources of their CRDs")
	parts.addFlag(cmd, "remove these as well: classic is OLM Classic, if 'mainstay install' has installed it and it has no operators; console, the web console, is always removed")
	flags.BoolVar(&uninstall.KeepCRDs, "keep-crds", false, "keep the CRDs with all catalogs and extensions")
	cmd.MarkFlagsMutuallyExclusive("delete-extensions", "keep-crds")
	cmd.MarkFlagsMutuallyExclusive("delete-custom-resources", "keep-crds")
	wait.AddFlags(cmd, "all objects are deleted")
	out.AddFlag(cmd, terminal.FormatName)

	return cmd
}

// printUninstallResult prints what was deleted, and what was kept with the reason.
func printUninstallResult(cmd *cobra.Command, out *terminal.Output, result *action.UninstallResult, done bool) error {
	if out.Format == terminal.FormatName {
		return kube.PrintObjects(cmd.OutOrStdout(), terminal.FormatName, toClientObjects(result.Deleted), true)
	}

	w := cmd.OutOrStdout()
	switch n := len(result.Deleted); {
	case n == 0:
		fmt.Fprintln(w, "Nothing was installed.")
		return nil
	case done:
		fmt.Fprintf(w, "Mainstay is removed: %d objects deleted.\n", n)
	default:
		fmt.Fprintf(w, "Mainstay is being removed: %d objects deleted.\n", n)
	}

	for _, left := range result.Left {
		fmt.Fprintf(w, "Kept: %s: %s.\n", left.Objects, left.Why)
	}

	return nil
}
