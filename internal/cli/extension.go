package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) extensionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "extension",
		Aliases: []string{"extensions", "ext"},
		Short:   "Install, plan, watch, explain, upgrade, roll back and uninstall extensions",
		Args:    cobra.ArbitraryArgs,
		RunE:    terminal.Group,
	}

	a.kube.bind(cmd)
	cmd.AddCommand(
		a.extensionInstallCommand(), a.extensionPlanCommand(), a.extensionListCommand(), a.extensionStatusCommand(),
		a.extensionExplainCommand(), a.extensionHistoryCommand(), a.extensionDiffCommand(),
		a.extensionUpgradeCommand(), a.extensionRollbackCommand(), a.extensionUninstallCommand(),
	)
	return cmd
}

// choiceFlags are the flags that say which bundle of a package is wanted.
type choiceFlags struct {
	version       string
	channels      []string
	selector      string
	selfCertified bool
	crdSafety     string
}

func (f *choiceFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.version, "version", "", `version or range, as "1.4.0", "1.4.x" or ">=1.4, <2"; empty means every version`)
	flags.StringSliceVar(&f.channels, "channel", nil, "channel to choose from; may be repeated; empty means every channel")
	flags.StringVar(&f.selector, "catalog-selector", "", `label selector for the catalogs to look in, as "`+olmv1.LabelMetadataName+`=NAME"`)
	flags.BoolVar(&f.selfCertified, "self-certified", false, "allow updates beside the upgrade edges of the catalog, also to older versions")
	bindCRDSafety(cmd, &f.crdSafety)
}

// bindCRDSafety adds the flag that says whether changes of CRDs are checked.
func bindCRDSafety(cmd *cobra.Command, value *string) {
	oneOf(cmd, value, "crd-upgrade-safety", "refuse changes of CRDs that can lose data or break clients, or make them unchecked",
		string(olmv1.CRDUpgradeSafetyEnforcementStrict), string(olmv1.CRDUpgradeSafetyEnforcementNone))
}

// checkFlags are the flags of a command that looks at the plan before it changes anything.
type checkFlags struct {
	check   bool
	timeout time.Duration
}

func (f *checkFlags) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.check, "check", true, "plan first, and change nothing when something stands against the plan")
	cmd.Flags().DurationVar(&f.timeout, "check-timeout", time.Minute, "how long to wait for the plan; 0 means without an end")
}

// value returns the check that was asked for, nil for none.
func (f *checkFlags) value(a *app, systemNamespace string) *action.PlanCheck {
	if !f.check {
		return nil
	}
	return &action.PlanCheck{SystemNamespace: systemNamespace, Timeout: f.timeout, Cluster: a.kube.Config}
}

// value returns what was said on the command line, and nil for what was not.
func (f *choiceFlags) value(cmd *cobra.Command) action.Choice {
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

func (a *app) extensionInstallCommand() *cobra.Command {
	var (
		install action.ExtensionInstall
		choice  choiceFlags
		check   checkFlags
		system  string
		wait    waitFlags
		dryRun  dryRunFlag
		out     terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "install PACKAGE",
		Short: "Install a package of a catalog",
		Long: `Install a package of a catalog: the highest version that the flags allow is chosen and
kept up to date within them.

The operator-controller plans the installation first. When something stands against the plan, such
as a package or version that no catalog has, or permissions that are lacking, nothing is created
and the command fails at once. --check=false creates the extension without a plan.`,
		Example: `  # Install a package into a namespace of its name, and wait until it runs
  mainstay extension install argocd-operator --create-namespace --wait

  # Pin a version, and limit what the extension may do to the rights of an account
  mainstay extension install argocd-operator --namespace argocd --version 0.6.0 --service-account argocd-installer

  # Install what it needs too, and give up an update that is not complete within 15 minutes
  mainstay extension install argocd-operator --dependencies Install --rollback OnDeadline --progress-deadline-minutes 15

  # Write the objects instead of creating them
  mainstay extension install argocd-operator --channel alpha --dry-run=client -o yaml`,
		Args:              terminal.Takes("PACKAGE"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			install.Package = args[0]
			install.Choice = choice.value(cmd)
			install.Wait = wait.value()
			if dryRun.client {
				objects, err := install.Objects()
				if err != nil {
					return err
				}
				return dryRun.print(cmd, &out, objects)
			}

			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			install.Client, install.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			install.Check = check.value(a, system)
			extension, err := install.Run(cmd.Context())
			return finishExtension(cmd, &out, extension, "created", wait.wait, err)
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&install.Name, "name", "", "name of the ClusterExtension (default: that of the package)")
	flags.StringVarP(&install.Namespace, "namespace", "n", "", "namespace for the objects of the bundle (default: the name of the extension)")
	flags.BoolVar(&install.CreateNamespace, "create-namespace", false, "create the namespace if it does not exist")
	flags.StringVar(&install.ServiceAccount, "service-account", "", "account in the namespace that the objects are written as (default: the operator-controller's own)")
	flags.StringVar(&install.WatchNamespace, "watch-namespace", "", "the one namespace that the extension watches (default: all)")
	oneOf(cmd, (*string)(&install.Dependencies), "dependencies", "when other packages or APIs that it needs are missing, wait for them, or install them as extensions of their own",
		string(olmv1.DependencyPolicyBlock), string(olmv1.DependencyPolicyInstall))
	oneOf(cmd, (*string)(&install.Rollback), "rollback", "go on with an update that is late, or give it up for what was installed before",
		string(olmv1.RollbackPolicyNever), string(olmv1.RollbackPolicyOnDeadline))
	flags.Int32Var(&install.ProgressDeadlineMinutes, "progress-deadline-minutes", 0, "how long a roll-out may take before it is late, 10 to 720; 0 means without an end")
	oneOf(cmd, (*string)(&install.AccessRoles), "access-roles", "roles for users of its APIs beside those of the bundle: none, or some that are aggregated to view, edit and admin",
		string(olmv1.AccessRolesNone), string(olmv1.AccessRolesAggregated))
	choice.bind(cmd)
	check.bind(cmd)
	flags.StringVar(&system, "system-namespace", action.DefaultSystemNamespace, "namespace of operator-controller on the cluster")
	wait.bind(cmd, "the extension is installed")
	dryRun.bind(cmd)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)
	_ = cmd.RegisterFlagCompletionFunc("namespace", a.completeFlag(namespaceNames)) // the flag was just added
	_ = cmd.RegisterFlagCompletionFunc("watch-namespace", a.completeFlag(namespaceNames))

	return cmd
}

// finishExtension prints an extension after a change. The extension is printed beside
// an error of the wait too: it was changed all the same.
func finishExtension(cmd *cobra.Command, out *terminal.Output, extension *olmv1.ClusterExtension, done string, waited bool, err error) error {
	if extension == nil {
		return err
	}

	typed(extension, olmv1.GroupVersion, olmv1.ClusterExtensionKind)
	if out.Format != "" {
		return errors.Join(printObjects(cmd.OutOrStdout(), out.Format, []client.Object{extension}, false), err)
	}

	if waited && err == nil {
		done = "installed"
		if installed := extension.Status.Install; installed != nil {
			done += " (" + installed.Bundle.Name + ")"
		}
	}

	fmt.Fprintln(cmd.OutOrStdout(), resourceName(extension), done)
	return err
}

func namespaceNames(ctx context.Context, c client.Client) ([]string, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}

	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}

	return names, nil
}

func (a *app) extensionListCommand() *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:     "list [NAME]",
		Aliases: []string{"ls", "get"},
		Short:   "List the extensions of the cluster",
		Long: `List the extensions of the cluster, with what is installed, and how they are: Ready, Degraded,
Installing, Updating, Retrying, Failed, Removing, Planned or Unknown. Only an extension all of
whose objects are ready is Ready; of the others, the message says why they are not.`,
		Example: `  mainstay extension list
  mainstay extension list -o wide
  mainstay extension list argocd-operator -o yaml`,
		Args:              terminal.TakesUpTo(1),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
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

			return a.printExtensions(cmd, &out, extensions, list.Name == "")
		},
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)
	return cmd
}

func (a *app) printExtensions(cmd *cobra.Command, out *terminal.Output, extensions []olmv1.ClusterExtension, all bool) error {
	if out.Format != "" && out.Format != terminal.FormatWide {
		var objects []client.Object
		for i := range extensions {
			objects = append(objects, typed(&extensions[i], olmv1.GroupVersion, olmv1.ClusterExtensionKind))
		}
		return printObjects(cmd.OutOrStdout(), out.Format, objects, all)
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
		rows = append(rows, a.extensionRow(&extensions[i], out.Format == terminal.FormatWide))
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}

func (a *app) extensionRow(e *olmv1.ClusterExtension, wide bool) []string {
	bundle, version := "", ""
	if e.Status.Install != nil {
		bundle, version = e.Status.Install.Bundle.Name, e.Status.Install.Bundle.Version
	}

	standing, message := diagnosis.Stand(e)
	row := []string{e.Name, bundle, version, string(standing), a.age(&e.CreationTimestamp)}
	if !wide {
		return append(row, shorten(message))
	}

	pkg, wanted := "", ""
	if catalog := e.Spec.Source.Catalog; catalog != nil {
		pkg, wanted = catalog.PackageName, catalog.Version
	}

	return append(row,
		conditionStatus(e.Status.Conditions, olmv1.TypeInstalled), conditionStatus(e.Status.Conditions, olmv1.TypeProgressing),
		conditionStatus(e.Status.Conditions, olmv1.TypeAvailable), pkg, e.Spec.Namespace, wanted, message)
}

// maxMessage is how many characters of a message a row shows; -o wide shows all.
const maxMessage = 100

// shorten cuts a message that is too long for a row.
func shorten(message string) string {
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage-1]) + "…"
	}
	return message
}

func (a *app) extensionStatusCommand() *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show an extension with its revisions, phases and objects",
		Long: `Show an extension as a tree: its conditions, its active revisions, their phases, and
each object with what it lacks, as the cluster has it now.`,
		Example: `  mainstay extension status argocd-operator
  mainstay extension status argocd-operator -o json`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
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

			extensionTree(state, terminal.StyleFor(cmd.OutOrStdout())).write(cmd.OutOrStdout())
			return nil
		},
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func (a *app) extensionUpgradeCommand() *cobra.Command {
	var (
		upgrade action.ExtensionUpgrade
		choice  choiceFlags
		check   checkFlags
		system  string
		wait    waitFlags
		out     terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Change which version of its package an extension has",
		Long: `Change which version of its package an extension has. Flags that are not given leave
things as they are; an empty value takes a limit away.

The operator-controller plans the change first. When something stands against the plan, such as a
version that no catalog has or a change of a CRD that can lose data, nothing is changed and the
command fails at once. --check=false changes the extension without a plan.`,
		Example: `  # Go to a version, and wait until it runs
  mainstay extension upgrade argocd-operator --version 0.7.0 --wait

  # Take the pin away: follow a channel
  mainstay extension upgrade argocd-operator --version "" --channel alpha

  # Go back to a version that the catalog has no edge to
  mainstay extension upgrade argocd-operator --version 0.5.0 --self-certified

  # Accept that a changed CRD can lose data, now and later
  mainstay extension upgrade argocd-operator --version 0.6.0 --crd-upgrade-safety None`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			upgrade.Client, upgrade.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			upgrade.Name, upgrade.Choice, upgrade.Wait = args[0], choice.value(cmd), wait.value()
			upgrade.Check = check.value(a, system)
			extension, changed, err := upgrade.Run(cmd.Context())
			done := "unchanged"
			if changed {
				done = "configured"
			}

			return finishExtension(cmd, &out, extension, done, wait.wait, err)
		},
	}

	choice.bind(cmd)
	check.bind(cmd)
	cmd.Flags().StringVar(&system, "system-namespace", action.DefaultSystemNamespace, "namespace of operator-controller on the cluster")
	wait.bind(cmd, "the wanted version is installed")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// printDeleted says that an object was deleted, as kubectl does.
func printDeleted(cmd *cobra.Command, out *terminal.Output, resource, name string) {
	if out.Format == terminal.FormatName {
		fmt.Fprintln(cmd.OutOrStdout(), resource+"/"+name)
		return
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %q deleted\n", resource, name)
}
