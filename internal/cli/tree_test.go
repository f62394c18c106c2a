package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditionNodesLeaveOutWhatIsNotDeprecated(t *testing.T) {
	nodes := conditionNodes([]metav1.Condition{
		{Type: "PackageDeprecated", Status: metav1.ConditionFalse, Reason: "Deprecated"},
		{Type: "ChannelDeprecated", Status: metav1.ConditionTrue, Reason: "Deprecated", Message: "use stable"},
		{Type: "Installed", Status: metav1.ConditionFalse, Reason: "Failed", Message: "No bundle installed"},
	}, style{})
	var got []string
	for _, n := range nodes {
		got = append(got, n.text)
	}
	want := []string{
		"ChannelDeprecated  True     Deprecated  use stable",
		"Installed          False    Failed      No bundle installed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
