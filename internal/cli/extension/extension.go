// Package extension implements `mainstay extension`, which manages the extensions of a cluster.
package extension

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// NewCommand returns the command `mainstay extension`.
func NewCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "extension",
		Aliases: []string{"extensions", "ext"},
		Short:   "Plan, install, inspect, upgrade, roll back and uninstall extensions",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.RunGroup,
	}

	session.AddFlags(cmd)
	cmd.AddCommand(
		newInstallCommand(session), newPlanCommand(session), newListCommand(session), newStatusCommand(session),
		newExplainCommand(session), newHistoryCommand(session), newDiffCommand(session),
		newUpgradeCommand(session), newRollbackCommand(session), newUninstallCommand(session),
	)
	return cmd
}

// bundleSelectionFlags are the flags that select the bundle of a package.
type bundleSelectionFlags struct {
	version       string
	channels      []string
	selector      string
	selfCertified bool
	crdSafety     string
}

func (f *bundleSelectionFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	kube.AddVersionRangeFlag(cmd, &f.version)
	flags.StringSliceVar(&f.channels, "channel", nil, "channel to select the bundle from; can be repeated; empty allows every channel")
	flags.StringVar(&f.selector, "catalog-selector", "", `label selector for the catalogs to search, for example "`+olmv1.LabelMetadataName+`=NAME"`)
	terminal.RestrictFlag(cmd, "catalog-selector", "a label selector in the syntax of kubectl, such as 'key=value,other in (a,b)'", func() bool {
		_, err := metav1.ParseToLabelSelector(f.selector)
		return err == nil
	})
	flags.BoolVar(&f.selfCertified, "self-certified", false, "allow updates outside of the upgrade edges of the catalog, including downgrades")
	addCRDSafetyFlag(cmd, &f.crdSafety)
}

// addCRDSafetyFlag adds the flag that enforces or disables CRD upgrade safety checks.
func addCRDSafetyFlag(cmd *cobra.Command, value *string) {
	terminal.AddEnumFlag(cmd, value, "crd-upgrade-safety", "enforcement of the checks for CRD changes that can lose data or break clients",
		string(olmv1.CRDUpgradeSafetyEnforcementStrict), string(olmv1.CRDUpgradeSafetyEnforcementNone))
}

// addProgressDeadlineFlag adds the flag for the deadline of a rollout.
func addProgressDeadlineFlag(cmd *cobra.Command, minutes *int32) {
	cmd.Flags().Int32Var(minutes, "progress-deadline-minutes", 0, "deadline of a rollout in minutes, 10 to 720; 0 means no deadline")
	terminal.RestrictFlag(cmd, "progress-deadline-minutes", "0, or a number of minutes from 10 to 720", func() bool {
		return *minutes == 0 || *minutes >= 10 && *minutes <= 720
	})
}

// planCheckFlags are the flags of a command that checks a plan before it changes anything.
type planCheckFlags struct {
	check   bool
	timeout time.Duration
}

func (f *planCheckFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.check, "check", true, "plan the operation first, and change nothing if the plan has problems")
	terminal.AddDurationFlag(cmd, &f.timeout, "check-timeout", time.Minute, "how long to wait for the plan; 0 means no timeout")
}

// toPlanCheck returns the requested check, or nil if --check is false.
func (f *planCheckFlags) toPlanCheck(session *kube.Session, systemNamespace string) *action.PlanCheck {
	if !f.check {
		return nil
	}
	return &action.PlanCheck{SystemNamespace: systemNamespace, Timeout: f.timeout, Cluster: session.Config}
}

// toChoice returns the values of the flags that were set. The fields of other flags are nil.
func (f *bundleSelectionFlags) toChoice(cmd *cobra.Command) action.Choice {
	var choice action.Choice
	if cmd.Flags().Changed("version") {
		choice.Version = &f.version
	}
	if cmd.Flags().Changed("channel") {
		choice.Channels = &f.channels
	}
	if cmd.Flags().Changed("catalog-selector") {
		choice.CatalogSelector = &f.selector
	}
	if cmd.Flags().Changed("self-certified") {
		choice.SelfCertified = &f.selfCertified
	}
	if cmd.Flags().Changed("crd-upgrade-safety") {
		choice.CRDUpgradeSafety = (*olmv1.CRDUpgradeSafetyEnforcement)(&f.crdSafety)
	}

	return choice
}

func newInstallCommand(session *kube.Session) *cobra.Command {
	var (
		install action.ExtensionInstall
		choice  bundleSelectionFlags
		check   planCheckFlags
		system  string
		wait    kube.WaitFlags
		dryRun  kube.DryRunFlag
		out     terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "install PACKAGE",
		Short: "Install a package from a catalog",
		Long: `Install a package from a catalog. The highest version that the flags allow is installed and is
updated automatically within the same constraints.

The operator-controller plans the installation first. If the plan has problems, such as a package
or version that no catalog contains or missing permissions, nothing is created and the command
fails immediately. Use --check=false to create the extension without a plan.`,
		Example: `  # Install a package into a namespace with its name, and wait until it is installed
  mainstay extension install argocd-operator --create-namespace --wait

  # Pin a version, and install with the permissions of a service account
  mainstay extension install argocd-operator --namespace argocd --version 0.6.0 --service-account argocd-installer

  # Install dependencies too, and roll back an update that is not complete within 15 minutes
  mainstay extension install argocd-operator --dependencies Install --rollback OnDeadline --progress-deadline-minutes 15

  # Print the objects instead of creating them
  mainstay extension install argocd-operator --channel alpha --dry-run=client -o yaml`,
		Args:              terminal.ExactArgs("PACKAGE"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			install.Package = args[0]
			install.Choice = choice.toChoice(cmd)
			install.Wait = wait.ToWait()
			if dryRun.Client {
				objects, err := install.Objects()
				if err != nil {
					return err
				}
				return dryRun.PrintManifests(cmd, &out, objects)
			}

			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			install.Client, install.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			install.Check = check.toPlanCheck(session, system)
			extension, err := install.Run(cmd.Context())
			return printChangedExtension(cmd, &out, extension, "created", wait.Wait, err)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&install.Name, "name", "", "name of the ClusterExtension (default: the name of the package)")
	flags.StringVarP(&install.Namespace, "namespace", "n", "", "namespace for the objects of the bundle (default: the name of the extension)")
	flags.BoolVar(&install.CreateNamespace, "create-namespace", false, "create the namespace if it does not exist")
	flags.StringVar(&install.ServiceAccount, "service-account", "", "service account in the namespace that is impersonated to apply the objects (default: the account of operator-controller)")
	flags.StringVar(&install.WatchNamespace, "watch-namespace", "", "namespace that the extension watches (default: all namespaces)")
	terminal.AddEnumFlag(cmd, (*string)(&install.Dependencies), "dependencies", "wait for missing dependencies, or install them as separate extensions",
		string(olmv1.DependencyPolicyBlock), string(olmv1.DependencyPolicyInstall))
	terminal.AddEnumFlag(cmd, (*string)(&install.Rollback), "rollback", "what to do with an update that exceeds its deadline: continue, or roll back to the installed bundle",
		string(olmv1.RollbackPolicyNever), string(olmv1.RollbackPolicyOnDeadline))
	addProgressDeadlineFlag(cmd, &install.ProgressDeadlineMinutes)
	terminal.AddEnumFlag(cmd, (*string)(&install.AccessRoles), "access-roles", "additional roles for users of the extension's APIs: none, or roles that are aggregated to view, edit and admin",
		string(olmv1.AccessRolesNone), string(olmv1.AccessRolesAggregated))
	choice.addFlags(cmd)
	check.addFlags(cmd)
	flags.StringVar(&system, "system-namespace", action.DefaultSystemNamespace, "namespace of operator-controller")
	wait.AddFlags(cmd, "the extension is installed")
	dryRun.AddFlag(cmd)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)
	_ = cmd.RegisterFlagCompletionFunc("namespace", session.CompleteFlagValue(kube.ListNamespaceNames)) // the flag was just added
	_ = cmd.RegisterFlagCompletionFunc("watch-namespace", session.CompleteFlagValue(kube.ListNamespaceNames))

	return cmd
}

// printChangedExtension prints an extension after a change. If waiting failed with err, the
// extension is printed as well, because it was changed.
func printChangedExtension(cmd *cobra.Command, out *terminal.Output, extension *olmv1.ClusterExtension, done string, waited bool, err error) error {
	if extension == nil {
		return err
	}

	kube.SetGroupVersionKind(extension, olmv1.GroupVersion, olmv1.ClusterExtensionKind)
	if out.Format != "" {
		return errors.Join(kube.PrintObjects(cmd.OutOrStdout(), out.Format, []client.Object{extension}, false), err)
	}

	if waited && err == nil {
		done = "installed"
		if installed := extension.Status.Install; installed != nil {
			done += " (" + installed.Bundle.Name + ")"
		}
	}

	fmt.Fprintln(cmd.OutOrStdout(), kube.ResourceName(extension), done)
	return err
}

func newListCommand(session *kube.Session) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:     "list [NAME]",
		Aliases: []string{"ls", "get"},
		Short:   "List the extensions of the cluster",
		Long: `List the extensions of the cluster with their installed bundles and their status: Ready, Degraded,
Installing, Updating, Retrying, Failed, Removing, Planned or Unknown. An extension is Ready only if
all of its objects are ready. For every other extension, the message states the reason.`,
		Example: `  mainstay extension list
  mainstay extension list -o wide
  mainstay extension list argocd-operator -o yaml`,
		Args:              terminal.MaximumArgs(1),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			list := action.ExtensionList{Client: c}
			if len(args) == 1 {
				list.Name = args[0]
			}

			extensions, err := list.Run(cmd.Context())
			if err != nil {
				return err
			}

			return printExtensions(session, cmd, &out, extensions, list.Name == "")
		},
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)
	return cmd
}

func printExtensions(session *kube.Session, cmd *cobra.Command, out *terminal.Output, extensions []olmv1.ClusterExtension, all bool) error {
	if out.Format != "" && out.Format != terminal.FormatWide {
		var objects []client.Object
		for i := range extensions {
			objects = append(objects, kube.SetGroupVersionKind(&extensions[i], olmv1.GroupVersion, olmv1.ClusterExtensionKind))
		}
		return kube.PrintObjects(cmd.OutOrStdout(), out.Format, objects, all)
	}

	if len(extensions) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No extensions found.")
		return nil
	}

	headers := []string{"NAME", "INSTALLED BUNDLE", "VERSION", "STATUS", "AGE"}
	if out.Format == terminal.FormatWide {
		headers = append(headers, "INSTALLED", "PROGRESSING", "AVAILABLE", "PACKAGE", "NAMESPACE", "WANTED")
	}

	headers = append(headers, "MESSAGE")
	var rows [][]string
	for i := range extensions {
		rows = append(rows, formatExtensionRow(session, &extensions[i], out.Format == terminal.FormatWide))
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}

func formatExtensionRow(session *kube.Session, e *olmv1.ClusterExtension, wide bool) []string {
	bundle, version := "", ""
	if e.Status.Install != nil {
		bundle, version = e.Status.Install.Bundle.Name, e.Status.Install.Bundle.Version
	}

	state, message := diagnosis.StateOf(e)
	row := []string{e.Name, bundle, version, string(state), session.FormatAge(&e.CreationTimestamp)}
	if !wide {
		return append(row, excerpt.Line(message, maxMessageBytes))
	}

	pkg, wanted := "", ""
	if catalog := e.Spec.Source.Catalog; catalog != nil {
		pkg, wanted = catalog.PackageName, catalog.Version
	}

	return append(row,
		kube.ConditionStatus(e.Status.Conditions, olmv1.TypeInstalled), kube.ConditionStatus(e.Status.Conditions, olmv1.TypeProgressing),
		kube.ConditionStatus(e.Status.Conditions, olmv1.TypeAvailable), pkg, e.Spec.Namespace, wanted, message)
}

// maxMessageBytes is the length of a message in a row; -o wide prints all of it.
const maxMessageBytes = 100

func newStatusCommand(session *kube.Session) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show an extension with its revisions, phases and objects",
		Long: `Show an extension as a tree: its conditions, its active revisions, their phases, and the objects of
each phase. For an object that is not ready, the current reason is shown.`,
		Example: `  mainstay extension status argocd-operator
  mainstay extension status argocd-operator -o json`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			state, err := (&action.ExtensionStatus{Client: c, Name: args[0]}).Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, state)
			}

			newExtensionTree(state, terminal.StyleFor(cmd.OutOrStdout())).Write(cmd.OutOrStdout())
			return nil
		},
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func newUpgradeCommand(session *kube.Session) *cobra.Command {
	var (
		upgrade action.ExtensionUpgrade
		choice  bundleSelectionFlags
		check   planCheckFlags
		system  string
		wait    kube.WaitFlags
		out     terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Change the version constraints of an extension",
		Long: `Change the version constraints of an extension. Constraints whose flags are not set are not changed.
An empty value removes a constraint.

The operator-controller plans the change first. If the plan has problems, such as a version that no
catalog contains or a CRD change that can lose data, nothing is changed and the command fails
immediately. Use --check=false to change the extension without a plan.`,
		Example: `  # Upgrade to a version, and wait until it is installed
  mainstay extension upgrade argocd-operator --version 0.7.0 --wait

  # Remove the pinned version and follow a channel
  mainstay extension upgrade argocd-operator --version "" --channel alpha

  # Downgrade to a version without an upgrade edge in the catalog
  mainstay extension upgrade argocd-operator --version 0.5.0 --self-certified

  # Disable the CRD upgrade safety checks for this and later updates
  mainstay extension upgrade argocd-operator --version 0.6.0 --crd-upgrade-safety None`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			upgrade.Name, upgrade.Choice, upgrade.Wait = args[0], choice.toChoice(cmd), wait.ToWait()
			if err := upgrade.Validate(); err != nil {
				return err
			}

			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			upgrade.Client, upgrade.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			upgrade.Check = check.toPlanCheck(session, system)
			extension, changed, err := upgrade.Run(cmd.Context())
			done := "unchanged"
			if changed {
				done = "configured"
			}

			return printChangedExtension(cmd, &out, extension, done, wait.Wait, err)
		},
	}

	choice.addFlags(cmd)
	check.addFlags(cmd)
	cmd.Flags().StringVar(&system, "system-namespace", action.DefaultSystemNamespace, "namespace of operator-controller")
	wait.AddFlags(cmd, "the requested version is installed")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// listExtensionNames returns the names of the ClusterExtensions.
func listExtensionNames(ctx context.Context, c client.Client) ([]string, error) {
	extensions, err := (&action.ExtensionList{Client: c}).Run(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	for i := range extensions {
		names = append(names, extensions[i].Name)
	}

	return names, nil
}
