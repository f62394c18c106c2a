package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/action/updatestatus"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/node/pools"
)

// maxNodes is how many nodes of a pool are shown unless all are asked for.
const maxNodes = 10

// statusPrinter shows how far an update is.
type statusPrinter struct {
	io.Writer
	now     time.Time
	details string
}

func (p *statusPrinter) shows(what string) bool { return p.details == detailsAll || p.details == what }

func (p *statusPrinter) print(s *updatestatus.Status) error {
	p.refusal(s.Refused)
	if !s.Updating {
		fmt.Fprintln(p, "The cluster is not updating.")
		return nil
	}

	p.controlPlane(s.ControlPlane)
	for _, part := range []func(*updatestatus.Status) error{p.operators, p.controlPlaneNodes, p.workers, p.health} {
		if err := part(s); err != nil {
			return err
		}
	}

	return nil
}

// refusal shows a requested update that the operator does not carry out.
func (p *statusPrinter) refusal(r *updatestatus.Refusal) {
	if r == nil {
		return
	}
	fmt.Fprintf(p, "The requested update to %s was refused %s ago:\n\n  Reason: %s\n  Message: %s\n\n", r.Target, p.since(r.Since), r.Reason, clusterupdate.Indent(r.Message))
}

func (p *statusPrinter) controlPlane(c *updatestatus.ControlPlane) {
	fmt.Fprintln(p, "= Control Plane =")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(p, "%-17s%s\n", name+":", fmt.Sprintf(format, args...))
	}
	if c.Assessment == updatestatus.Completed {
		fmt.Fprintf(p, "Update to %s successfully completed at %s (duration: %s)\n", c.Version, c.Finished.UTC().Format(time.RFC3339), clusterDuration(c.Duration.Duration))
	} else {
		line("Assessment", "%s", c.Assessment)
		line("Target Version", "%s", c.Target)
		if len(c.Updating) > 0 {
			line("Updating", "%s", strings.Join(c.Updating, ", "))
		}

		line("Completion", "%d%% (%d operators updated, %d updating, %d waiting)", c.Percent(), c.Updated, c.InUpdate, c.Waiting)
		line("Duration", "%s (Est. Time Remaining: %s)", clusterDuration(c.Duration.Duration), remaining(c))
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
func remaining(c *updatestatus.ControlPlane) string {
	switch {
	case c.MultiArch:
		return "N/A for Multi-Architecture Migration"
	case c.Assessment == updatestatus.Stalled:
		return "N/A; estimate duration was " + clusterDuration(c.Estimate.Duration)
	case c.Remaining.Duration < 10*time.Minute:
		return "<10m"
	}

	return clusterDuration(c.Remaining.Duration)
}

func (p *statusPrinter) operators(s *updatestatus.Status) error {
	if !p.shows(detailsOperators) || len(s.Operators) == 0 {
		return nil
	}

	fmt.Fprintln(p, "\nUpdating Cluster Operators")
	var rows [][]string
	for _, o := range s.Operators {
		rows = append(rows, []string{o.Name, p.since(o.Since), cmp.Or(o.Reason, "-"), cmp.Or(oneLine(o.Message), "-")})
	}

	return terminal.PrintTable(p, []string{"NAME", "SINCE", "REASON", "MESSAGE"}, rows)
}

func (p *statusPrinter) controlPlaneNodes(s *updatestatus.Status) error {
	pool := s.ControlPlaneNodes
	switch {
	case pool == nil:
		return nil
	case pool.IsAt(s.ControlPlane.Version):
		fmt.Fprintf(p, "\nAll control plane nodes successfully updated to %s\n", s.ControlPlane.Version)
		return nil
	}

	fmt.Fprintln(p, "\nControl Plane Nodes")
	return p.nodes(pool)
}

func (p *statusPrinter) workers(s *updatestatus.Status) error {
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
		if err := p.nodes(pool); err != nil {
			return err
		}
	}

	return nil
}

// unknownEstimate stands for the time that a node takes when nobody can tell.
const unknownEstimate = "?"

// estimates are what the phases of a node take as a rule.
var estimates = map[pools.Phase]string{
	pools.PhasePending: unknownEstimate, pools.PhaseDraining: "+10m", pools.PhaseUpdating: "+5m", pools.PhaseRebooting: "+5m", pools.PhasePaused: "-", pools.PhaseUpdated: "-",
}

func (p *statusPrinter) nodes(pool *updatestatus.Pool) error {
	shown, omitted := pool.Nodes, []updatestatus.Node(nil)
	if !p.shows(detailsNodes) && len(shown) > maxNodes {
		shown, omitted = shown[:maxNodes], shown[maxNodes:]
	}

	var rows [][]string
	for _, n := range shown {
		message := strings.ReplaceAll(oneLine(n.Message), n.Name, "<node>")
		estimate := estimates[n.Phase]
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

func (p *statusPrinter) health(s *updatestatus.Status) error {
	insights := s.Health
	fmt.Fprintln(p, "\n= Update Health =")
	if p.shows(detailsHealth) && len(insights) > 0 {
		for i, insight := range insights {
			if i > 0 {
				fmt.Fprintln(p)
			}
			p.insight(insight)
		}
		return nil
	}

	rows := [][]string{{p.since(s.ControlPlane.Started), string(updatestatus.Info), "None", "Update is proceeding well"}}
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

func (p *statusPrinter) insight(i updatestatus.Insight) {
	fmt.Fprintf(p, "Message: %s\n", i.Message)
	for _, field := range []struct{ name, value string }{
		{"Since", p.since(i.Since)}, {"Level", string(i.Level)}, {"Impact", i.Impact}, {"Reference", i.Reference}, {"Resources", i.Resource},
		{"Description", clusterupdate.Indent(i.Description)},
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
