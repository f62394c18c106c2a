package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/diagnosis"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
)

func (a *app) extensionHistoryCommand() *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "List the revisions that an extension has had",
		Long: `List the revisions that an extension has had, oldest first: those that own objects, and
up to five before them.

A revision is Active when it was rolled out completely and owns objects, RollingOut while it
is on its way, Archived when another one replaced it, and Failed when it never was complete:
it was given up, or it does not go on.`,
		Example: `  mainstay extension history argocd-operator
  mainstay extension history argocd-operator -o wide`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			history, err := (&action.ExtensionHistory{Client: c, Name: args[0]}).Run(cmd.Context())
			if err != nil {
				return err
			}

			return a.printHistory(cmd, &out, history)
		},
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatWide, terminal.FormatName)
	return cmd
}

func (a *app) printHistory(cmd *cobra.Command, out *terminal.Output, history []action.RevisionRecord) error {
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
		row := []string{strconv.FormatInt(r.Revision, 10), r.Bundle, r.Version, string(r.State), a.age(&r.Created)}
		if wide {
			row = append(row, a.age(r.Completed), r.Name, r.Image)
		}
		rows = append(rows, append(row, oneLine(r.Message)))
	}

	return terminal.PrintTable(cmd.OutOrStdout(), headers, rows)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func (a *app) extensionDiffCommand() *cobra.Command {
	var (
		diff action.ExtensionDiff
		out  terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "diff NAME",
		Short: "Compare the objects of two revisions of an extension",
		Long: `Compare the objects of two revisions of an extension, the two newest if no others are
named: which are added, changed and removed, each as a unified diff.

What is compared is what the revisions hold, as it was rendered from their bundles. What others
have set on the objects in the cluster is not in it, and the values of Secrets are not shown.`,
		Example: `  mainstay extension diff argocd-operator
  mainstay extension diff argocd-operator --from 1 --to 3`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
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

			printDiff(cmd.OutOrStdout(), result)
			return nil
		},
	}

	cmd.Flags().Int64Var(&diff.From, "from", 0, "number of the first revision (default: the one before the second)")
	cmd.Flags().Int64Var(&diff.To, "to", 0, "number of the second revision (default: the newest)")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// printDiff writes a diff that a person and the program patch can read.
func printDiff(w io.Writer, d *action.RevisionDiff) {
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

func (a *app) extensionExplainCommand() *cobra.Command {
	var out terminal.Output
	cmd := &cobra.Command{
		Use:   "explain NAME",
		Short: "Tell why an extension is as it is, and what to do",
		Long: `Tell in sentences why an extension is as it is, and what to do: from what the controllers
report, the objects that are awaited, their pods and events, and the catalogs.`,
		Example: `  mainstay extension explain argocd-operator
  mainstay extension explain argocd-operator -o json`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
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

			printExplanation(cmd.OutOrStdout(), explanation)
			return nil
		},
	}

	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

func printExplanation(w io.Writer, e *diagnosis.Explanation) {
	fmt.Fprintf(w, "clusterextension/%s: %s\n", e.Name, e.Summary)
	if len(e.Why) > 0 {
		fmt.Fprintln(w, "\nWhy:")
		printReasons(w, e.Why, "  ")
	}

	if len(e.Do) > 0 {
		fmt.Fprintln(w, "\nWhat to do:")
		for _, advice := range e.Do {
			fmt.Fprintln(w, "  - "+advice)
		}
	}
}

func printReasons(w io.Writer, reasons []diagnosis.Reason, indent string) {
	for _, reason := range reasons {
		fmt.Fprintln(w, indent+"- "+reason.Text)
		printReasons(w, reason.Because, indent+"  ")
	}
}

func (a *app) extensionRollbackCommand() *cobra.Command {
	var (
		rollback action.ExtensionRollback
		safety   string
		check    checkFlags
		wait     waitFlags
		out      terminal.Output
	)

	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Go back to a bundle that an extension had before",
		Long: `Go back to the bundle of an earlier revision: the last one that was rolled out completely,
if no other is named.

The extension is asked for that bundle: its version is pinned, and upgradeConstraintPolicy is set
to SelfCertified. So no update is made by itself until the pin is taken away; the command that does
so is printed. Configuration is not changed. An update that never became complete is given up, and
what it had taken over goes back to the revision that is still in place.

The operator-controller plans the change first. When something stands against the plan, such as a
change of a CRD that can lose data, nothing is changed and the command fails at once.
--crd-upgrade-safety None accepts such changes, and --check=false does not plan.`,
		Example: `  mainstay extension rollback argocd-operator --wait
  mainstay extension rollback argocd-operator --to-revision 2`,
		Args:              terminal.Takes("NAME"),
		ValidArgsFunction: a.completeNames(extensionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			rollback.Client, rollback.Progress = c, terminal.NewProgress(cmd.ErrOrStderr())
			rollback.Cluster, rollback.Name, rollback.Wait = a.kube.Config, args[0], wait.value()
			rollback.Check = check.value(a, rollback.SystemNamespace)
			if safety != "" {
				rollback.CRDUpgradeSafety = (*olmv1.CRDUpgradeSafetyEnforcement)(&safety)
			}

			result, err := rollback.Run(cmd.Context())
			if result == nil {
				return err
			}

			return errors.Join(printRolledBack(cmd, &out, result, err == nil && wait.wait), err)
		},
	}

	cmd.Flags().Int64Var(&rollback.Revision, "to-revision", 0, "number of the revision whose bundle is wanted (default: the last good one)")
	cmd.Flags().StringVar(&rollback.SystemNamespace, "system-namespace", action.DefaultSystemNamespace, "namespace of catalogd and operator-controller on the cluster")
	bindCRDSafety(cmd, &safety)
	check.bind(cmd)
	wait.bind(cmd, "the bundle is installed")
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML, terminal.FormatName)

	return cmd
}

// printRolledBack says what was changed, and how to take it back.
func printRolledBack(cmd *cobra.Command, out *terminal.Output, r *action.RolledBack, installed bool) error {
	done := fmt.Sprintf("asked for %s (revision %d)", r.To.Bundle, r.To.Revision)
	if !r.Changed {
		done = fmt.Sprintf("unchanged: it asks for %s already", r.To.Bundle)
	}

	err := finishExtension(cmd, out, r.Extension, done, installed, nil)
	if r.Changed && out.Format == "" {
		fmt.Fprintf(cmd.OutOrStdout(), "spec.source.catalog.version is pinned to %s, and upgradeConstraintPolicy is SelfCertified: no update is made by itself.\n"+
			"To follow the catalog again as before: %s\n", r.To.Version, r.Follow)
	}

	return err
}
