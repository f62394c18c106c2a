package extension

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newUninstallCommand(session *kube.Session) *cobra.Command {
	var (
		uninstall action.ExtensionUninstall
		wait      kube.WaitFlags
		dryRun    bool
		yes       bool
		out       terminal.Output
	)

	cmd := &cobra.Command{
		Use:     "uninstall NAME...",
		Aliases: []string{"delete"},
		Short:   "Uninstall extensions with all objects that they manage",
		Long: `Uninstall extensions with all objects that they manage. The data that would be lost is listed first:
the CRDs with the number and namespaces of their custom resources, and the namespaces that the
extensions manage.

If custom resources exist, nothing is deleted and the exit code is 3. Use --delete-custom-resources
to delete them, or --keep-crds to keep the CRDs with all custom resources. An extension that is
installed later under the same name adopts kept CRDs. On a terminal, the command asks for
confirmation before it deletes anything.

With several names, nothing is deleted if one of the extensions does not exist or is refused.`,
		Example: `  # Show what would be removed
  mainstay extension uninstall argocd-operator --dry-run

  # Uninstall the operator, and keep its CRDs and custom resources
  mainstay extension uninstall argocd-operator --keep-crds --wait

  # Uninstall two extensions with all custom resources, without confirmation
  mainstay extension uninstall argocd-operator prometheus --delete-custom-resources --yes`,
		Args:              terminal.MinimumArgs("NAME"),
		ValidArgsFunction: session.CompleteFlagValue(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			uninstall.Client, uninstall.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			uninstall.Names, uninstall.Wait = args, wait.ToWait()
			removals, err := uninstall.Preview(cmd.Context())
			if err != nil {
				return err
			}
			if dryRun {
				printRemovals(cmd.OutOrStdout(), removals)
				return kube.WithExitCode(uninstall.Check(removals))
			}

			needsConfirmation := !yes && session.Interactive(cmd)
			if needsConfirmation || losesData(removals) {
				printRemovals(cmd.ErrOrStderr(), removals)
			}
			if err := uninstall.Check(removals); err != nil {
				return kube.WithExitCode(err)
			}
			if needsConfirmation && !terminal.Confirm(cmd, "Uninstall "+joinExtensionNames(removals)+"?") {
				return &report.Error{Object: joinExtensionNames(removals), Err: errors.New("uninstall cancelled")}
			}
			if err := uninstall.Run(cmd.Context(), removals); err != nil {
				return err
			}
			for i := range removals {
				kube.PrintDeletedObject(cmd, &out, "clusterextension.olm.operatorframework.io", removals[i].Name)
			}
			return nil
		},
	}

	flags := cmd.Flags()
	flags.BoolVar(&uninstall.DeleteCustomResources, "delete-custom-resources", false, "also delete the custom resources of the CRDs")
	flags.BoolVar(&uninstall.KeepCRDs, "keep-crds", false, "keep the CRDs with all custom resources")
	cmd.MarkFlagsMutuallyExclusive("delete-custom-resources", "keep-crds")
	flags.BoolVar(&dryRun, "dry-run", false, "list what would be removed without removing it; the exit code is the same as without this flag")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	wait.AddFlags(cmd, "the extensions and their objects are deleted")
	out.AddFlag(cmd, terminal.FormatName)

	return cmd
}

// joinExtensionNames returns the names of the extensions, separated by commas.
func joinExtensionNames(removals []action.ExtensionRemoval) string {
	var names []string
	for i := range removals {
		names = append(names, removals[i].Name)
	}
	return strings.Join(names, ", ")
}

// losesData reports whether the removal deletes CRDs or namespaces, or whether that is unknown.
func losesData(removals []action.ExtensionRemoval) bool {
	for i := range removals {
		if r := &removals[i]; len(r.CRDs) > 0 || len(r.Namespaces) > 0 || r.Unknown != "" {
			return true
		}
	}
	return false
}

// printRemovals lists what is removed with each extension.
func printRemovals(w io.Writer, removals []action.ExtensionRemoval) {
	for i := range removals {
		r := &removals[i]
		installed := "nothing is installed"
		if r.Bundle != "" {
			installed = "bundle " + r.Bundle
		}

		fmt.Fprintf(w, "clusterextension/%s: %s, in namespace %s\n", r.Name, installed, r.Namespace)
		if r.Unknown != "" {
			fmt.Fprintf(w, "  %s\n", r.Unknown)
		}

		printCRDRemovals(w, r)
		if len(r.Namespaces) > 0 {
			fmt.Fprintf(w, "  namespaces that are deleted with all their objects: %s\n", strings.Join(r.Namespaces, ", "))
		}
	}
}

func printCRDRemovals(w io.Writer, r *action.ExtensionRemoval) {
	switch {
	case len(r.CRDs) == 0 && r.Unknown == "":
		fmt.Fprintln(w, "  no CRDs are deleted")
		return
	case len(r.CRDs) == 0:
		return
	case r.CRDsKept:
		fmt.Fprintln(w, "  CRDs that are kept, with all custom resources:")
	default:
		fmt.Fprintln(w, "  CRDs that are deleted, with all custom resources:")
	}

	for i := range r.CRDs {
		fmt.Fprintf(w, "    %s: %s\n", r.CRDs[i].Name, kube.FormatCustomResources(&r.CRDs[i]))
	}
}
