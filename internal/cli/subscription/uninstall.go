package subscription

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// exitCodeUnconfirmed is the exit code of a command that removed nothing because it was not confirmed.
const exitCodeUnconfirmed = 3

func newUninstallCommand(session *kube.Session) *cobra.Command {
	var (
		t         = target{session: session}
		uninstall subscription.Uninstall
		dryRun    bool
		yes       bool
		wait      kube.WaitFlags
		out       terminal.Output
	)

	cmd := &cobra.Command{
		Use:     "uninstall NAME",
		Aliases: []string{"delete"},
		Short:   "Uninstall an operator of OLM Classic",
		Long: `Uninstall an operator of OLM Classic: its Subscription and its ClusterServiceVersion. What is concerned
is listed first, and the command asks for confirmation. Without a terminal it needs --yes; otherwise
nothing is removed and the exit code is 3.

The CRDs of the operator and the custom resources are kept. With --delete-crds, the CRDs are removed
too. If custom resources exist, nothing is removed and the exit code is 3, unless
--delete-custom-resources is set.`,
		Example: `  # Show what is concerned
  mainstay subscription uninstall argocd-operator -n argocd --dry-run

  # Uninstall the operator, and keep its CRDs and custom resources
  mainstay subscription uninstall argocd-operator -n argocd --yes --wait

  # Stop upgrades, and let the operator run
  mainstay subscription uninstall argocd-operator -n argocd --keep-operator --yes`,
		Args: terminal.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := t.connectToCluster(cmd)
			if err != nil {
				return err
			}

			uninstall.Client, uninstall.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			uninstall.Namespace, uninstall.Name, uninstall.Wait = namespace, args[0], wait.ToWait()
			removal, err := uninstall.Preview(cmd.Context())
			if err != nil {
				return err
			}
			if dryRun {
				printRemoval(cmd.OutOrStdout(), &uninstall, removal)
				return kube.WithExitCode(uninstall.Check(removal))
			}

			printRemoval(cmd.ErrOrStderr(), &uninstall, removal)
			if err := uninstall.Check(removal); err != nil {
				return kube.WithExitCode(err)
			}
			if err := confirmRemoval(cmd, session, yes, removal.Subscription.Name); err != nil {
				return err
			}
			if err := uninstall.Run(cmd.Context(), removal); err != nil {
				return err
			}

			kube.PrintDeletedObject(cmd, &out, resource, removal.Subscription.Name)
			return nil
		},
	}

	t.addFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&uninstall.KeepOperator, "keep-operator", false, "remove only the Subscription: the operator keeps running and is not upgraded")
	flags.BoolVar(&uninstall.DeleteCRDs, "delete-crds", false, "also remove the CRDs of the operator")
	flags.BoolVar(&uninstall.DeleteCustomResources, "delete-custom-resources", false, "with --delete-crds, also remove CRDs that have custom resources")
	cmd.MarkFlagsMutuallyExclusive("keep-operator", "delete-crds")
	flags.BoolVar(&dryRun, "dry-run", false, "list what would be removed without removing it")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	wait.AddFlags(cmd, "the objects are deleted")
	out.AddFlag(cmd, terminal.FormatName)

	return cmd
}

// confirmRemoval returns an error unless the removal is confirmed.
func confirmRemoval(cmd *cobra.Command, session *kube.Session, yes bool, name string) error {
	object := "subscription " + name
	switch {
	case yes:
		return nil
	case !session.Interactive(cmd):
		return &terminal.ExitError{Code: exitCodeUnconfirmed, Err: &report.Error{Object: object, Err: errors.New("nothing was removed, because nobody confirmed it"), Advice: "add --yes"}}
	case !terminal.Confirm(cmd, "Uninstall "+name+"?"):
		return &report.Error{Object: object, Err: errors.New("uninstall cancelled")}
	}
	return nil
}

// printRemoval lists what the removal concerns.
func printRemoval(w io.Writer, u *subscription.Uninstall, r *subscription.Removal) {
	fmt.Fprintf(w, "subscription/%s in namespace %s is deleted\n", r.Subscription.Name, r.Subscription.Namespace)
	switch {
	case r.CSV == nil:
		fmt.Fprintln(w, "  no operator is installed")
		return
	case u.KeepOperator:
		fmt.Fprintf(w, "  clusterserviceversion/%s is kept: the operator keeps running\n", r.CSV.Name)
	default:
		fmt.Fprintf(w, "  clusterserviceversion/%s is deleted: the operator stops\n", r.CSV.Name)
		for _, replaced := range r.Replaced {
			fmt.Fprintf(w, "  clusterserviceversion/%s, which it is replacing, is deleted too\n", replaced.Name)
		}
	}

	if len(r.CRDs) > 0 {
		verb := "kept"
		if u.DeleteCRDs {
			verb = "deleted"
		}
		fmt.Fprintf(w, "  CRDs that are %s, with all custom resources:\n", verb)
	}

	for i := range r.CRDs {
		fmt.Fprintf(w, "    %s: %s\n", r.CRDs[i].Name, kube.FormatCustomResources(&r.CRDs[i]))
	}
	if len(r.RequiredBy) > 0 {
		fmt.Fprintf(w, "  operators that need these CRDs: %s\n", strings.Join(r.RequiredBy, ", "))
	}
}
