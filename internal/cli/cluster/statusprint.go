package cluster

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/action/update/updatestatus"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// maxListedNodes is the number of nodes listed for a pool unless all are requested.
const maxListedNodes = 10

// statusPrinter prints the progress of an update.
type statusPrinter struct {
	io.Writer
	now     time.Time
	details string
}

func (p *statusPrinter) showsDetail(what string) bool {
	return p.details == detailsAll || p.details == what
}

func (p *statusPrinter) printStatus(s *updatestatus.Status) error {
	p.printRefusal(s.Refused)
	if !s.Updating {
		fmt.Fprintln(p, "The cluster is not updating.")
		return nil
	}

	p.printControlPlane(s.ControlPlane)
	for _, part := range []func(*updatestatus.Status) error{p.printUpdatingOperators, p.printControlPlaneNodes, p.printWorkerPools, p.printUpdateHealth} {
		if err := part(s); err != nil {
			return err
		}
	}

	return nil
}

// printRefusal prints a requested update that the operator refused.
func (p *statusPrinter) printRefusal(r *updatestatus.UpdateRefusal) {
	if r == nil {
		return
	}
	fmt.Fprintf(p, "The requested update to %s was refused %s ago:\n\n  Reason: %s\n  Message: %s\n\n", r.Target, p.formatTimeSince(r.Since), r.Reason, clusterupdate.Indent(r.Message))
}

func (p *statusPrinter) printControlPlane(c *updatestatus.ControlPlane) {
	fmt.Fprintln(p, "= Control Plane =")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p, "%-17s%s\n", name+":", fmt.Sprintf(format, args...))
	}
	if c.Assessment == updatestatus.Completed {
		fmt.Fprintf(p, "Update to %s successfully completed at %s (duration: %s)\n", c.Version, c.Finished.UTC().Format(time.RFC3339), formatDuration(c.Duration.Duration))
	} else {
		line("Assessment", "%s", c.Assessment)
		line("Target Version", "%s", c.Target)
		if len(c.Updating) > 0 {
			line("Updating", "%s", strings.Join(c.Updating, ", "))
		}

		line("Completion", "%d%% (%d operators updated, %d updating, %d waiting)", c.Percent(), c.Updated, c.InUpdate, c.Waiting)
		line("Duration", "%s (Est. Time Remaining: %s)", formatDuration(c.Duration.Duration), formatRemainingTime(c))
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

// formatRemainingTime returns the estimated time remaining of an update.
func formatRemainingTime(c *updatestatus.ControlPlane) string {
	switch c.Outlook() {
	case updatestatus.OutlookUnknown:
		return "N/A for Multi-Architecture Migration"
	case updatestatus.OutlookExceeded:
		return "N/A; estimate duration was " + formatDuration(c.Estimate.Duration)
	case updatestatus.OutlookSoon:
		return "<10m"
	default:
		return formatDuration(c.Remaining.Duration)
	}
}

func (p *statusPrinter) printUpdatingOperators(s *updatestatus.Status) error {
	if !p.showsDetail(detailsOperators) || len(s.Operators) == 0 {
		return nil
	}

	fmt.Fprintln(p, "\nUpdating Cluster Operators")
	var rows [][]string
	for _, o := range s.Operators {
		rows = append(rows, []string{o.Name, p.formatTimeSince(o.Since), cmp.Or(o.Reason, "-"), cmp.Or(terminal.CollapseWhitespace(o.Message), "-")})
	}

	return terminal.PrintTable(p, []string{"NAME", "SINCE", "REASON", "MESSAGE"}, rows)
}

func (p *statusPrinter) printControlPlaneNodes(s *updatestatus.Status) error {
	pool := s.ControlPlaneNodes
	switch {
	case pool == nil:
		return nil
	case pool.IsAt(s.ControlPlane.Version):
		fmt.Fprintf(p, "\nAll control plane nodes successfully updated to %s\n", s.ControlPlane.Version)
		return nil
	}

	fmt.Fprintln(p, "\nControl Plane Nodes")
	return p.printPoolNodes(pool)
}

func (p *statusPrinter) printWorkerPools(s *updatestatus.Status) error {
	if len(s.WorkerPools) == 0 {
		return nil
	}

	fmt.Fprint(p, "\n= Worker Upgrade =\n\n")
	var rows [][]string
	for _, pool := range s.WorkerPools {
		state := fmt.Sprintf("%d Available, %d Progressing, %d Draining", pool.Available, pool.Progressing, pool.Draining)
		if pool.Excluded > 0 {
			state += fmt.Sprintf(", %d Excluded", pool.Excluded)
		}
		if pool.Degraded > 0 {
			state += fmt.Sprintf(", %d Degraded", pool.Degraded)
		}
		rows = append(rows, []string{pool.Name, string(pool.Assessment), fmt.Sprintf("%d%% (%d/%d)", pool.Percent(), pool.Completed, pool.Total), state})
	}

	if err := terminal.PrintTable(p, []string{"WORKER POOL", "ASSESSMENT", "COMPLETION", "STATUS"}, rows); err != nil {
		return err
	}

	for i := range s.WorkerPools {
		pool := &s.WorkerPools[i]
		fmt.Fprintf(p, "\nWorker Pool Nodes: %s\n", pool.Name)
		if err := p.printPoolNodes(pool); err != nil {
			return err
		}
	}

	return nil
}

// unknownEstimate is printed for a node whose remaining time cannot be estimated.
const unknownEstimate = "?"

// phaseEstimates are the usual durations of the phases of a node update.
var phaseEstimates = map[pools.Phase]string{
	pools.PhasePending: unknownEstimate, pools.PhaseDraining: "+10m", pools.PhaseUpdating: "+5m", pools.PhaseRebooting: "+5m", pools.PhasePaused: "-", pools.PhaseUpdated: "-",
}

func (p *statusPrinter) printPoolNodes(pool *updatestatus.Pool) error {
	shown, omitted := pool.Nodes, []updatestatus.Node(nil)
	if !p.showsDetail(detailsNodes) && len(shown) > maxListedNodes {
		shown, omitted = shown[:maxListedNodes], shown[maxListedNodes:]
	}

	var rows [][]string
	for _, n := range shown {
		message := strings.ReplaceAll(terminal.CollapseWhitespace(n.Message), n.Name, "<node>")
		estimate := phaseEstimates[n.Phase]
		if n.Assessment == pools.AssessedDegraded {
			estimate = unknownEstimate
		}
		rows = append(rows, []string{n.Name, string(n.Assessment), string(n.Phase), cmp.Or(n.Version, "?"), estimate, message})
	}

	if err := terminal.PrintTable(p, []string{"NAME", "ASSESSMENT", "PHASE", "VERSION", "EST", "MESSAGE"}, rows); err != nil {
		return err
	}

	if len(omitted) > 0 {
		s := updatestatus.Summarize(omitted)
		fmt.Fprintf(p, "...\nOmitted additional %d Total, %d Completed, %d Available, %d Progressing, %d Outdated, %d Draining, %d Excluded, and %d Degraded nodes.\n",
			s.Total, s.Completed, s.Available, s.Progressing, s.Outdated, s.Draining, s.Excluded, s.Degraded)
		fmt.Fprintln(p, "Pass along --details=nodes to see all information.")
	}

	return nil
}

func (p *statusPrinter) printUpdateHealth(s *updatestatus.Status) error {
	insights := s.Health
	fmt.Fprintln(p, "\n= Update Health =")
	if p.showsDetail(detailsHealth) && len(insights) > 0 {
		for i, insight := range insights {
			if i > 0 {
				fmt.Fprintln(p)
			}
			p.printInsightDetails(insight)
		}
		return nil
	}

	rows := [][]string{{p.formatTimeSince(s.ControlPlane.Started), string(updatestatus.Info), "None", "Update is proceeding well"}}
	if len(insights) > 0 {
		rows = nil
		for _, insight := range insights {
			rows = append(rows, []string{p.formatTimeSince(insight.Since), string(insight.Level), insight.Impact, terminal.CollapseWhitespace(insight.Message)})
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

func (p *statusPrinter) printInsightDetails(i updatestatus.Insight) {
	fmt.Fprintf(p, "Message: %s\n", i.Message)
	for _, field := range []struct{ name, value string }{
		{"Since", p.formatTimeSince(i.Since)}, {"Level", string(i.Level)}, {"Impact", i.Impact}, {"Reference", i.Reference}, {"Resources", i.Resource},
		{"Description", clusterupdate.Indent(i.Description)},
	} {
		if field.value != "" {
			fmt.Fprintf(p, "  %-13s%s\n", field.name+":", field.value)
		}
	}
}

func (p *statusPrinter) formatTimeSince(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return formatDuration(p.now.Sub(t))
}
