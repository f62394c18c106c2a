package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstay-dev/mainstay/internal/action/alerts"
	"github.com/mainstay-dev/mainstay/internal/action/updatestatus"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// What --details takes.
const (
	detailsNone      = "none"
	detailsAll       = "all"
	detailsNodes     = "nodes"
	detailsHealth    = "health"
	detailsOperators = "operators"
)

var detailLevels = []string{detailsNone, detailsAll, detailsNodes, detailsHealth, detailsOperators}

func (a *app) clusterStatusCommand() *cobra.Command {
	var (
		details = detailsNone
		source  alerts.Source
		out     terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell how far an update of the cluster is",
		Long: `Tell how far an update of the cluster is: which operators it waits for, how long it will
take, how far the nodes are, and what a person should look at.

The time that is left is estimated from the last complete update, and from the progress of this
one after its first minutes.

With --alerts, alerts that matter while a cluster is updated are looked at too. It takes the URL
of a Prometheus, a file with what that answers at /api/v1/alerts, or - for standard input.`,
		Example: `  mainstay cluster status
  mainstay cluster status --details=health
  mainstay cluster status --alerts http://localhost:9090`,
		Args: terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(detailLevels, details) {
				return &terminal.UsageError{Err: fmt.Errorf("--details must be one of %s", strings.Join(detailLevels, ", "))}
			}

			c, err := a.kube.client(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			source.In = cmd.InOrStdin()
			status, err := (&updatestatus.Reader{Client: c, Alerts: source, Now: a.now()}).Run(cmd.Context())
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
	bindAlerts(cmd, &source)
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// bindAlerts adds the flag that says where alerts are read.
func bindAlerts(cmd *cobra.Command, source *alerts.Source) {
	cmd.Flags().StringVar(&source.Location, "alerts", "", "where to read alerts: URL of a Prometheus, file with its /api/v1/alerts, or - (default: alerts are not looked at)")
}

// day is the unit of long durations.
const day = 24 * time.Hour

// clusterDuration shows a time that has passed: to the second below ten minutes, to the minute below
// a day, and in days and hours above.
func clusterDuration(d time.Duration) string {
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
