package migrate

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/migration"
	"github.com/mainstay-dev/mainstay/internal/action/migration/plan"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// writePlan writes a plan in the requested format.
func (f *subscriptionFlags) writePlan(cmd *cobra.Command, p *plan.Plan) error {
	if f.out.Format != "" {
		return terminal.PrintValue(cmd.OutOrStdout(), f.out.Format, p)
	}

	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "Subscription:  %s\nInstalled:     %s\n", p.Subscription, p.CSV)
	if p.Extension != nil {
		fmt.Fprintf(out, "Extension:     %s\n", p.Extension.Name)
	}

	writeFindings(out, p.Findings)
	if len(p.Objects) == 0 {
		return nil
	}

	fmt.Fprintln(out)
	rows := make([][]string, 0, len(p.Objects))
	for _, object := range p.Objects {
		rows = append(rows, []string{string(object.Action), object.Kind, object.Namespace, object.Name})
	}
	return terminal.PrintTable(out, []string{"ACTION", "KIND", "NAMESPACE", "NAME"}, rows)
}

// writeFindings writes each finding with what to do.
func writeFindings(out io.Writer, findings []plan.Finding) {
	for _, finding := range findings {
		title := string(finding.Severity)
		switch {
		case finding.Acknowledged:
			title = "Acknowledged"
		case finding.Severity == plan.SeverityAcknowledge:
			title = "Question"
		}

		fmt.Fprintf(out, "\n%s (%s): %s: %s\n", title, finding.Check, finding.Object, joinLines(finding.Message))
		if finding.Remedy != "" {
			fmt.Fprintf(out, "  What to do: %s\n", joinLines(finding.Remedy))
		}
		if finding.Severity == plan.SeverityAcknowledge && !finding.Acknowledged {
			fmt.Fprintf(out, "  Accept it with: --acknowledge %s\n", finding.Acknowledge)
		}
	}
}

// joinLines returns a text on one line.
func joinLines(text string) string { return strings.Join(strings.Fields(text), " ") }

// writeFleet writes the operators of a fleet in the requested format.
func (f *subscriptionFlags) writeFleet(cmd *cobra.Command, members []migration.Member) error {
	if f.out.Format != "" {
		return terminal.PrintValue(cmd.OutOrStdout(), f.out.Format, members)
	}

	rows := make([][]string, 0, len(members))
	for _, member := range members {
		result := "-"
		switch {
		case member.Error != "":
			result = "failed: " + joinLines(member.Error)
		case member.Migrated:
			result = "migrated"
		}
		detail := joinLines(member.Detail)
		if detail == "" {
			detail = "-"
		}
		rows = append(rows, []string{string(member.State), member.Subscription, result, detail})
	}

	return terminal.PrintTable(cmd.OutOrStdout(), []string{"STATE", "SUBSCRIPTION", "RESULT", "DETAIL"}, rows)
}
