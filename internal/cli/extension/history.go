package extension

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
)

func newHistoryCommand(session *kube.Session) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the revisions of an extension",
		Long: `List the revisions of an extension, oldest first. The list contains the revisions that own objects
and up to five archived revisions before them.

A revision is RollingOut while its rollout is in progress, and Active once the rollout is complete.
It is Archived after a newer revision replaced it. It is Failed if its rollout was rolled back or
cannot proceed.`,
		Example: `  mainstay extension history argocd-operator
  mainstay extension history argocd-operator -o wide`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			history, err := (&action.ExtensionHistory{Client: c, Name: args[0]}).Run(cmd.Context())
			if err != nil {
				return err
			}

			return printRevisionHistory(session, cmd, &out, history)
		},
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)
	return cmd
}

func printRevisionHistory(session *kube.Session, cmd *cobra.Command, out *terminal.Output, history []action.RevisionRecord) error {
	switch out.Format {
	case terminal.FormatJSON, terminal.FormatYAML:
		return terminal.PrintValue(cmd.OutOrStdout(), out.Format, map[string]any{"revisions": history})
	case terminal.FormatName:
		for _, r := range history {
			fmt.Fprintln(cmd.OutOrStdout(), strings.ToLower(olmv1.ClusterObjectSetKind)+"."+olmv1.GroupVersion.Group+"/"+r.Name)
		}
		return nil
	}

	if len(history) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No revisions found.")
		return nil
	}

	wide := out.Format == terminal.FormatWide
	headers := []string{"REVISION", "BUNDLE", "VERSION", "STATE", "AGE"}
	if wide {
		headers = append(headers, "COMPLETED", "NAME", "IMAGE")
	}

	headers = append(headers, "MESSAGE")
	var rows [][]string
	for _, r := range history {
		row := []string{strconv.FormatInt(r.Revision, 10), r.Bundle, r.Version, string(r.State), session.FormatAge(&r.Created)}
		if wide {
			row = append(row, session.FormatAge(r.Completed), r.Name, r.Image)
		}
		rows = append(rows, append(row, terminal.CollapseWhitespace(r.Message)))
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}

func newDiffCommand(session *kube.Session) *cobra.Command {
	var (
		diff action.ExtensionDiff
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "diff NAME",
		Short: "Compare the objects of two revisions of an extension",
		Long: `Compare the objects of two revisions of an extension, by default the two newest. Added, changed and
removed objects are printed as unified diffs.

The command compares the objects as rendered from the bundles of the revisions. Changes that others
made to the objects in the cluster are not included. Values of Secrets are hidden.`,
		Example: `  mainstay extension diff argocd-operator
  mainstay extension diff argocd-operator --from 1 --to 3`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			diff.Client, diff.Name = c, args[0]
			result, err := diff.Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, result)
			}

			printRevisionDiff(cmd.OutOrStdout(), result)
			return nil
		},
	}

	cmd.Flags().Int64Var(&diff.From, "from", 0, "number of the revision to compare from (default: the one before --to)")
	cmd.Flags().Int64Var(&diff.To, "to", 0, "number of the revision to compare to (default: the newest)")
	restrictToRevision(cmd, "from", &diff.From)
	restrictToRevision(cmd, "to", &diff.To)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// restrictToRevision makes a flag for the number of a revision refuse other numbers. The value 0 selects the default.
func restrictToRevision(cmd *cobra.Command, name string, revision *int64) {
	terminal.RestrictFlag(cmd, name, "the number of a revision, such as 2", func() bool { return *revision >= 0 })
}

// printRevisionDiff prints the differences as unified diffs, which the program patch can read.
func printRevisionDiff(w io.Writer, d *action.RevisionDiff) {
	fmt.Fprintf(w, "%s (%s) → %s (%s): %d added, %d changed, %d removed, %d unchanged\n",
		d.From.Name, d.From.Bundle, d.To.Name, d.To.Bundle,
		d.Count(objectdiff.Added), d.Count(objectdiff.Changed), d.Count(objectdiff.Removed), d.Unchanged)
	style := terminal.StyleFor(w)
	for _, change := range d.Changes {
		before, after := d.From.Name+"/"+change.Object(), d.To.Name+"/"+change.Object()
		switch change.Change {
		case objectdiff.Added:
			before = "/dev/null"
		case objectdiff.Removed:
			after = "/dev/null"
		}
		fmt.Fprintf(w, "\n--- %s\n+++ %s\n", before, after)
		for line := range strings.Lines(change.Diff) {
			line = strings.TrimSuffix(line, "\n")
			switch line[0] {
			case '-':
				line = style.Paint(terminal.Red, line)
			case '+':
				line = style.Paint(terminal.Green, line)
			}
			fmt.Fprintln(w, line)
		}
	}
}

func newExplainCommand(session *kube.Session) *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Explain the state of an extension and what to do about it",
		Long: `Explain the state of an extension and what to do about it. The explanation is derived from the
conditions that the controllers report, the objects that are not ready, their pods and events, and
the catalogs.`,
		Example: `  mainstay extension explain argocd-operator
  mainstay extension explain argocd-operator -o json`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			explanation, err := (&action.ExtensionExplain{Client: c, Name: args[0]}).Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, explanation)
			}

			kube.PrintExplanation(cmd.OutOrStdout(), "clusterextension", explanation)
			return nil
		},
	}

	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func newRollbackCommand(session *kube.Session) *cobra.Command {
	var (
		rollback action.ExtensionRollback
		safety   string
		check    planCheckFlags
		wait     kube.WaitFlags
		out      terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Roll back an extension to a previous bundle",
		Long: `Roll back an extension to the bundle of a previous revision, by default the last one that was rolled
out completely.

The version of that bundle is pinned in the spec of the extension, and upgradeConstraintPolicy is
set to SelfCertified. The extension is therefore not updated automatically until the pin is removed;
the command prints how to do so. Configuration is not changed. If an update is in progress, it is
aborted, and objects that it adopted return to the revision that is still active.

The operator-controller plans the change first. If the plan has problems, such as a CRD change that
can lose data, nothing is changed and the command fails immediately. Use --crd-upgrade-safety None
to accept such changes, and --check=false to skip the plan.`,
		Example: `  mainstay extension rollback argocd-operator --wait
  mainstay extension rollback argocd-operator --to-revision 2`,
		Args:              terminal.ExactArgs("NAME"),
		ValidArgsFunction: session.CompleteFirstArgument(listExtensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			rollback.Client, rollback.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			rollback.Cluster, rollback.Name, rollback.Wait = session.Config, args[0], wait.ToWait()
			rollback.Check = check.toPlanCheck(session, rollback.SystemNamespace)
			if safety != "" {
				rollback.CRDUpgradeSafety = (*olmv1.CRDUpgradeSafetyEnforcement)(&safety)
			}

			result, err := rollback.Run(cmd.Context())
			if result == nil {
				return err
			}

			return errors.Join(printRollbackResult(cmd, &out, result, err == nil && wait.Wait), err)
		},
	}

	cmd.Flags().Int64Var(&rollback.Revision, "to-revision", 0, "number of the revision to roll back to (default: the last complete one)")
	restrictToRevision(cmd, "to-revision", &rollback.Revision)
	cmd.Flags().StringVar(&rollback.SystemNamespace, "system-namespace", action.DefaultSystemNamespace, "namespace of catalogd and operator-controller")
	addCRDSafetyFlag(cmd, &safety)
	check.addFlags(cmd)
	wait.AddFlags(cmd, "the bundle is installed")
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// printRollbackResult prints what was changed and how to revert it.
func printRollbackResult(cmd *cobra.Command, out *terminal.Output, r *action.RollbackResult, installed bool) error {
	done := fmt.Sprintf("rollback to %s (revision %d) requested", r.To.Bundle, r.To.Revision)
	if !r.Changed {
		done = fmt.Sprintf("unchanged: %s is already requested", r.To.Bundle)
	}

	err := printChangedExtension(cmd, out, r.Extension, done, installed, nil)
	if r.Changed && out.Format == "" {
		fmt.Fprintf(cmd.OutOrStdout(), "spec.source.catalog.version is pinned to %s, and upgradeConstraintPolicy is SelfCertified: the extension is not updated automatically.\n"+
			"To follow the catalog again, run: %s\n", r.To.Version, r.Follow)
	}

	return err
}
