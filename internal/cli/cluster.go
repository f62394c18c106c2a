package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "See and update the version of the cluster",
		Long: `See and update the version of the cluster, which the cluster-version-operator keeps at a
release.`,
		Args: cobra.ArbitraryArgs,
		RunE: terminal.Group,
	}

	a.kube.bind(cmd)
	terminal.Plain(cmd)
	cmd.AddCommand(
		a.clusterAcceptCommand(), a.clusterChannelCommand(), a.clusterHistoryCommand(), a.clusterInitCommand(), a.clusterRecommendCommand(), a.clusterRollbackCommand(),
		a.clusterRollbackPreviewCommand(), a.clusterStatusCommand(), a.clusterUpgradeCommand(),
	)

	return cmd
}

func (a *app) clusterUpgradeCommand() *cobra.Command {
	var (
		request clusterupdate.Request
		report  clusterReport
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Show the updates of the cluster, or ask for one",
		Long: `Show what the cluster is at and which updates there are, or ask for one of them.

An update that the update service does not recommend for this cluster is asked for with
--allow-not-recommended, an image that it does not know with --allow-explicit-upgrade. A
cluster that is being updated or fails is asked for another with --allow-upgrade-with-warnings
alone: what stands against it is printed. --force does not replace any of these; it has the
cluster-version-operator pass over the signature of the release and its preconditions.`,
		Example: `  mainstay cluster upgrade
  mainstay cluster upgrade --include-not-recommended
  mainstay cluster upgrade --to-latest
  mainstay cluster upgrade --to 1.4.2
  mainstay cluster upgrade --clear`,
		Args: terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := request.Validate()
			if request.Clear && report.notRecommended {
				err = clusterupdate.ErrClearAlone
			}
			if err != nil {
				return &terminal.UsageError{Err: err}
			}

			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			if request.Asks() {
				request.Client = c
				outcome, err := request.Run(cmd.Context())
				return printOutcome(cmd, &out, outcome, err)
			}

			cv, err := clusterupdate.Read(cmd.Context(), c)
			if err != nil {
				return err
			}
			if out.Format != "" {
				typed(cv, configv1.GroupVersion, "ClusterVersion")
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, cv)
			}

			report.print(cmd.OutOrStdout(), cmd.ErrOrStderr(), cv)
			return nil
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&request.To, "to", "", "version to update to")
	flags.StringVar(&request.ToImage, "to-image", "", "release image to update to, by digest")
	flags.BoolVar(&request.ToLatest, "to-latest", false, "update to the highest version there is")
	flags.BoolVar(&request.ToMultiArch, "to-multi-arch", false, "update to the same version with images for more than one architecture")
	flags.BoolVar(&request.Clear, "clear", false, "take back what was asked for")
	flags.BoolVar(&request.Force, "force", false, "pass over the signature of the release and whatever stands against the update")
	flags.BoolVar(&request.AllowNotRecommended, "allow-not-recommended", false, "also take an update whose known risks apply to this cluster")
	flags.BoolVar(&request.AllowExplicit, "allow-explicit-upgrade", false, "also take an image that the update service does not know")
	flags.BoolVar(&request.AllowWithWarnings, "allow-upgrade-with-warnings", false, "ask though the cluster is being updated already, or fails")
	flags.BoolVar(&report.notRecommended, "include-not-recommended", false, "also show updates that are not recommended for this cluster")
	_ = cmd.RegisterFlagCompletionFunc("to", a.completeTo(&request.AllowNotRecommended))
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// printOutcome says what an operation did, and what a person should know beside.
func printOutcome(cmd *cobra.Command, out *terminal.Output, outcome *clusterupdate.Outcome, err error) error {
	if outcome == nil {
		return err
	}
	if out.Format != "" && err == nil {
		return terminal.PrintValue(cmd.OutOrStdout(), out.Format, outcome)
	}

	for _, warning := range outcome.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
	}

	if err == nil {
		fmt.Fprintln(cmd.OutOrStdout(), outcome.Message)
	}

	return err
}

func (a *app) clusterChannelCommand() *cobra.Command {
	var (
		channel clusterupdate.Channel
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "channel [NAME]",
		Short: "Choose the channel of updates that the cluster follows",
		Long: `Choose the channel of updates that the cluster follows. Without a name it follows none: the
update service is not asked any more.

A channel that the cluster's release is not known to be in is refused unless
--allow-explicit-channel is given.`,
		Example: `  mainstay cluster channel stable-1.4
  mainstay cluster channel --allow-explicit-channel`,
		Args:              terminal.TakesUpTo(1),
		ValidArgsFunction: a.completeNames(knownChannels),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if channel.Client = c; len(args) > 0 {
				channel.Name = args[0]
			}

			outcome, err := channel.Run(cmd.Context())
			return printOutcome(cmd, &out, outcome, err)
		},
	}

	cmd.Flags().BoolVar(&channel.AllowExplicit, "allow-explicit-channel", false, "also take a channel that the release is not known to be in, and leave one that it is in")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

func (a *app) clusterAcceptCommand() *cobra.Command {
	var (
		accept clusterupdate.Accept
		out    terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "accept [RISK[-],...]",
		Short: "Accept known risks of updates",
		Long: `Accept known risks of updates by their names: they do not keep an update from being
recommended any more. A name with - behind it is not accepted any more.`,
		Example: `  mainstay cluster accept SlowDisks,OldFirmware
  mainstay cluster accept SlowDisks-
  mainstay cluster accept --clear`,
		Args:              terminal.TakesUpTo(1),
		ValidArgsFunction: lastOf(a.completeNames(knownRisks)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				accept.Risks = clusterupdate.SplitNames(args[0])
			}
			if err := accept.Validate(); err != nil {
				return &terminal.UsageError{Err: err}
			}

			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			accept.Client = c
			outcome, err := accept.Run(cmd.Context())
			return printOutcome(cmd, &out, outcome, err)
		},
	}

	cmd.Flags().BoolVar(&accept.Replace, "replace", false, "accept no others than these")
	cmd.Flags().BoolVar(&accept.Clear, "clear", false, "accept none any more")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

func (a *app) clusterRollbackCommand() *cobra.Command {
	var (
		rollback clusterupdate.Rollback
		out      terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Go back to the release that the cluster was at before",
		Long: `Go back to the release that the cluster was at before, if that is of a lower version of the
same minor version. 'mainstay cluster rollback-preview' tells what it would be.`,
		Example: `  mainstay cluster rollback`,
		Args:    terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			rollback.Client = c
			plan, err := rollback.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, plan)
			}

			fmt.Fprintf(cmd.OutOrStdout(), "Requested rollback from %s to %s\n", plan.From, plan.To)
			return nil
		},
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func (a *app) clusterRollbackPreviewCommand() *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "rollback-preview",
		Short: "Tell what a rollback of the cluster would do",
		Long: `Tell what 'mainstay cluster rollback' would do, or why there is no way back. Nothing is
changed. The exit code is 2 when there is no way back.`,
		Example: `  mainstay cluster rollback-preview
  mainstay cluster rollback-preview -o json`,
		Args: terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			plan, err := (&clusterupdate.Rollback{Client: c, Preview: true}).Run(cmd.Context())
			if err != nil {
				return err
			}

			if out.Format != "" {
				err = terminal.PrintValue(cmd.OutOrStdout(), out.Format, plan)
			} else {
				printRollbackPlan(cmd.OutOrStdout(), plan)
			}

			if err == nil && plan.Refusal != "" {
				return &terminal.ExitError{Code: 2}
			}

			return err
		},
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func printRollbackPlan(w io.Writer, plan *clusterupdate.RollbackPlan) {
	if plan.Refusal != "" {
		fmt.Fprintf(w, "There is no way back from %s: %s.\n", plan.From, plan.Refusal)
		return
	}

	fmt.Fprintf(w, "The cluster would go back from %s to %s.\n\n  Image: %s\n\n", plan.From, plan.To, plan.Image)
	if !plan.Completed {
		fmt.Fprintf(w, "It never was at %s completely.\n", plan.To)
	}

	fmt.Fprintf(w, "To do so: mainstay cluster rollback\n")
}

func (a *app) clusterHistoryCommand() *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the releases that the cluster has had",
		Long: `List the releases that the cluster has had, the newest first. One is Partial while it is
being applied, and stays so when another took its place before it was complete.`,
		Example: `  mainstay cluster history
  mainstay cluster history -o wide`,
		Args: terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			cv, err := clusterupdate.Read(cmd.Context(), c)
			if err != nil {
				return err
			}

			return a.printClusterHistory(cmd, &out, cv.Status.History)
		},
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide)
	return cmd
}

func (a *app) printClusterHistory(cmd *cobra.Command, out *terminal.Output, history []configv1.UpdateHistory) error {
	if out.Format == terminal.FormatJSON || out.Format == terminal.FormatYAML {
		return terminal.PrintValue(cmd.OutOrStdout(), out.Format, map[string]any{"history": history})
	}
	if len(history) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No history found.")
		return nil
	}

	headers := []string{"VERSION", "STATE", "VERIFIED", "STARTED", "TOOK"}
	wide := out.Format == terminal.FormatWide
	if wide {
		headers = append(headers, "IMAGE", "ACCEPTED RISKS")
	}

	var rows [][]string
	for _, entry := range history {
		took := a.now().Sub(entry.StartedTime.Time)
		if entry.CompletionTime != nil {
			took = entry.CompletionTime.Sub(entry.StartedTime.Time)
		}

		row := []string{entry.Version, string(entry.State), strconv.FormatBool(entry.Verified), a.age(&entry.StartedTime), clusterDuration(took)}
		if wide {
			row = append(row, entry.Image, oneLine(entry.AcceptedRisks))
		}

		rows = append(rows, row)
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}
