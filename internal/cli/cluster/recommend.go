package cluster

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/kube"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

func newRecommendCommand(session *kube.Session) *cobra.Command {
	var (
		recommend clusterupdate.Recommend
		printer   recommendPrinter
		out       terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "Show the available updates of the cluster and their known issues",
		Long: `Show the available updates of the cluster and the known issues of each: issues of the release that
apply to this cluster, and issues that the cluster reports.

With --version, the command shows a single update and fails if an issue applies that --accept does
not name. Scripts can use this as a check before they request the update.

A cluster that reports Upgradeable=False refuses every update to another minor version. Each such
update has the issue UpgradeableFalse.

With --alerts, the command also checks firing alerts that matter before an update. The value is the
URL of a Prometheus server, a file with the response of its /api/v1/alerts endpoint, or - for
standard input.`,
		Example: `  mainstay cluster recommend
  mainstay cluster recommend --show-outdated-releases
  mainstay cluster recommend --version 1.4.2 --accept SlowDisks
  mainstay cluster recommend --alerts http://localhost:9090`,
		Args: terminal.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := recommend.Validate()
			if printer.quiet && recommend.Version == "" {
				err = errors.New("--quiet requires --version: it prints the names of the issues that apply to that version")
			}
			if err != nil {
				return &terminal.UsageError{Err: err}
			}

			c, err := session.NewClient(cmd.ErrOrStderr())
			if err != nil {
				return err
			}

			recommend.Client, recommend.Alerts.In = c, cmd.InOrStdin()
			found, err := recommend.Run(cmd.Context())
			if found == nil {
				return err
			}

			printer.Writer = cmd.OutOrStdout()
			if out.Format != "" && err == nil {
				err = terminal.PrintValue(printer, out.Format, found)
			} else if out.Format == "" {
				printer.printRecommendation(cmd.ErrOrStderr(), found, recommend.Version, err == nil)
			}

			if err == nil && len(found.Unaccepted) > 0 {
				err = fmt.Errorf("issues that apply to this cluster but which were not included in --accept: %s", strings.Join(found.Unaccepted, ","))
			}

			return err
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&recommend.Version, "version", "", "show only the update to this version")
	flags.StringSliceVar(&recommend.Accept, "accept", nil, "names of accepted issues, separated by commas")
	flags.BoolVar(&printer.showOutdated, "show-outdated-releases", false, "show all updates instead of the two newest of each minor version")
	flags.BoolVar(&printer.quiet, "quiet", false, "with --version, print only the names of issues that are not accepted")
	addAlertsFlag(cmd, &recommend.Alerts)
	_ = cmd.RegisterFlagCompletionFunc("version", session.CompleteFlagValue(listAllVersions))
	_ = cmd.RegisterFlagCompletionFunc("accept", completeLastListItem(session.CompleteFlagValue(listIssueNames)))
	out.AddFlag(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// maxListedUnknownAlerts is the number of alerts without a check that are listed by name. The
// others are counted.
const maxListedUnknownAlerts = 20

// maxUpdatesPerMinor is the number of updates shown for a minor version unless all are requested.
const maxUpdatesPerMinor = 2

// recommendPrinter prints the available updates with their known issues.
type recommendPrinter struct {
	io.Writer
	showOutdated, quiet bool
}

// printRecommendation prints a recommendation. If version is set and found, it prints that update only.
func (p *recommendPrinter) printRecommendation(problems io.Writer, r *clusterupdate.Recommendation, version string, isFound bool) {
	if p.quiet {
		for _, name := range r.Unaccepted {
			fmt.Fprintln(p, name)
		}
		return
	}

	p.printClusterConditions(r)
	if !r.AlertsChecked {
		fmt.Fprintln(problems, "info: Alerts were not checked. Use --alerts to check the alerts of a Prometheus server.")
	}

	if unknown := r.UnknownAlerts; len(unknown) > 0 {
		fmt.Fprintf(problems, "info: Other alerts are firing that are not evaluated for updates: %s\n",
			excerpt.Join(unknown, maxListedUnknownAlerts, ", ", ", and "))
	}

	failed := printRetrievalFailure(problems, r.ClusterVersion, len(r.Minors) > 0)
	switch {
	case version != "" && isFound:
		p.printRequestedUpdate(&r.Minors[0].Updates[0])
	case version != "":
	case len(r.Minors) == 0 && !failed:
		fmt.Fprintln(p, noUpdatesMessage)
	default:
		for i := range r.Minors {
			p.printMinorVersion(&r.Minors[i])
		}
	}
}

// printClusterConditions prints the conditions of the cluster that matter for an update.
func (p *recommendPrinter) printClusterConditions(r *clusterupdate.Recommendation) {
	cv := r.ClusterVersion
	if c := configv1.FindCondition(cv.Status.Conditions, configv1.ClusterVersionFailing); c != nil && c.Status != metav1.ConditionFalse {
		printCondition(p, c)
	}
	if c := configv1.FindCondition(cv.Status.Conditions, configv1.OperatorProgressing); c != nil && c.Status == metav1.ConditionTrue {
		fmt.Fprint(p, "info: An update is in progress.  You may wish to let this update complete before requesting a new update.\n\n")
	}
	if len(r.Passed) > 0 {
		fmt.Fprintf(p, "The following conditions found no cause for concern in updating this cluster to later releases: %s\n\n", strings.Join(r.Passed, ", "))
	}

	if len(r.Concerns) > 0 {
		var names []string
		for _, c := range r.Concerns {
			names = append(names, c.Name)
		}
		fmt.Fprintf(p, "The following conditions found cause for concern in updating this cluster to later releases: %s\n\n", strings.Join(names, ", "))
	}

	for _, c := range r.Concerns {
		fmt.Fprintf(p, "%s=False:\n\n  Reason: %s\n  Message: %s\n\n", c.Name, c.Reason, clusterupdate.Indent(c.Message))
	}

	if cv.Spec.Channel != "" {
		printUpdateChannel(p, "Upstream update service", cv)
	}
}

// printRequestedUpdate prints the update that --version selects.
func (p *recommendPrinter) printRequestedUpdate(o *clusterupdate.Option) {
	if len(o.Issues) == 0 {
		fmt.Fprintf(p, "\nUpdate to %s has %s.\n", o.Release.Version, formatNoIssues(o))
		p.printRelease(o, "")
		return
	}

	fmt.Fprintf(p, "\nUpdate to %s %s:\n", o.Release.Version, formatRecommendedStatus(o))
	p.printRelease(o, "")
	p.printReasonAndMessage(o, "")
}

// formatRecommendedStatus returns the condition Recommended of an update with issues.
func formatRecommendedStatus(o *clusterupdate.Option) string {
	return fmt.Sprintf("%s=%s", configv1.ConditionalUpdateRecommended, o.Recommended)
}

// printRelease prints the image and the URL of a release.
func (p *recommendPrinter) printRelease(o *clusterupdate.Option, indent string) {
	fmt.Fprintf(p, "%sImage: %s\n", indent, o.Release.Image)
	if o.Release.URL != "" {
		fmt.Fprintf(p, "%sRelease URL: %s\n", indent, o.Release.URL)
	}
}

func (p *recommendPrinter) printReasonAndMessage(o *clusterupdate.Option, indent string) {
	fmt.Fprintf(p, "%sReason: %s\n%sMessage: %s\n", indent, o.Reason, indent, clusterupdate.Indent(o.Message))
}

// formatNoIssues returns the text for an update that has no issues except accepted ones.
func formatNoIssues(o *clusterupdate.Option) string {
	const text = "no known issues relevant to this cluster"
	if len(o.Accepted) > 0 {
		return text + " other than the accepted " + strings.Join(o.Accepted, ",")
	}
	return text
}

// printMinorVersion prints the updates to a minor version: updates without issues in a table, the
// others with reason and message. If all releases are shown, the table has the reasons instead.
func (p *recommendPrinter) printMinorVersion(m *clusterupdate.Minor) {
	fmt.Fprintf(p, "\nUpdates to %s:\n", m.Version)
	shown := m.Updates
	if !p.showOutdated {
		shown = shown[:min(len(shown), maxUpdatesPerMinor)]
	}

	var rows [][2]string
	flush := func() {
		if len(rows) > 0 {
			fmt.Fprintln(p)
			printVersionTable(p, "ISSUES", rows)
		}
		rows = nil
	}

	for i := range shown {
		o := &shown[i]
		switch {
		case len(o.Issues) == 0:
			rows = append(rows, [2]string{o.Release.Version, formatNoIssues(o)})
		case p.showOutdated:
			rows = append(rows, [2]string{o.Release.Version, o.Reason})
		default:
			flush()
			fmt.Fprintf(p, "\n  Version: %s\n", o.Release.Version)
			p.printRelease(o, "  ")
			p.printReasonAndMessage(o, "  ")
		}
	}

	flush()
	if more := len(m.Updates) - len(shown); more > 0 {
		fmt.Fprintf(p, "\nAnd %d older %s updates you can see with '--show-outdated-releases' or '--version VERSION'.\n", more, m.Version)
	}
}
