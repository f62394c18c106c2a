package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// formatText is the plan as a person reads it.
const formatText = "text"

func (a *app) extensionPlanCommand() *cobra.Command {
	var (
		plan    action.ExtensionPlan
		choice  choiceFlags
		timeout time.Duration
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "plan NAME",
		Short: "Show what would be done about an extension, before it is done",
		Long: `Show what would be done about an extension, before it is done: the bundle that would be chosen
and why, the update path, objects added, changed and removed as a diff, what stands against it
(CRD upgrade safety, permissions lacking, dependencies), and the images that would run.

The operator-controller of the cluster makes the plan. For an extension that does not exist, a
ClusterExtension with the annotation mainstay.dev/plan is created, of which nothing but the plan
is made, and deleted afterwards. One that exists goes on as its spec says, and the plan is as if
the flags were in its spec.

The operator-controller must be one that knows the annotation: an older one would begin to install
what was only to be planned.`,
		Example: `  # What would be installed, and what the account lacks for it
  mainstay extension plan argocd-operator --namespace argocd --service-account argocd-installer

  # What an update of an installed extension would change
  mainstay extension plan argocd --version 0.7.0`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			plan.Client, plan.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			plan.Install.Name, plan.Install.Choice = args[0], choice.value(cmd)
			plan.Wait = &action.Wait{Timeout: timeout}
			result, err := plan.Run(cmd.Context())
			if result == nil {
				return err
			}
			return printPlan(cmd, &out, result, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&plan.Install.Package, "package", "", "package of an extension that does not exist (default: NAME)")
	flags.StringVarP(&plan.Install.Namespace, "namespace", "n", "", "namespace for the objects of the bundle (default: NAME)")
	flags.StringVar(&plan.Install.ServiceAccount, "service-account", "", "account in the namespace that the objects are written as (default: the operator-controller's own)")
	flags.StringVar(&plan.Install.WatchNamespace, "watch-namespace", "", "the one namespace that the extension watches (default: all)")
	choice.bind(cmd)
	flags.StringVar(&plan.SystemNamespace, "system-namespace", action.DefaultSystemNamespace, "namespace of operator-controller on the cluster")
	flags.DurationVar(&timeout, "timeout", 5*time.Minute, "how long to wait for the plan; 0 means without an end")
	out.Bind(cmd, formatText, terminal.FormatJSON, terminal.FormatYAML)
	_ = cmd.RegisterFlagCompletionFunc("namespace", a.completeFlag(namespaceNames)) // the flag was just added
	_ = cmd.RegisterFlagCompletionFunc("watch-namespace", a.completeFlag(namespaceNames))
	return cmd
}

// printPlan prints a plan, also beside the error of what could not be tidied up.
func printPlan(cmd *cobra.Command, out *terminal.Output, plan *action.Plan, failed error) error {
	var err error
	switch out.Format {
	case terminal.FormatJSON, terminal.FormatYAML:
		err = terminal.PrintValue(cmd.OutOrStdout(), out.Format, plan.Data)
	default:
		_, err = fmt.Fprint(cmd.OutOrStdout(), plan.Text)
	}
	if failed != nil {
		return failed
	}
	return err
}
