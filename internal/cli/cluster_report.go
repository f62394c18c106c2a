package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
)

// noUpdates is told where there are none.
const noUpdates = "No updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available."

// clusterReport shows what a cluster is at and which updates there are, from its
// ClusterVersion alone.
type clusterReport struct {
	// notRecommended also shows updates that are not recommended for the cluster.
	notRecommended bool
}

// print writes the report to out, and what is missing for it to problems.
func (r *clusterReport) print(out, problems io.Writer, cv *configv1.ClusterVersion) {
	conditions := cv.Status.Conditions
	if c := clusterupdate.Condition(conditions, configv1.ClusterVersionFailing); c == nil {
		noInfo(problems, configv1.ClusterVersionFailing)
	} else if c.Status != metav1.ConditionFalse {
		printBlock(out, c)
	}

	switch c := clusterupdate.Condition(conditions, configv1.OperatorProgressing); {
	case c == nil:
		noInfo(problems, configv1.OperatorProgressing)
	case c.Status == metav1.ConditionTrue:
		fmt.Fprintf(out, "info: An upgrade is in progress. %s\n\n", c.Message)
	default:
		fmt.Fprintf(out, "%s\n\n", c.Message)
	}

	if c := clusterupdate.Condition(conditions, configv1.OperatorUpgradeable); c != nil && c.Status == metav1.ConditionFalse {
		printBlock(out, c)
	}
	if c := clusterupdate.Condition(conditions, configv1.ClusterVersionReleaseAccepted); c != nil && c.Status != metav1.ConditionTrue {
		printBlock(out, c)
	}
	if cv.Spec.Channel != "" {
		printChannel(out, "Upstream", cv)
	}

	printRecommended(out, problems, cv)
	r.printNotRecommended(out, cv)
}

func noInfo(w io.Writer, condition string) {
	fmt.Fprintf(w, "warning: No current %s info, see `kubectl describe clusterversion` for more details.\n", condition)
}

// printBlock shows a condition with its reason and message.
func printBlock(w io.Writer, c *configv1.ClusterOperatorStatusCondition) {
	fmt.Fprintf(w, "%s=%s:\n\n  Reason: %s\n  Message: %s\n\n", c.Type, c.Status, c.Reason, clusterupdate.Indent(c.Message))
}

// printChannel shows where updates are asked for, which is given a name, and the channel.
func printChannel(w io.Writer, upstream string, cv *configv1.ClusterVersion) {
	if cv.Spec.Upstream == "" {
		fmt.Fprintln(w, upstream+" is unset, so the cluster will use an appropriate default.")
	} else {
		fmt.Fprintln(w, upstream+": "+cv.Spec.Upstream)
	}

	line := "Channel: " + cv.Spec.Channel
	if channels := slices.Sorted(slices.Values(cv.Status.Desired.Channels)); len(channels) > 0 {
		line += fmt.Sprintf(" (available channels: %s)", strings.Join(channels, ", "))
	}

	fmt.Fprintln(w, line)
}

// printUnretrieved tells why the updates that are shown may not be those that there are, and
// whether that is so.
func printUnretrieved(problems io.Writer, cv *configv1.ClusterVersion, isAny bool) bool {
	retrieved := clusterupdate.Condition(cv.Status.Conditions, configv1.ClusterVersionRetrievedUpdates)
	if retrieved == nil || retrieved.Status != metav1.ConditionFalse {
		return false
	}

	verb := "display"
	if isAny {
		verb = "refresh"
	}

	fmt.Fprintf(problems, "warning: Cannot %s available updates:\n  Reason: %s\n  Message: %s\n\n", verb, retrieved.Reason, clusterupdate.Indent(retrieved.Message))
	return true
}

func printRecommended(out, problems io.Writer, cv *configv1.ClusterVersion) {
	updates := clusterupdate.Recommended(cv)
	failed := printUnretrieved(problems, cv, len(updates) > 0)
	if len(updates) == 0 {
		if !failed {
			fmt.Fprintln(out, noUpdates)
		}
		return
	}

	fmt.Fprintln(out, "\nRecommended updates:")
	fmt.Fprintln(out)
	var rows [][2]string
	for _, update := range updates {
		rows = append(rows, [2]string{update.Version, update.Image})
	}

	printVersions(out, "IMAGE", rows)
}

// printVersions shows versions, and something of each. Their column has 12 places at least.
func printVersions(w io.Writer, header string, rows [][2]string) {
	width := 12
	for _, row := range rows {
		width = max(width, len(row[0])+1)
	}
	for _, row := range append([][2]string{{"VERSION", header}}, rows...) {
		fmt.Fprintf(w, "  %-*s%s\n", width, row[0], row[1])
	}
}

func (r *clusterReport) printNotRecommended(w io.Writer, cv *configv1.ClusterVersion) {
	updates := clusterupdate.NotRecommended(cv)
	switch {
	case !r.notRecommended && len(updates) == 0:
		return
	case !r.notRecommended:
		unknown := ""
		if slices.ContainsFunc(updates, func(u configv1.ConditionalUpdate) bool {
			return clusterupdate.RecommendedOf(u).Status == metav1.ConditionUnknown
		}) {
			unknown = `, or where the recommended status is "Unknown",`
		}
		fmt.Fprintf(w, "\nAdditional updates which are not recommended%s for your cluster configuration are available, to view those re-run the command with --include-not-recommended.\n", unknown)
		return
	case len(updates) == 0:
		fmt.Fprintln(w, "\nNo updates which are not recommended based on your cluster configuration are available.")
		return
	}

	fmt.Fprintln(w, "\nSupported but not recommended updates:")
	for _, update := range updates {
		c := clusterupdate.RecommendedOf(update)
		fmt.Fprintf(w, "\n  Version: %s\n  Image: %s\n  Recommended: %s\n  Reason: %s\n  Message: %s\n",
			update.Release.Version, update.Release.Image, c.Status, c.Reason, clusterupdate.Indent(c.Message))
	}
}
