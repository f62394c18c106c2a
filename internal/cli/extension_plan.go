package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// formatText is the plan as a person reads it.
const formatText = "text"

func (a *app) extensionPlanCommand() *cobra.Command {
	var (
		plan    action.ExtensionPlan
		choice  choiceFlags
		timeout time.Duration
		detail  bool
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

The exit code is 0 when nothing stands against the plan, and 1 when something does, or when there
is no plan. With --detailed-exitcode it is 2 when nothing stands against it and something would be
done, so that 0 means that nothing would.

The operator-controller must be one that knows the annotation: an older one would begin to install
what was only to be planned.`,
		Example: `  # What would be installed, and what the account lacks for it
  mainstay extension plan argocd-operator --namespace argocd --service-account argocd-installer

  # What an update of an installed extension would change
  mainstay extension plan argocd --version 0.7.0

  # In a script: an exit code of 0 says that there is nothing to do
  mainstay extension plan argocd --detailed-exitcode`,
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
			if err := printPlan(cmd, &out, result, err); err != nil {
				return err
			}

			return planExit(args[0], result, detail)
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
	flags.BoolVar(&detail, "detailed-exitcode", false, "exit with 2 when something would be done and nothing stands against it")
	out.Bind(cmd, formatText, terminal.FormatJSON, terminal.FormatYAML)
	_ = cmd.RegisterFlagCompletionFunc("namespace", a.completeFlag(namespaceNames)) // the flag was just added
	_ = cmd.RegisterFlagCompletionFunc("watch-namespace", a.completeFlag(namespaceNames))

	return cmd
}

// planExit says by the exit code what the plan comes to, as terraform does.
func planExit(name string, plan *action.Plan, detailed bool) error {
	switch {
	case len(plan.Problems) > 0:
		things := "1 thing stands"
		if n := len(plan.Problems); n > 1 {
			things = fmt.Sprintf("%d things stand", n)
		}
		return &report.Error{
			Object: fmt.Sprintf("clusterextension %q", name), Err: fmt.Errorf("%s against the plan", things), Advice: "see what the plan names, and plan again",
		}
	case detailed && plan.Changes:
		return &terminal.ExitError{Code: 2}
	}

	return nil
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
