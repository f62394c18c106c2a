package subscription

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/action/subscription"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func newInstallCommand(session *kube.Session) *cobra.Command {
	var (
		install   subscription.Install
		namespace kube.NamespaceFlag
		approval  string
		wait      kube.WaitFlags
		dryRun    kube.DryRunFlag
		out       terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "install PACKAGE",
		Short: "Install an operator from a catalog of OLM Classic",
		Long: `Install an operator from a catalog of OLM Classic. A Subscription is created, which also keeps the
operator up to date, and an OperatorGroup if the namespace has none. The operator then watches all
namespaces if it supports that, and otherwise its own.

Nothing is created if no catalog contains the package, the channel or the version, or if the
operator does not support the namespaces that it would have to watch. If the API server refuses an
object, those that were created before are removed again.

A created namespace gets the labels and annotations that the author of the operator recommends for it.
With --cluster-monitoring, it also gets the label openshift.io/cluster-monitoring=true, and a Role and
a RoleBinding that let the service account prometheus-k8s of namespace openshift-monitoring read its
services, endpoints and pods. This is only possible if the operator asks for it and the author
recommends the namespace, whose name begins with "openshift-" and which does not exist yet.`,
		Example: `  # Install an operator into a namespace with its name, and wait until it runs
  mainstay subscription install argocd-operator -n argocd --create-namespace --wait

  # Watch two namespaces, and approve each upgrade
  mainstay subscription install argocd-operator -n argocd --watch-namespace team-a,team-b --approval Manual

  # Create the recommended namespace, and let the monitoring of the cluster read its metrics
  mainstay subscription install pipelines-operator -n openshift-pipelines --create-namespace --cluster-monitoring

  # Print the objects instead of creating them
  mainstay subscription install argocd-operator -n argocd --channel alpha --dry-run=client -o yaml`,
		Args:              terminal.ExactArgs("PACKAGE"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if install.Namespace, err = namespace.Namespace(session); err != nil {
				return err
			}

			install.Client, install.Progress, install.Package = c, terminal.NewProgress(cmd.ErrOrStderr()), args[0]
			install.Manual, install.Wait = approval == string(v1alpha1.ApprovalManual), wait.ToWait()
			if dryRun.Client {
				objects, err := install.Objects(cmd.Context())
				if err != nil {
					return err
				}
				return dryRun.PrintManifests(cmd, &out, objects)
			}

			sub, err := install.Run(cmd.Context())
			return printChanged(cmd, &out, sub, withInstalled("created", sub, err), err)
		},
	}

	namespace.AddFlag(cmd, session, "namespace of the operator")
	flags := cmd.Flags()
	flags.StringVar(&install.Name, "name", "", "name of the Subscription (default: the name of the package)")
	flags.BoolVar(&install.CreateNamespace, "create-namespace", false, "create the namespace if it does not exist")
	flags.BoolVar(&install.ClusterMonitoring, "cluster-monitoring", false, "let the monitoring of the cluster read the metrics of the created namespace, if the operator asks for it and the namespace is the recommended one")
	flags.StringVar(&install.Catalog, "catalog", "", "catalog, as NAME or NAMESPACE/NAME (default: the only one with the package)")
	flags.StringVar(&install.Channel, "channel", "", "channel to follow (default: the default channel of the package)")
	flags.StringVar(&install.StartingCSV, "starting-csv", "", "ClusterServiceVersion to install first (default: the newest of the channel)")
	flags.StringSliceVar(&install.WatchNamespaces, "watch-namespace", nil, "namespaces that the operator watches; can be repeated")
	addApprovalFlag(cmd, &approval)
	wait.AddFlags(cmd, "the operator runs")
	dryRun.AddFlag(cmd)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

func addApprovalFlag(cmd *cobra.Command, value *string) {
	terminal.AddEnumFlag(cmd, value, "approval", "whether installations and upgrades start by themselves, or wait until they are approved",
		string(v1alpha1.ApprovalAutomatic), string(v1alpha1.ApprovalManual))
}

func newApproveCommand(session *kube.Session) *cobra.Command {
	var (
		t       = target{session: session}
		approve subscription.Approve
		dryRun  bool
		yes     bool
		wait    kube.WaitFlags
		out     terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve the InstallPlan that a Subscription waits for",
		Long: `Approve the InstallPlan that a Subscription waits for. The plan is shown first: the operators that it
installs or upgrades, the other Subscriptions that it serves, and the objects that it writes. On a
terminal, the command asks for confirmation. A plan that changes after it was shown is not approved.`,
		Example: `  # Show the plan without approving it
  mainstay subscription approve argocd-operator -n argocd --dry-run

  # Approve it, and wait until the new version runs
  mainstay subscription approve argocd-operator -n argocd --wait`,
		Args: terminal.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, namespace, err := t.connectToCluster(cmd)
			if err != nil {
				return err
			}

			approve.Client, approve.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			approve.Namespace, approve.Name, approve.Wait = namespace, args[0], wait.ToWait()
			plan, err := approve.Preview(cmd.Context())
			if err != nil {
				return err
			}
			if dryRun {
				printPlan(cmd.OutOrStdout(), plan)
				return nil
			}

			printPlan(cmd.ErrOrStderr(), plan)
			if !yes && session.Interactive(cmd) && !terminal.Confirm(cmd, "Approve it?") {
				return &report.Error{Object: "installplan " + plan.Name, Err: errors.New("approval cancelled")}
			}

			sub, err := approve.Run(cmd.Context(), plan)
			return printChanged(cmd, &out, sub, "approved "+strings.Join(plan.Operators, ", "), err)
		},
	}

	t.addFlags(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show the plan without approving it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	wait.AddFlags(cmd, "the new version runs")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

func newUpgradeCommand(session *kube.Session) *cobra.Command {
	var (
		t        = target{session: session}
		upgrade  subscription.Upgrade
		approval string
		wait     kube.WaitFlags
		out      terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Change the channel or the approval of a Subscription",
		Long: `Change the channel or the approval of a Subscription. Within a channel, operators are upgraded
automatically, or once 'mainstay subscription approve' approves the upgrade.`,
		Example: `  # Follow another channel, and wait until its newest version runs
  mainstay subscription upgrade argocd-operator -n argocd --channel beta --wait

  # Approve each upgrade from now on
  mainstay subscription upgrade argocd-operator -n argocd --approval Manual`,
		Args: terminal.ExactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if upgrade.Namespace, err = t.namespace.Namespace(session); err != nil {
				return err
			}
			upgrade.Name, upgrade.Approval, upgrade.Wait = args[0], v1alpha1.Approval(approval), wait.ToWait()
			if err := upgrade.Validate(); err != nil {
				return err
			}

			if upgrade.Client, err = session.NewClient(cmd.ErrOrStderr()); err != nil {
				return err
			}
			upgrade.Progress = terminal.NewProgress(cmd.ErrOrStderr())
			sub, changed, err := upgrade.Run(cmd.Context())
			done := "unchanged"
			if changed {
				done = "configured"
			}
			return printChanged(cmd, &out, sub, withInstalled(done, sub, err), err)
		},
	}

	t.addFlags(cmd)
	cmd.Flags().StringVar(&upgrade.Channel, "channel", "", "channel to follow")
	addApprovalFlag(cmd, &approval)
	wait.AddFlags(cmd, "the newest version of the channel runs")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}
