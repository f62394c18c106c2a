package cluster

import (
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/update/clusterupdate"
)

// noUpdatesMessage is printed if no update is available.
const noUpdatesMessage = "No updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available."

// clusterReport prints the version of a cluster and its available updates, read from the
// ClusterVersion alone.
type clusterReport struct {
	// includeNotRecommended also prints updates that are not recommended for the cluster.
	includeNotRecommended bool
}

// printReport writes the report to out, and warnings about missing conditions to problems.
func (r *clusterReport) printReport(out, problems io.Writer, cv *configv1.ClusterVersion) {
	conditions := cv.Status.Conditions
	if c := configv1.FindCondition(conditions, configv1.ClusterVersionFailing); c == nil {
		warnMissingCondition(problems, configv1.ClusterVersionFailing)
	} else if c.Status != metav1.ConditionFalse {
		printCondition(out, c)
	}

	switch c := configv1.FindCondition(conditions, configv1.OperatorProgressing); {
	case c == nil:
		warnMissingCondition(problems, configv1.OperatorProgressing)
	case c.Status == metav1.ConditionTrue:
		fmt.Fprintf(out, "info: An upgrade is in progress. %s\n\n", c.Message)
	default:
		fmt.Fprintf(out, "%s\n\n", c.Message)
	}

	if c := configv1.FindCondition(conditions, configv1.OperatorUpgradeable); c != nil && c.Status == metav1.ConditionFalse {
		printCondition(out, c)
	}
	if c := configv1.FindCondition(conditions, configv1.ClusterVersionReleaseAccepted); c != nil && c.Status != metav1.ConditionTrue {
		printCondition(out, c)
	}
	if cv.Spec.Channel != "" {
		printUpdateChannel(out, "Upstream", cv)
	}

	printRecommendedUpdates(out, problems, cv)
	r.printNotRecommendedUpdates(out, cv)
}

func warnMissingCondition(w io.Writer, condition string) {
	fmt.Fprintf(w, "warning: No current %s info, see `kubectl describe clusterversion` for more details.\n", condition)
}

// printCondition prints a condition with its reason and message.
func printCondition(w io.Writer, c *configv1.ClusterOperatorStatusCondition) {
	fmt.Fprintf(w, "%s=%s:\n\n  Reason: %s\n  Message: %s\n\n", c.Type, c.Status, c.Reason, clusterupdate.Indent(c.Message))
}

// printUpdateChannel prints the update service, under the given name, and the channel.
func printUpdateChannel(w io.Writer, upstream string, cv *configv1.ClusterVersion) {
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

// printRetrievalFailure prints why updates could not be retrieved. It reports whether the retrieval
// failed.
func printRetrievalFailure(problems io.Writer, cv *configv1.ClusterVersion, isAny bool) bool {
	retrieved := configv1.FindCondition(cv.Status.Conditions, configv1.ClusterVersionRetrievedUpdates)
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

func printRecommendedUpdates(out, problems io.Writer, cv *configv1.ClusterVersion) {
	updates := clusterupdate.Recommended(cv)
	failed := printRetrievalFailure(problems, cv, len(updates) > 0)
	if len(updates) == 0 {
		if !failed {
			fmt.Fprintln(out, noUpdatesMessage)
		}
		return
	}

	fmt.Fprintln(out, "\nRecommended updates:")
	fmt.Fprintln(out)
	var rows [][2]string
	for _, update := range updates {
		rows = append(rows, [2]string{update.Version, update.Image})
	}

	printVersionTable(out, "IMAGE", rows)
}

// printVersionTable prints a table with a column of versions, at least 12 characters wide, and one
// other column.
func printVersionTable(w io.Writer, header string, rows [][2]string) {
	width := 12
	for _, row := range rows {
		width = max(width, len(row[0])+1)
	}
	for _, row := range append([][2]string{{"VERSION", header}}, rows...) {
		fmt.Fprintf(w, "  %-*s%s\n", width, row[0], row[1])
	}
}

func (r *clusterReport) printNotRecommendedUpdates(w io.Writer, cv *configv1.ClusterVersion) {
	updates := clusterupdate.NotRecommended(cv)
	switch {
	case !r.includeNotRecommended && len(updates) == 0:
		return
	case !r.includeNotRecommended:
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
