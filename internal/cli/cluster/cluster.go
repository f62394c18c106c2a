// Package cluster implements `mainstay cluster`, which shows and updates the version of a cluster.
package cluster

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// NewCommand returns the command `mainstay cluster`.
func NewCommand(session *kube.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show and update the version of the cluster",
		Long: `Show and update the version of the cluster. The cluster-version-operator reconciles the cluster
to a release.`,
		Args: cobra.ArbitraryArgs,
		RunE: terminal.RunGroup,
	}

	session.AddFlags(cmd)
	terminal.StripControlCharacters(cmd)
	cmd.AddCommand(
		newAcceptCommand(session), newChannelCommand(session), newHistoryCommand(session), newInitCommand(session), newRecommendCommand(session), newRollbackCommand(session),
		newRollbackPreviewCommand(session), newStatusCommand(session), newUpgradeCommand(session),
	)

	return cmd
}

func newUpgradeCommand(session *kube.Session) *cobra.Command {
	var (
		request clusterupdate.Request
		report  clusterReport
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Show the available updates of the cluster or request one",
		Long: `Show the version of the cluster and the available updates, or request an update.

Use --allow-not-recommended to request an update that the update service does not recommend for
this cluster, and --allow-explicit-upgrade to request a release image that the update service does
not know. While the cluster is updating or failing, a request requires
--allow-upgrade-with-warnings; the warnings are printed. --force replaces none of these flags: it
makes the cluster-version-operator skip the signature verification of the release and its
preconditions.`,
		Example: `  mainstay cluster upgrade
  mainstay cluster upgrade --include-not-recommended
  mainstay cluster upgrade --to-latest
  mainstay cluster upgrade --to 1.4.2
  mainstay cluster upgrade --clear`,
		Args: terminal.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := request.Validate()
			if request.Clear && report.includeNotRecommended {
				err = clusterupdate.ErrClearAlone
			}
			if err != nil {
				return &terminal.UsageError{Err: err}
			}

			c, err := session.NewClient(cmd.ErrOrStderr())
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
				kube.SetGroupVersionKind(cv, configv1.GroupVersion, "ClusterVersion")
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, cv)
			}

			report.printReport(cmd.OutOrStdout(), cmd.ErrOrStderr(), cv)
			return nil
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&request.To, "to", "", "version to update to")
	flags.StringVar(&request.ToImage, "to-image", "", "release image to update to, by digest")
	flags.BoolVar(&request.ToLatest, "to-latest", false, "update to the highest available version")
	flags.BoolVar(&request.ToMultiArch, "to-multi-arch", false, "update to the multi-architecture release of the current version")
	flags.BoolVar(&request.Clear, "clear", false, "cancel the requested update")
	flags.BoolVar(&request.Force, "force", false, "skip the signature verification of the release and the preconditions of the update")
	flags.BoolVar(&request.AllowNotRecommended, "allow-not-recommended", false, "allow an update whose known risks apply to this cluster")
	flags.BoolVar(&request.AllowExplicit, "allow-explicit-upgrade", false, "allow a release image that the update service does not know")
	flags.BoolVar(&request.AllowWithWarnings, "allow-upgrade-with-warnings", false, "request the update even if the cluster is updating or failing")
	flags.BoolVar(&report.includeNotRecommended, "include-not-recommended", false, "also show updates that are not recommended for this cluster")
	_ = cmd.RegisterFlagCompletionFunc("to", completeUpdateVersion(session, &request.AllowNotRecommended))
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// printOutcome prints the result of an operation to standard output and its warnings to standard
// error. It returns err.
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

func newChannelCommand(session *kube.Session) *cobra.Command {
	var (
		channel clusterupdate.Channel
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "channel [NAME]",
		Short: "Set the update channel of the cluster",
		Long: `Set the update channel of the cluster. Without a name, the channel is cleared and the cluster no
longer retrieves updates from the update service.

A channel that is not known to contain the current release is refused unless
--allow-explicit-channel is set.`,
		Example: `  mainstay cluster channel stable-1.4
  mainstay cluster channel --allow-explicit-channel`,
		Args:              terminal.MaximumArgs(1),
		ValidArgsFunction: session.CompleteFirstArgument(listChannels),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
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

	cmd.Flags().BoolVar(&channel.AllowExplicit, "allow-explicit-channel", false, "allow a channel that is not known to contain the current release, and allow clearing the channel")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

func newAcceptCommand(session *kube.Session) *cobra.Command {
	var (
		accept clusterupdate.Accept
		out    terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "accept [RISK[-],...]",
		Short: "Accept known risks of updates",
		Long: `Accept known risks of updates by name. An accepted risk no longer prevents an update from being
recommended. A name followed by - removes the risk from the accepted ones.`,
		Example: `  mainstay cluster accept SlowDisks,OldFirmware
  mainstay cluster accept SlowDisks-
  mainstay cluster accept --clear`,
		Args:              terminal.MaximumArgs(1),
		ValidArgsFunction: completeLastListItem(session.CompleteFirstArgument(listRiskNames)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				accept.Risks = clusterupdate.SplitNames(args[0])
			}
			if err := accept.Validate(); err != nil {
				return &terminal.UsageError{Err: err}
			}

			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			accept.Client = c
			outcome, err := accept.Run(cmd.Context())
			return printOutcome(cmd, &out, outcome, err)
		},
	}

	cmd.Flags().BoolVar(&accept.Replace, "replace", false, "replace the accepted risks by the given ones")
	cmd.Flags().BoolVar(&accept.Clear, "clear", false, "remove all accepted risks")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

func newRollbackCommand(session *kube.Session) *cobra.Command {
	var (
		rollback clusterupdate.Rollback
		out      terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Roll back the cluster to its previous release",
		Long: `Roll back the cluster to its previous release. The previous release must be a lower patch version
of the same minor version. Use 'mainstay cluster rollback-preview' to show the target release.`,
		Example: `  mainstay cluster rollback`,
		Args:    terminal.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
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

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func newRollbackPreviewCommand(session *kube.Session) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "rollback-preview",
		Short: "Show what a rollback of the cluster would do",
		Long: `Show what 'mainstay cluster rollback' would do, or why a rollback is not possible. Nothing is
changed. The exit code is 2 if a rollback is not possible.`,
		Example: `  mainstay cluster rollback-preview
  mainstay cluster rollback-preview -o json`,
		Args: terminal.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
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

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func printRollbackPlan(w io.Writer, plan *clusterupdate.RollbackPlan) {
	if plan.Refusal != "" {
		fmt.Fprintf(w, "Cannot roll back from %s: %s.\n", plan.From, plan.Refusal)
		return
	}

	fmt.Fprintf(w, "The cluster would be rolled back from %s to %s.\n\n  Image: %s\n\n", plan.From, plan.To, plan.Image)
	if !plan.Completed {
		fmt.Fprintf(w, "The update to %s was never completed.\n", plan.To)
	}

	fmt.Fprintf(w, "To roll back, run: mainstay cluster rollback\n")
}

func newHistoryCommand(session *kube.Session) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the releases of the cluster's update history",
		Long: `List the releases of the cluster's update history, newest first. A release is Partial while it is
being applied. It stays Partial if another update replaced it before it was complete.`,
		Example: `  mainstay cluster history
  mainstay cluster history -o wide`,
		Args: terminal.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			cv, err := clusterupdate.Read(cmd.Context(), c)
			if err != nil {
				return err
			}

			return printClusterHistory(session, cmd, &out, cv.Status.History)
		},
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide)
	return cmd
}

func printClusterHistory(session *kube.Session, cmd *cobra.Command, out *terminal.Output, history []configv1.UpdateHistory) error {
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
		took := session.Now().Sub(entry.StartedTime.Time)
		if entry.CompletionTime != nil {
			took = entry.CompletionTime.Sub(entry.StartedTime.Time)
		}

		row := []string{entry.Version, string(entry.State), strconv.FormatBool(entry.Verified), session.FormatAge(&entry.StartedTime), formatDuration(took)}
		if wide {
			row = append(row, entry.Image, terminal.CollapseWhitespace(entry.AcceptedRisks))
		}

		rows = append(rows, row)
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}
