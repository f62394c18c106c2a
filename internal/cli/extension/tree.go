package extension

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// newExtensionTree returns the state of an extension as a tree.
func newExtensionTree(state *action.ExtensionState, s terminal.Style) terminal.TreeNode {
	root := terminal.TreeNode{Text: "clusterextension/" + state.Name + "  package " + state.Package + ", namespace " + state.Namespace}
	switch {
	case state.Deleting:
		root.Text += ", being deleted"
	case state.Bundle != "":
		root.Text += ", installed " + state.Bundle
	default:
		root.Text += ", nothing installed"
	}

	root.Children = newConditionNodes(state.Conditions, s)
	for _, revision := range state.Revisions {
		root.Children = append(root.Children, newRevisionNode(revision, s))
	}

	return root
}

func newRevisionNode(revision action.RevisionState, s terminal.Style) terminal.TreeNode {
	n := terminal.TreeNode{Text: "clusterobjectset/" + revision.Name}
	if revision.Bundle != "" {
		n.Text += "  " + revision.Bundle
	}

	n.Children = newConditionNodes(revision.Conditions, s)
	for _, problem := range revision.Problems {
		n.Children = append(n.Children, terminal.TreeNode{Text: s.Paint(terminal.Red, "✗") + " " + problem})
	}

	for _, phase := range revision.Phases {
		ready := 0
		p := terminal.TreeNode{}
		for _, object := range phase.Objects {
			if object.Ready {
				ready++
			}
			p.Children = append(p.Children, terminal.TreeNode{Text: formatObjectLine(object, phase.State, s)})
		}

		p.Text = fmt.Sprintf("%s %s  %s, %d of %d ready", s.Mark(phase.State), phase.Name, phase.State, ready, len(phase.Objects))
		if phase.Message != "" {
			p.Text += ": " + phase.Message
		}

		n.Children = append(n.Children, p)
	}

	return n
}

// formatObjectLine formats an object of a phase. In a phase that has not started, an object that is
// not ready is not marked as failed.
func formatObjectLine(object action.ObjectState, phase report.State, s terminal.Style) string {
	name := object.Kind + " " + object.Name
	if object.Namespace != "" {
		name = object.Kind + " " + object.Namespace + "/" + object.Name
	}

	switch {
	case object.Ready:
		return s.Mark(report.StateDone) + " " + name
	case phase == report.StateWaiting:
		return s.Mark(report.StateWaiting) + " " + name
	default:
		return s.Paint(terminal.Red, "✗") + " " + name + ": " + object.Message
	}
}

// newConditionNodes returns a node for each condition, with type, status and reason in columns. Line
// breaks of messages are kept. Deprecation conditions are omitted unless something is deprecated.
func newConditionNodes(conditions []metav1.Condition, s terminal.Style) []terminal.TreeNode {
	conditions = slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool {
		return c.Reason == olmv1.ReasonDeprecated && c.Status == metav1.ConditionFalse
	})
	typeWidth, reasonWidth := 0, 0
	for _, c := range conditions {
		typeWidth, reasonWidth = max(typeWidth, len(c.Type)), max(reasonWidth, len(c.Reason))
	}

	var nodes []terminal.TreeNode
	for _, c := range conditions {
		text := fmt.Sprintf("%-*s  %s  %-*s  %s", typeWidth, c.Type, paintConditionStatus(c, s), reasonWidth, c.Reason, c.Message)
		nodes = append(nodes, terminal.TreeNode{Text: strings.TrimRight(text, " ")})
	}

	return nodes
}

// paintConditionStatus pads a status to the width of "Unknown", and paints it red if it indicates a
// problem. The status True indicates a problem only for deprecation conditions.
func paintConditionStatus(c metav1.Condition, s terminal.Style) string {
	text := fmt.Sprintf("%-7s", c.Status)
	bad := metav1.ConditionFalse
	switch {
	case strings.HasSuffix(c.Type, "Deprecated"):
		bad = metav1.ConditionTrue
	case c.Type == olmv1.TypeDeletesCRDs:
		return text // neither is a problem: the condition states what a deletion would do
	}

	if c.Status == bad {
		return s.Paint(terminal.Red, text)
	}

	return text
}
