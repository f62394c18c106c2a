package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func (a *app) clusterRecommendCommand() *cobra.Command {
	var (
		recommend clusterupdate.Recommend
		printer   recommendPrinter
		out       terminal.Output
	)
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "Tell which updates of the cluster are worth choosing",
		Long: `Tell which updates of the cluster there are, and what is known to speak against each: issues
of the release that apply to this cluster, and what goes on in the cluster itself.

With --version it tells of one update only, and fails when an issue applies that --accept does
not name: scripts ask so before they ask for the update.

A cluster that reports Upgradeable=False refuses every update to another minor version. Each such
update has the issue UpgradeableFalse.

With --alerts, alerts that matter before a cluster is updated are looked at too. It takes the URL
of a Prometheus, a file with what that answers at /api/v1/alerts, or - for standard input.`,
		Example: `  mainstay cluster recommend
  mainstay cluster recommend --show-outdated-releases
  mainstay cluster recommend --version 1.4.2 --accept SlowDisks
  mainstay cluster recommend --alerts http://localhost:9090`,
		Args: terminal.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := recommend.Validate()
			if printer.quiet && recommend.Version == "" {
				err = errors.New("--quiet needs --version: it prints the names of issues that apply to that")
			}
			if err != nil {
				return &terminal.UsageError{Err: err}
			}

			c, err := a.kube.client(cmd.ErrOrStderr())
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
				printer.print(cmd.ErrOrStderr(), found, recommend.Version, err == nil)
			}

			if err == nil && len(found.Unaccepted) > 0 {
				err = fmt.Errorf("issues that apply to this cluster but which were not included in --accept: %s", strings.Join(found.Unaccepted, ","))
			}

			return err
		},
	}

	flags := cmd.Flags()
	flags.StringVar(&recommend.Version, "version", "", "tell of the update to this version only")
	flags.StringSliceVar(&recommend.Accept, "accept", nil, "names of issues that are known and accepted")
	flags.BoolVar(&printer.outdated, "show-outdated-releases", false, "show all updates, not the two newest of each minor version only")
	flags.BoolVar(&printer.quiet, "quiet", false, "with --version, print only the names of issues that are not accepted")
	bindAlerts(cmd, &recommend.Alerts)
	_ = cmd.RegisterFlagCompletionFunc("version", a.completeFlag(everyUpdate))
	_ = cmd.RegisterFlagCompletionFunc("accept", lastOf(a.completeFlag(knownIssues)))
	out.Bind(cmd, terminal.FormatJSON, terminal.FormatYAML)

	return cmd
}

// maxUnknownAlerts is how many alerts that no check knows are listed; the others are counted.
const maxUnknownAlerts = 20

// shownOfMinor is how many updates of a minor version are shown unless all are asked for.
const shownOfMinor = 2

// recommendPrinter shows which updates there are.
type recommendPrinter struct {
	io.Writer
	outdated, quiet bool
}

// print shows what was found, of one version if that was asked for and is among the updates.
func (p *recommendPrinter) print(problems io.Writer, r *clusterupdate.Recommendation, version string, isFound bool) {
	if p.quiet {
		for _, name := range r.Unaccepted {
			fmt.Fprintln(p, name)
		}
		return
	}

	p.cluster(r)
	if !r.AlertsChecked {
		fmt.Fprintln(problems, "info: Alerts were not looked at. Name a Prometheus with --alerts to have them looked at, too.")
	}

	if unknown := r.UnknownAlerts; len(unknown) > 0 {
		if more := len(unknown) - maxUnknownAlerts; more > 0 {
			unknown = append(unknown[:maxUnknownAlerts:maxUnknownAlerts], fmt.Sprintf("and %d more", more))
		}
		fmt.Fprintf(problems, "info: Other alerts are firing, of which it is not known whether they matter to an update: %s\n", strings.Join(unknown, ", "))
	}

	failed := printUnretrieved(problems, r.ClusterVersion, len(r.Minors) > 0)
	switch {
	case version != "" && isFound:
		p.one(&r.Minors[0].Updates[0])
	case version != "":
	case len(r.Minors) == 0 && !failed:
		fmt.Fprintln(p, noUpdates)
	default:
		for i := range r.Minors {
			p.minor(&r.Minors[i])
		}
	}
}

// cluster shows what goes on in the cluster itself.
func (p *recommendPrinter) cluster(r *clusterupdate.Recommendation) {
	cv := r.ClusterVersion
	if c := clusterupdate.Condition(cv.Status.Conditions, configv1.ClusterVersionFailing); c != nil && c.Status != metav1.ConditionFalse {
		printBlock(p, c)
	}
	if c := clusterupdate.Condition(cv.Status.Conditions, configv1.OperatorProgressing); c != nil && c.Status == metav1.ConditionTrue {
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
		printChannel(p, "Upstream update service", cv)
	}
}

// one shows an update that was asked for.
func (p *recommendPrinter) one(o *clusterupdate.Option) {
	if len(o.Issues) == 0 {
		fmt.Fprintf(p, "\nUpdate to %s has %s.\n", o.Release.Version, noIssues(o))
		p.release(o, "")
		return
	}

	fmt.Fprintf(p, "\nUpdate to %s %s:\n", o.Release.Version, recommendedStatus(o))
	p.release(o, "")
	p.issue(o, "")
}

// recommendedStatus names the condition of an update with issues.
func recommendedStatus(o *clusterupdate.Option) string {
	return fmt.Sprintf("%s=%s", configv1.ConditionalUpdateRecommended, o.Recommended)
}

// release shows what a release is.
func (p *recommendPrinter) release(o *clusterupdate.Option, indent string) {
	fmt.Fprintf(p, "%sImage: %s\n", indent, o.Release.Image)
	if o.Release.URL != "" {
		fmt.Fprintf(p, "%sRelease URL: %s\n", indent, o.Release.URL)
	}
}

func (p *recommendPrinter) issue(o *clusterupdate.Option, indent string) {
	fmt.Fprintf(p, "%sReason: %s\n%sMessage: %s\n", indent, o.Reason, indent, clusterupdate.Indent(o.Message))
}

// noIssues says that nothing speaks against an update but what is accepted.
func noIssues(o *clusterupdate.Option) string {
	const text = "no known issues relevant to this cluster"
	if len(o.Accepted) > 0 {
		return text + " other than the accepted " + strings.Join(o.Accepted, ",")
	}
	return text
}

// minor shows the updates to a minor version: those without issues in a table, the others with
// what is known of them. Where all releases are shown, the table has the reasons, too.
func (p *recommendPrinter) minor(m *clusterupdate.Minor) {
	fmt.Fprintf(p, "\nUpdates to %s:\n", m.Version)
	shown := m.Updates
	if !p.outdated {
		shown = shown[:min(len(shown), shownOfMinor)]
	}

	var rows [][2]string
	flush := func() {
		if len(rows) > 0 {
			fmt.Fprintln(p)
			printVersions(p, "ISSUES", rows)
		}
		rows = nil
	}

	for i := range shown {
		o := &shown[i]
		switch {
		case len(o.Issues) == 0:
			rows = append(rows, [2]string{o.Release.Version, noIssues(o)})
		case p.outdated:
			rows = append(rows, [2]string{o.Release.Version, o.Reason})
		default:
			flush()
			fmt.Fprintf(p, "\n  Version: %s\n", o.Release.Version)
			p.release(o, "  ")
			p.issue(o, "  ")
		}
	}

	flush()
	if more := len(m.Updates) - len(shown); more > 0 {
		fmt.Fprintf(p, "\nAnd %d older %s updates you can see with '--show-outdated-releases' or '--version VERSION'.\n", more, m.Version)
	}
}
