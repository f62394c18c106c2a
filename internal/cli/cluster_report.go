package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/action/clusterupdate"
)

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
		printChannel(out, cv)
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

func printChannel(w io.Writer, cv *configv1.ClusterVersion) {
	if cv.Spec.Upstream == "" {
		fmt.Fprintln(w, "Upstream is unset, so the cluster will use an appropriate default.")
	} else {
		fmt.Fprintln(w, "Upstream: "+cv.Spec.Upstream)
	}
	line := "Channel: " + cv.Spec.Channel
	if channels := slices.Sorted(slices.Values(cv.Status.Desired.Channels)); len(channels) > 0 {
		line += fmt.Sprintf(" (available channels: %s)", strings.Join(channels, ", "))
	}
	fmt.Fprintln(w, line)
}

func printRecommended(out, problems io.Writer, cv *configv1.ClusterVersion) {
	updates := clusterupdate.Recommended(cv)
	retrieved := clusterupdate.Condition(cv.Status.Conditions, configv1.ClusterVersionRetrievedUpdates)
	failed := retrieved != nil && retrieved.Status == metav1.ConditionFalse
	if failed {
		verb := "display"
		if len(updates) > 0 {
			verb = "refresh"
		}
		fmt.Fprintf(problems, "warning: Cannot %s available updates:\n  Reason: %s\n  Message: %s\n\n", verb, retrieved.Reason, clusterupdate.Indent(retrieved.Message))
	}
	if len(updates) == 0 {
		if !failed {
			fmt.Fprintln(out, "No updates available. You may still upgrade to a specific release image with --to-image or wait for new updates to be available.")
		}
		return
	}
	fmt.Fprintln(out, "\nRecommended updates:")
	fmt.Fprintln(out)
	width := 12
	for _, update := range updates {
		width = max(width, len(update.Version)+1)
	}
	fmt.Fprintf(out, "  %-*s%s\n", width, "VERSION", "IMAGE")
	for _, update := range updates {
		fmt.Fprintf(out, "  %-*s%s\n", width, update.Version, update.Image)
	}
}

func (r *clusterReport) printNotRecommended(w io.Writer, cv *configv1.ClusterVersion) {
	updates := clusterupdate.NotRecommended(cv)
	switch {
	case !r.notRecommended && len(updates) == 0:
		return
	case !r.notRecommended:
		unknown := ""
		for _, update := range updates {
			if !slices.ContainsFunc(update.Conditions, func(c metav1.Condition) bool {
				return c.Type == configv1.ConditionalUpdateRecommended && c.Status == metav1.ConditionFalse
			}) {
				unknown = `, or where the recommended status is "Unknown",`
			}
		}
		fmt.Fprintf(w, "\nAdditional updates which are not recommended%s for your cluster configuration are available, to view those re-run the command with --include-not-recommended.\n", unknown)
		return
	case len(updates) == 0:
		fmt.Fprintln(w, "\nNo updates which are not recommended based on your cluster configuration are available.")
		return
	}
	fmt.Fprintln(w, "\nSupported but not recommended updates:")
	for _, update := range updates {
		status, reason, message := metav1.ConditionUnknown, "", ""
		for _, c := range update.Conditions {
			if c.Type == configv1.ConditionalUpdateRecommended {
				status, reason, message = c.Status, c.Reason, c.Message
			}
		}
		fmt.Fprintf(w, "\n  Version: %s\n  Image: %s\n  Recommended: %s\n  Reason: %s\n  Message: %s\n",
			update.Release.Version, update.Release.Image, status, cmp.Or(reason, "NotEvaluated"), clusterupdate.Indent(message))
	}
}
