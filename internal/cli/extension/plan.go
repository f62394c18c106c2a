package extension

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// formatText prints the plan as text.
const formatText = "text"

func newPlanCommand(session *kube.Session) *cobra.Command {
	var (
		plan    action.ExtensionPlan
		choice  bundleSelectionFlags
		timeout time.Duration
		detail  bool
		out     terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "plan NAME",
		Short: "Show what installing or upgrading an extension would do",
		Long: `Show what installing or upgrading an extension would do: the bundle that would be selected and why,
the upgrade path, a diff of the added, changed and removed objects, problems (CRD upgrade safety,
missing permissions, dependencies), and the images that would run.

The operator-controller of the cluster computes the plan. For an extension that does not exist, the
command creates a ClusterExtension with the annotation mainstay.dev/plan, which is planned but never
installed, and deletes it afterwards. An existing extension is reconciled as before; its plan is
computed as if the flags were part of its spec.

The exit code is 0 if the plan has no problems, and 1 if it has problems or if there is no plan.
With --detailed-exitcode, the exit code is 2 if the plan has no problems but would make changes, and
0 only if there is nothing to change.

The operator-controller must support the annotation. An older version would install the extension
instead of planning it.`,
		Example: `  # Show what would be installed, and the permissions that the service account lacks
  mainstay extension plan argocd-operator --namespace argocd --service-account argocd-installer

  # Show what an update of an installed extension would change
  mainstay extension plan argocd --version 0.7.0

  # In a script: exit code 0 means that there is nothing to change
  mainstay extension plan argocd --detailed-exitcode`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			plan.Client, plan.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			plan.Install.Name, plan.Install.Choice = args[0], choice.toChoice(cmd)
			plan.Wait = &action.Wait{Timeout: timeout}
			result, err := plan.Run(cmd.Context())
			if result == nil {
				return err
			}
			if err := printPlan(cmd, &out, result, err); err != nil {
				return err
			}

			return planExitError(args[0], result, detail)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&plan.Install.Package, "package", "", "package of an extension that does not exist yet (default: NAME)")
	flags.StringVarP(&plan.Install.Namespace, "namespace", "n", "", "namespace for the objects of the bundle (default: NAME)")
	flags.StringVar(&plan.Install.ServiceAccount, "service-account", "", "service account in the namespace that is impersonated to apply the objects (default: the account of operator-controller)")
	flags.StringVar(&plan.Install.WatchNamespace, "watch-namespace", "", "namespace that the extension watches (default: all namespaces)")
	choice.addFlags(cmd)
	flags.StringVar(&plan.SystemNamespace, "system-namespace", action.DefaultSystemNamespace, "namespace of operator-controller")
	terminal.AddDurationFlag(cmd, &timeout, "timeout", 5*time.Minute, "how long to wait for the plan; 0 means no timeout")
	flags.BoolVar(&detail, "detailed-exitcode", false, "exit with code 2 if the plan has no problems and would make changes")
	out.AddFlag(cmd, formatText, terminal.FormatJSON, terminal.FormatYAML)
	_ = cmd.RegisterFlagCompletionFunc("namespace", session.CompleteFlagValue(kube.ListNamespaceNames)) // the flag was just added
	_ = cmd.RegisterFlagCompletionFunc("watch-namespace", session.CompleteFlagValue(kube.ListNamespaceNames))

	return cmd
}

// planExitError returns the error that sets the exit code for a plan. With detailed, the codes are
// those of terraform plan -detailed-exitcode.
func planExitError(name string, plan *action.Plan, detailed bool) error {
	switch {
	case len(plan.Problems) > 0:
		problems := "1 problem"
		if n := len(plan.Problems); n > 1 {
			problems = fmt.Sprintf("%d problems", n)
		}
		return &report.Error{
			Object: fmt.Sprintf("clusterextension %q", name), Err: fmt.Errorf("the plan has %s", problems), Advice: "resolve the problems that the plan lists, then plan again",
		}
	case detailed && plan.Changes:
		return &terminal.ExitError{Code: 2}
	}

	return nil
}

// printPlan prints a plan. It returns failed, the error of the cleanup after planning, if there is one.
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
