package extension

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/internal/action"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/cli/terminal"
)

func TestConditionNodesLeaveOutWhatIsNotDeprecated(t *testing.T) {
	nodes := newConditionNodes([]metav1.Condition{
		{Type: "PackageDeprecated", Status: metav1.ConditionFalse, Reason: "Deprecated"},
		{Type: "ChannelDeprecated", Status: metav1.ConditionTrue, Reason: "Deprecated", Message: "use stable"},
		{Type: "Installed", Status: metav1.ConditionFalse, Reason: "Failed", Message: "No bundle installed"},
	}, terminal.Style{})
	var got []string
	for _, n := range nodes {
		got = append(got, n.Text)
	}

	want := []string{
		"ChannelDeprecated  True     Deprecated  use stable",
		"Installed          False    Failed      No bundle installed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// The status False is painted, except for deprecation conditions, whose status True is painted.
func TestStatusIsPainted(t *testing.T) {
	coloured := terminal.Style{Colour: true}
	for _, c := range []struct {
		condition metav1.Condition
		painted   bool
	}{
		{metav1.Condition{Type: "Available", Status: metav1.ConditionFalse}, true},
		{metav1.Condition{Type: "Available", Status: metav1.ConditionTrue}, false},
		{metav1.Condition{Type: "PackageDeprecated", Status: metav1.ConditionTrue}, true},
		{metav1.Condition{Type: "PackageDeprecated", Status: metav1.ConditionFalse}, false},
	} {
		if got := strings.Contains(paintConditionStatus(c.condition, coloured), "\x1b"); got != c.painted {
			t.Errorf("%s=%s: got painted %v", c.condition.Type, c.condition.Status, got)
		}
	}
}

func TestTreeKeepsLinesOfAMessage(t *testing.T) {
	state := &action.ExtensionState{Name: "k", Package: "p", Namespace: "n", Conditions: []metav1.Condition{
		{Type: "Progressing", Status: metav1.ConditionTrue, Reason: "Retrying", Message: "missing:\n  Verbs:[get]"},
	}, Revisions: []action.RevisionState{{Name: "k-1", Problems: []string{"a Secret is missing"}, Phases: []action.PhaseState{
		{Name: "deploy", State: report.StateWaiting, Objects: []action.ObjectState{{Kind: "Deployment", Namespace: "n", Name: "d", Message: "not created yet"}}},
	}}}}
	var out bytes.Buffer
	newExtensionTree(state, terminal.Style{}).Write(&out)
	want := `clusterextension/k  package p, namespace n, nothing installed
├─ Progressing  True     Retrying  missing:
│    Verbs:[get]
└─ clusterobjectset/k-1
   ├─ ✗ a Secret is missing
   └─ ○ deploy  waiting, 0 of 1 ready
      └─ ○ Deployment n/d
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}
