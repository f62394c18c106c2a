package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/update/alerts"
	"github.com/mainstay-dev/mainstay/internal/action/update/updatestatus"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// Values of --details.
const (
	detailsNone      = "none"
	detailsAll       = "all"
	detailsNodes     = "nodes"
	detailsHealth    = "health"
	detailsOperators = "operators"
)

var detailLevels = []string{detailsNone, detailsAll, detailsNodes, detailsHealth, detailsOperators}

func newStatusCommand(session *kube.Session) *cobra.Command {
	var (
		details = detailsNone
		source  alerts.Source
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the progress of a cluster update",
		Long: `Show the progress of a cluster update: the cluster operators that are updating, the estimated time
remaining, the state of the nodes, and health problems that need attention.

The time remaining is estimated from the last completed update and, after the first minutes, from
the progress of the current one.

With --alerts, the command also checks firing alerts that matter during an update. The value is the
URL of a Prometheus server, a file with the response of its /api/v1/alerts endpoint, or - for
standard input.`,
		Example: `  mainstay cluster status
  mainstay cluster status --details=health
  mainstay cluster status --alerts http://localhost:9090`,
		Args: terminal.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			source.In = cmd.InOrStdin()
			status, err := (&updatestatus.Reader{Client: c, Alerts: source, Now: session.Now()}).Run(cmd.Context())
			if err != nil {
				return err
			}
			if out.Format != "" {
				return terminal.PrintValue(cmd.OutOrStdout(), out.Format, status)
			}

			return (&statusPrinter{cmd.OutOrStdout(), session.Now(), details}).printStatus(status)
		},
	}

	cmd.Flags().StringVar(&details, "details", details, "sections to show in full: "+strings.Join(detailLevels, "|"))
	terminal.RestrictFlag(cmd, "details", "one of "+strings.Join(detailLevels, ", "), func() bool { return slices.Contains(detailLevels, details) })
	_ = cmd.RegisterFlagCompletionFunc("details", cobra.FixedCompletions(detailLevels, cobra.ShellCompDirectiveNoFileComp))
	addAlertsFlag(cmd, &source)
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// addAlertsFlag adds the flag --alerts, the source of alerts.
func addAlertsFlag(cmd *cobra.Command, source *alerts.Source) {
	cmd.Flags().StringVar(&source.Location, "alerts", "", "source of alerts: URL of a Prometheus server, file with the response of /api/v1/alerts, or - for standard input (default: alerts are not checked)")
}

// day is the unit of long durations.
const day = 24 * time.Hour

// formatDuration formats a duration: to the second below ten minutes, to the minute below a day, and
// in days and hours above.
func formatDuration(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= 10*time.Minute {
		d = d.Round(time.Minute)
	}

	if d >= day {
		d = d.Round(time.Hour)
		text := fmt.Sprintf("%dd", d/day)
		if hours := d % day / time.Hour; hours > 0 {
			text += fmt.Sprintf("%dh", hours)
		}
		return text
	}

	text := d.String()
	for _, zero := range []struct{ after, part string }{{"m", "0s"}, {"h", "0m"}} {
		if strings.HasSuffix(text, zero.after+zero.part) {
			text = strings.TrimSuffix(text, zero.part)
		}
	}

	return text
}
