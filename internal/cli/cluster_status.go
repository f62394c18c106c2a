package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// detailLevels are what --details takes.
var detailLevels = []string{"none", "all", "nodes", "health", "operators"}

func (a *app) clusterStatusCommand() *cobra.Command {
	var (
		details = "none"
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell how far an update of the cluster is",
		Long: `Tell how far an update of the cluster is: which operators it waits for, how long it will
take, and what a person should look at.

The time that is left is estimated from the last complete update, and from the progress of this
one after its first minutes.`,
		Example: `  mainstay cluster status
  mainstay cluster status --details=health`,
		Args: terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(detailLevels, details) {
				return &terminal.UsageError{Err: fmt.Errorf("--details must be one of %s", strings.Join(detailLevels, ", "))}
			}
			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			status, err := (&clusterupdate.StatusReader{Client: c, Now: a.now()}).Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, status)
			}
			return (&statusPrinter{cmd.OutOrStdout(), a.now(), details}).print(status)
		},
	}
	cmd.Flags().StringVar(&details, "details", details, "what to show in full: "+strings.Join(detailLevels, "|"))
	_ = cmd.RegisterFlagCompletionFunc("details", cobra.FixedCompletions(detailLevels, cobra.ShellCompDirectiveNoFileComp))
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)
	return cmd
}

// statusPrinter shows how far an update is.
type statusPrinter struct {
	io.Writer
	now     time.Time
	details string
}

func (p *statusPrinter) shows(what string) bool { return p.details == "all" || p.details == what }

func (p *statusPrinter) print(s *clusterupdate.Status) error {
	if !s.Updating {
		fmt.Fprintln(p, "The cluster is not updating.")
		return nil
	}
	p.controlPlane(s.ControlPlane)
	if p.shows("operators") && len(s.Operators) > 0 {
		fmt.Fprintln(p, "\nUpdating Cluster Operators")
		var rows [][]string
		for _, o := range s.Operators {
			rows = append(rows, []string{o.Name, p.since(o.Since), cmp.Or(o.Reason, "-"), cmp.Or(oneLine(o.Message), "-")})
		}
		if err := terminal.PrintTable(p, []string{"NAME", "SINCE", "REASON", "MESSAGE"}, rows); err != nil {
			return err
		}
	}
	return p.health(s.Health, s.ControlPlane.Started)
}

func (p *statusPrinter) controlPlane(c *clusterupdate.ControlPlane) {
	fmt.Fprintln(p, "= Control Plane =")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p, "%-17s%s\n", name+":", fmt.Sprintf(format, args...))
	}
	if c.Assessment == clusterupdate.Completed {
		fmt.Fprintf(p, "Update to %s successfully completed at %s (duration: %s)\n", c.Target, c.Finished.UTC().Format(time.RFC3339), clusterDuration(c.Duration))
	} else {
		line("Assessment", "%s", c.Assessment)
		line("Target Version", "%s", c.Target)
		if len(c.Updating) > 0 {
			line("Updating", "%s", strings.Join(c.Updating, ", "))
		}
		line("Completion", "%d%% (%d operators updated, %d updating, %d waiting)", c.Percent(), c.Updated, c.InUpdate, c.Waiting)
		line("Duration", "%s (Est. Time Remaining: %s)", clusterDuration(c.Duration), remaining(c))
	}
	health := fmt.Sprintf("%d Healthy", c.Operators()-c.Unavailable-c.Degraded)
	if c.Unavailable > 0 {
		health += fmt.Sprintf(", %d Unavailable", c.Unavailable)
	}
	if c.Degraded > 0 {
		health += fmt.Sprintf(", %d Available but degraded", c.Degraded)
	}
	line("Operator Health", "%s", health)
}

// remaining is what is left of an update, as people are told.
func remaining(c *clusterupdate.ControlPlane) string {
	switch {
	case c.MultiArch:
		return "N/A for Multi-Architecture Migration"
	case c.Assessment == clusterupdate.Stalled:
		return "N/A; estimate duration was " + clusterDuration(c.Estimate)
	case c.Remaining < 10*time.Minute:
		return "<10m"
	}
	return clusterDuration(c.Remaining)
}

func (p *statusPrinter) health(insights []clusterupdate.Insight, started time.Time) error {
	fmt.Fprintln(p, "\n= Update Health =")
	if p.shows("health") && len(insights) > 0 {
		for i, insight := range insights {
			if i > 0 {
				fmt.Fprintln(p)
			}
			p.insight(insight)
		}
		return nil
	}
	rows := [][]string{{p.since(started), string(clusterupdate.Info), "None", "Update is proceeding well"}}
	if len(insights) > 0 {
		rows = nil
		for _, insight := range insights {
			rows = append(rows, []string{p.since(insight.Since), string(insight.Level), insight.Impact, oneLine(insight.Message)})
		}
	}
	if err := terminal.PrintTable(p, []string{"SINCE", "LEVEL", "IMPACT", "MESSAGE"}, rows); err != nil {
		return err
	}
	if len(insights) > 0 {
		fmt.Fprintln(p, "\nRun with --details=health for additional description and links to related online documentation")
	}
	return nil
}

func (p *statusPrinter) insight(i clusterupdate.Insight) {
	fmt.Fprintf(p, "Message: %s\n", i.Message)
	for _, field := range []struct{ name, value string }{
		{"Since", p.since(i.Since)}, {"Level", string(i.Level)}, {"Impact", i.Impact}, {"Resources", i.Resource}, {"Description", clusterupdate.Indent(i.Description)},
	} {
		if field.value != "" {
			fmt.Fprintf(p, "  %-13s%s\n", field.name+":", field.value)
		}
	}
}

func (p *statusPrinter) since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return clusterDuration(p.now.Sub(t))
}

// clusterDuration shows a time that has passed: to the second below ten minutes, and to the
// minute above.
func clusterDuration(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= 10*time.Minute {
		d = d.Round(time.Minute)
	}
	text := d.String()
	for _, zero := range []struct{ after, part string }{{"m", "0s"}, {"h", "0m"}} {
		if strings.HasSuffix(text, zero.after+zero.part) {
			text = strings.TrimSuffix(text, zero.part)
		}
	}
	return text
}
