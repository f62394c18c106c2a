package apply

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/builder"
)

func selectKind(group, kind string) olmv1.ObjectSelector {
	return olmv1.ObjectSelector{Type: olmv1.ProbeSelectorTypeGroupKind, GroupKind: &metav1.GroupKind{Group: group, Kind: kind}}
}

func selectLabel(key, value string) olmv1.ObjectSelector {
	return olmv1.ObjectSelector{Type: olmv1.ProbeSelectorTypeLabel, Label: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
}

// A selected object fails the probe, which requires a field that no object has.
func TestProbeSelectors(t *testing.T) {
	never := []olmv1.ProbeAssertion{{
		Type: olmv1.ProbeAssertionTypeFieldValue, FieldValue: &olmv1.FieldValueProbe{FieldPath: "spec.none", Value: "x"},
	}}
	u := builder.FromYAML("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: one, labels: {tier: front}}")
	cases := []struct {
		name     string
		selector olmv1.ObjectSelector
		selected bool
	}{
		{"kind", selectKind("example.com", "Gadget"), true},
		{"other group", selectKind("", "Gadget"), false},
		{"label", selectLabel("tier", "front"), true},
		{"other label", selectLabel("tier", "back"), false},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			probes, err := CompileProbes([]olmv1.ProgressionProbe{{Selector: test.selector, Assertions: never}})
			if err != nil {
				t.Fatal(err)
			}
			if selected := !probes.Probe(u).Ready; selected != test.selected {
				t.Errorf("got selected %t", selected)
			}
		})
	}

	if got := (*Probes)(nil).Probe(u); !got.Ready {
		t.Errorf("without probes: got %s", got.Message)
	}
}

func TestCompileProbesRefuses(t *testing.T) {
	assertion := olmv1.ProbeAssertion{Type: olmv1.ProbeAssertionTypeFieldValue, FieldValue: &olmv1.FieldValueProbe{FieldPath: "a", Value: "b"}}
	badLabel := olmv1.ObjectSelector{Type: olmv1.ProbeSelectorTypeLabel, Label: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
	}}
	cases := []struct {
		name  string
		probe olmv1.ProgressionProbe
		want  string
	}{
		{"selector type", olmv1.ProgressionProbe{Selector: olmv1.ObjectSelector{Type: "Name"}, Assertions: []olmv1.ProbeAssertion{assertion}},
			`progressionProbes[0].selector: the type "Name" is unknown or its field is not set`},
		{"label operator", olmv1.ProgressionProbe{Selector: badLabel, Assertions: []olmv1.ProbeAssertion{assertion}},
			`progressionProbes[0].selector: "Like" is not a valid label selector operator`},
		{"assertion type", olmv1.ProgressionProbe{Selector: selectKind("", "Pod"), Assertions: []olmv1.ProbeAssertion{assertion, {Type: "CEL"}}},
			`progressionProbes[0].assertions[1]: the type "CEL" is unknown or its field is not set`},
		{"assertion without field", olmv1.ProgressionProbe{Selector: selectKind("", "Pod"), Assertions: []olmv1.ProbeAssertion{{Type: olmv1.ProbeAssertionTypeFieldsEqual}}},
			`progressionProbes[0].assertions[0]: the type "FieldsEqual" is unknown or its field is not set`},
	}

	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			_, err := CompileProbes([]olmv1.ProgressionProbe{test.probe})
			if err == nil || err.Error() != test.want {
				t.Errorf("error:\n got %v\nwant %s", err, test.want)
			}
		})
	}
}
