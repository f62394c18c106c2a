package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

// node is a line of a tree and the lines below it.
type node struct {
	text     string
	children []node
}

// write draws the tree.
func (n node) write(w io.Writer) {
	fmt.Fprintln(w, n.text)
	writeChildren(w, n.children, "")
}

func writeChildren(w io.Writer, children []node, indent string) {
	for i, child := range children {
		branch, below := "├─ ", "│  "
		if i == len(children)-1 {
			branch, below = "└─ ", "   "
		}

		lines := strings.Split(child.text, "\n")
		fmt.Fprintln(w, indent+branch+lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintln(w, strings.TrimRight(indent+below+line, " "))
		}

		writeChildren(w, child.children, indent+below)
	}
}

// extensionTree draws the state of an extension.
func extensionTree(state *action.ExtensionState, s terminal.Style) node {
	root := node{text: "clusterextension/" + state.Name + "  package " + state.Package + ", namespace " + state.Namespace}
	switch {
	case state.Deleting:
		root.text += ", being deleted"
	case state.Bundle != "":
		root.text += ", installed " + state.Bundle
	default:
		root.text += ", nothing installed"
	}

	root.children = conditionNodes(state.Conditions, s)
	for _, revision := range state.Revisions {
		root.children = append(root.children, revisionNode(revision, s))
	}

	return root
}

func revisionNode(revision action.RevisionState, s terminal.Style) node {
	n := node{text: "clusterobjectset/" + revision.Name}
	if revision.Bundle != "" {
		n.text += "  " + revision.Bundle
	}

	n.children = conditionNodes(revision.Conditions, s)
	for _, problem := range revision.Problems {
		n.children = append(n.children, node{text: s.Paint(terminal.Red, "✗") + " " + problem})
	}

	for _, phase := range revision.Phases {
		ready := 0
		p := node{}
		for _, object := range phase.Objects {
			if object.Ready {
				ready++
			}
			p.children = append(p.children, node{text: objectLine(object, phase.State, s)})
		}

		p.text = fmt.Sprintf("%s %s  %s, %d of %d ready", s.Mark(phase.State), phase.Name, phase.State, ready, len(phase.Objects))
		if phase.Message != "" {
			p.text += ": " + phase.Message
		}

		n.children = append(n.children, p)
	}

	return n
}

// objectLine shows an object of a phase. In a phase that has not begun nothing is
// wrong with an object that is not ready.
func objectLine(object action.ObjectState, phase report.State, s terminal.Style) string {
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

// conditionNodes shows conditions in columns. A message of several lines keeps them.
// Those of deprecation are shown only when something is deprecated: "Deprecated False Deprecated" tells a reader nothing.
func conditionNodes(conditions []metav1.Condition, s terminal.Style) []node {
	conditions = slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool {
		return c.Reason == olmv1.ReasonDeprecated && c.Status == metav1.ConditionFalse
	})
	typeWidth, reasonWidth := 0, 0
	for _, c := range conditions {
		typeWidth, reasonWidth = max(typeWidth, len(c.Type)), max(reasonWidth, len(c.Reason))
	}

	var nodes []node
	for _, c := range conditions {
		text := fmt.Sprintf("%-*s  %s  %-*s  %s", typeWidth, c.Type, paintStatus(c, s), reasonWidth, c.Reason, c.Message)
		nodes = append(nodes, node{text: strings.TrimRight(text, " ")})
	}

	return nodes
}

// paintStatus pads a status to the width of "Unknown", and paints it when it is not as
// one would wish. True is bad news only for the conditions of deprecation.
func paintStatus(c metav1.Condition, s terminal.Style) string {
	text := fmt.Sprintf("%-7s", c.Status)
	bad := metav1.ConditionFalse
	switch {
	case strings.HasSuffix(c.Type, "Deprecated"):
		bad = metav1.ConditionTrue
	case c.Type == olmv1.TypeDeletesCRDs:
		return text // neither is bad: it says what a deletion would do
	}

	if c.Status == bad {
		return s.Paint(terminal.Red, text)
	}

	return text
}
