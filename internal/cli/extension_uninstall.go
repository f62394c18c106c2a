package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// exitCustomResources is the exit code of a command that deleted nothing, as custom resources
// would have been lost.
const exitCustomResources = 3

// withExitCode adds to an error the exit code that scripts know its reason by.
func withExitCode(err error) error {
	if errors.Is(err, action.ErrCustomResources) {
		return &terminal.ExitError{Code: exitCustomResources, Err: err}
	}
	return err
}

func (a *app) extensionUninstallCommand() *cobra.Command {
	var (
		uninstall action.ExtensionUninstall
		wait      waitFlags
		dryRun    bool
		yes       bool
		out       terminal.Output
	)

	cmd := &cobra.Command{
		Use:     "uninstall NAME...",
		Aliases: []string{"delete"},
		Short:   "Remove extensions and every object they manage",
		Long: `Remove extensions and every object they manage. What would be lost is listed first: the CRDs
with the number of custom resources and the namespaces that hold them, and namespaces that the
extensions manage.

When there are custom resources, nothing is deleted and the exit code is 3, unless
--delete-custom-resources consents to their deletion, or --keep-crds keeps the CRDs and with them
all custom resources. An extension that is installed later under the same name takes kept CRDs
over. On a terminal, the command asks before it deletes anything.

With several names, nothing is deleted when one of them does not exist or is refused.`,
		Example: `  # See what would be removed
  mainstay extension uninstall argocd-operator --dry-run

  # Remove the operator, and keep its CRDs and every custom resource
  mainstay extension uninstall argocd-operator --keep-crds --wait

  # Remove two extensions with all their custom resources, without being asked
  mainstay extension uninstall argocd-operator prometheus --delete-custom-resources --yes`,
		Args:              terminal.Usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: a.completeFlag(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			uninstall.Client, uninstall.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			uninstall.Names, uninstall.Wait = args, wait.value()
			removals, err := uninstall.Preview(cmd.Context())
			if err != nil {
				return err
			}
			if dryRun {
				printRemovals(cmd.OutOrStdout(), removals)
				return withExitCode(uninstall.Check(removals))
			}

			asks := !yes && a.interactive(cmd)
			if asks || losesData(removals) {
				printRemovals(cmd.ErrOrStderr(), removals)
			}
			if err := uninstall.Check(removals); err != nil {
				return withExitCode(err)
			}
			if asks && !terminal.Confirm(cmd, "Uninstall "+namesOf(removals)+"?") {
				return &report.Error{Object: namesOf(removals), Err: errors.New("not uninstalled, as the answer was not yes")}
			}
			if err := uninstall.Run(cmd.Context(), removals); err != nil {
				return err
			}
			for i := range removals {
				printDeleted(cmd, &out, "clusterextension.olm.operatorframework.io", removals[i].Name)
			}
			return nil
		},
	}

	flags := cmd.Flags()
	flags.BoolVar(&uninstall.DeleteCustomResources, "delete-custom-resources", false, "delete the custom resources of the CRDs too")
	flags.BoolVar(&uninstall.KeepCRDs, "keep-crds", false, "keep the CRDs, and with them all custom resources")
	cmd.MarkFlagsMutuallyExclusive("delete-custom-resources", "keep-crds")
	flags.BoolVar(&dryRun, "dry-run", false, "list what would be removed, and remove nothing; the exit code is that of the command without it")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask")
	wait.bind(cmd, "the extensions and their objects are gone")
	out.Bind(cmd, terminal.FormatName)

	return cmd
}

// namesOf returns the names of the extensions, separated by commas.
func namesOf(removals []action.ExtensionRemoval) string {
	var names []string
	for i := range removals {
		names = append(names, removals[i].Name)
	}
	return strings.Join(names, ", ")
}

// losesData reports whether more than workloads and their configuration go with the extensions.
func losesData(removals []action.ExtensionRemoval) bool {
	for i := range removals {
		if r := &removals[i]; len(r.CRDs) > 0 || len(r.Namespaces) > 0 || r.Unknown != "" {
			return true
		}
	}
	return false
}

// printRemovals lists what goes with each extension.
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
			fmt.Fprintf(w, "  namespaces that are deleted with all that they hold: %s\n", strings.Join(r.Namespaces, ", "))
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
		fmt.Fprintf(w, "    %s: %s\n", r.CRDs[i].Name, customResources(&r.CRDs[i]))
	}
}

func customResources(crd *action.CRDRemoval) string {
	text := fmt.Sprintf("%d custom resources", crd.CustomResources)
	switch {
	case crd.Unknown != "":
		return crd.Unknown
	case crd.CustomResources == 1:
		text = "1 custom resource"
	}

	switch n := len(crd.Namespaces); {
	case n == 0:
		return text
	case n == 1:
		return text + ", in namespace " + crd.Namespaces[0]
	case n > maxNamespaces:
		return fmt.Sprintf("%s, in namespaces %s and %d more", text, strings.Join(crd.Namespaces[:maxNamespaces], ", "), n-maxNamespaces)
	default:
		return text + ", in namespaces " + strings.Join(crd.Namespaces, ", ")
	}
}

// maxNamespaces is how many namespaces are named for a CRD.
const maxNamespaces = 10
