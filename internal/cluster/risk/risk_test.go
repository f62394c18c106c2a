package risk

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

func newOperator(name string, status metav1.ConditionStatus, message string) configv1.ClusterOperator {
	return configv1.ClusterOperator{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: configv1.ClusterOperatorStatus{Conditions: []configv1.ClusterOperatorStatusCondition{
			{Type: configv1.OperatorAvailable, Status: metav1.ConditionFalse}, {Type: configv1.OperatorUpgradeable, Status: status, Message: message},
		}},
	}
}

func TestFind(t *testing.T) {
	cases := map[string]struct {
		in    Input
		names string
	}{
		"nothing":                  {in: Input{Version: "4.13.1"}},
		"updating":                 {in: Input{Updating: true}, names: "ClusterVersionUpdating"},
		"override":                 {in: Input{Overrides: []configv1.ComponentOverride{{Unmanaged: false}, {Unmanaged: true}}}, names: "ClusterVersionOverrides"},
		"an override that manages": {in: Input{Overrides: []configv1.ComponentOverride{{Unmanaged: false}}}},
		"deletions":                {in: Input{Deletions: []string{"b", "a"}}, names: "ResourceDeletionInProgress"},
		"a gate of this version":   {in: Input{Version: "4.13.1", Gates: map[string]string{"ack-4.13-kube-1.27": "read"}}, names: "AdminAck-ack-4.13-kube-1.27"},
		"a gate of another":        {in: Input{Version: "4.12.1", Gates: map[string]string{"ack-4.13-kube-1.27": "read"}}},
		"a gate of a longer one":   {in: Input{Version: "4.1.1", Gates: map[string]string{"ack-4.13-kube-1.27": "read"}}},
		"an acknowledged gate": {
			in: Input{Version: "4.13.1", Gates: map[string]string{"ack-4.13-kube-1.27": "read"}, Acks: map[string]string{"ack-4.13-kube-1.27": "true"}},
		},
		"a gate acknowledged otherwise": {
			in:    Input{Version: "4.13.1", Gates: map[string]string{"ack-4.13-a": "read"}, Acks: map[string]string{"ack-4.13-a": "yes"}},
			names: "AdminAck-ack-4.13-a",
		},
		"a gate without a version": {in: Input{Version: "4.13.1", Gates: map[string]string{"ack-me": "read"}}, names: "AdminAck-ack-me"},
		"operators": {
			in:    Input{Operators: []configv1.ClusterOperator{newOperator("b", "False", "x"), newOperator("a", "False", ""), newOperator("c", "True", ""), newOperator("d", "Unknown", "")}},
			names: "ClusterOperatorUpgradeable-a ClusterOperatorUpgradeable-b",
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			risks, err := Find(c.in)
			if err != nil {
				t.Fatal(err)
			}

			var names []string
			for _, risk := range risks {
				names = append(names, risk.Name)
				if risk.Message == "" {
					t.Errorf("got no message of the risk %s, want one", risk.Name)
				}
			}

			if got := strings.Join(names, " "); got != c.names {
				t.Errorf("got risks %q, want %q", got, c.names)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	risks, err := Find(Input{
		Version: "4.13.1", Gates: map[string]string{"ack-4.13-empty": "", "ack-4.13-x": "Read the notes."},
		Deletions: []string{"namespace \"b\"", "namespace \"a\""}, Operators: []configv1.ClusterOperator{newOperator("olm", "False", "Remove foo.")},
	})
	if err != nil {
		t.Fatal(err)
	}

	want := []Risk{
		{"AdminAck-ack-4.13-empty", "admin-gates configmap gate ack-4.13-empty must contain a non-empty value."},
		{"AdminAck-ack-4.13-x", "Read the notes."},
		{"ClusterOperatorUpgradeable-olm", "Remove foo."},
		{"ResourceDeletionInProgress", `Cluster minor or major version upgrades are not allowed while resource deletions are in progress; resources=namespace "a",namespace "b"`},
	}
	if diff := cmp.Diff(want, risks); diff != "" {
		t.Errorf("risks (-want +got):\n%s", diff)
	}
}

func TestGatesOfInvalidVersion(t *testing.T) {
	risks, err := Find(Input{Version: "latest", Gates: map[string]string{"ack-4.13-x": "y"}, Updating: true})
	if err == nil || !strings.Contains(err.Error(), `"latest"`) {
		t.Errorf("got error %v, want one with the version", err)
	}
	if len(risks) != 1 {
		t.Errorf("got risks %v besides the error, want 1", risks)
	}
}

func TestCondition(t *testing.T) {
	one, two := Risk{"ClusterVersionOverrides", "Remove them."}, Risk{"ClusterOperatorUpgradeable-olm", "Remove foo."}
	cases := map[string]struct {
		risks           []Risk
		err             error
		status          metav1.ConditionStatus
		reason, message string
	}{
		"one":              {risks: []Risk{one}, status: "False", reason: "ClusterVersionOverrides", message: "Remove them."},
		"an unfit name":    {risks: []Risk{two}, status: "False", reason: "RiskNameNotCompatibleWithReasonProperty", message: "Remove foo."},
		"two":              {risks: []Risk{one, two}, status: "False", reason: "MultipleReasons", message: "Cluster should not be upgraded between minor or major versions for multiple reasons:\n* Remove them.\n* Remove foo."},
		"error":            {err: errors.New("away"), status: "Unknown", reason: "EvaluationFailed", message: "away"},
		"a risk and error": {risks: []Risk{one}, err: errors.New("away"), status: "False", reason: "ClusterVersionOverrides", message: "Remove them."},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := Condition(c.risks, c.err)
			want := configv1.ClusterOperatorStatusCondition{Type: "Upgradeable", Status: c.status, Reason: c.reason, Message: c.message}
			if diff := cmp.Diff(want, got); !ok || diff != "" {
				t.Errorf("condition, %v (-want +got):\n%s", ok, diff)
			}
		})
	}

	if _, ok := Condition(nil, nil); ok {
		t.Error("got a condition without risks, want none")
	}
}
