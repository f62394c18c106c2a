package classic

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/test/scenario/trial"
)

func newCSV(name string, phase v1alpha1.ClusterServiceVersionPhase, replaces string) v1alpha1.ClusterServiceVersion {
	csv := v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: name}}
	csv.Spec.Replaces, csv.Status.Phase = replaces, phase
	return csv
}

func newPlan(phase v1alpha1.InstallPlanPhase, message string, csvs ...string) v1alpha1.InstallPlan {
	plan := v1alpha1.InstallPlan{}
	plan.Spec.ClusterServiceVersionNames = csvs
	plan.Status.Phase, plan.Status.Message = phase, message
	return plan
}

func newSubscription(installed, failure string) *v1alpha1.Subscription {
	s := &v1alpha1.Subscription{}
	s.Status.InstalledCSV = installed
	if failure != "" {
		s.Status.Conditions = []v1alpha1.SubscriptionCondition{{Type: v1alpha1.SubscriptionResolutionFailed, Status: corev1.ConditionTrue, Message: failure}}
	}
	return s
}

func TestJudge(t *testing.T) {
	const beta = "api-server resource not found installing CustomResourceDefinition x: GroupVersionKind apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition not found on the cluster."
	const missing = "constraints not satisfiable: bundle a.v2 requires an operator providing an API with group: b.io, version: v1, kind: B"
	complete := []v1alpha1.InstallPlan{newPlan(v1alpha1.InstallPlanPhaseComplete, "", "a.v2")}
	old, works := newCSV("a.v1", v1alpha1.CSVPhaseReplacing, ""), newCSV("a.v2", v1alpha1.CSVPhaseSucceeded, "a.v1")
	unsupported := newCSV("a.v2", v1alpha1.CSVPhaseFailed, "")
	unsupported.Status.Reason = v1alpha1.CSVReasonUnsupportedOperatorGroup
	type csvs = []v1alpha1.ClusterServiceVersion
	for name, test := range map[string]struct {
		facts Facts
		want  trial.Outcome
	}{
		"nothing yet":                        {Facts{Subscription: newSubscription("", "")}, ""},
		"a dependency that no catalog has":   {Facts{Subscription: newSubscription("", missing)}, trial.Refused},
		"a catalog that is not read yet":     {Facts{Subscription: newSubscription("", "constraints not satisfiable: no operators found from catalog scenario")}, ""},
		"not resolvable during an upgrade":   {Facts{Subscription: newSubscription("a.v2", missing), CSVs: csvs{old, newCSV("a.v2", v1alpha1.CSVPhasePending, "a.v1")}}, ""},
		"a catalog that cannot be read":      {Facts{Subscription: newSubscription("", "failed to populate resolver cache")}, ""},
		"an API version that is not served":  {Facts{Subscription: newSubscription("", ""), Plans: []v1alpha1.InstallPlan{newPlan(v1alpha1.InstallPlanPhaseInstalling, beta, "a.v2")}}, trial.Refused},
		"a failed plan":                      {Facts{Subscription: newSubscription("", ""), Plans: []v1alpha1.InstallPlan{newPlan(v1alpha1.InstallPlanPhaseFailed, "forbidden", "a.v2")}}, trial.Unexpected},
		"a plan of another version":          {Facts{Subscription: newSubscription("", ""), Plans: []v1alpha1.InstallPlan{newPlan(v1alpha1.InstallPlanPhaseFailed, "forbidden", "a.v3")}}, ""},
		"an unsupported OperatorGroup":       {Facts{Subscription: newSubscription("a.v2", ""), Plans: complete, CSVs: csvs{unsupported}}, trial.Refused},
		"works":                              {Facts{Subscription: newSubscription("a.v2", ""), Plans: complete, CSVs: csvs{works}}, trial.Installed},
		"works next to the old one":          {Facts{Subscription: newSubscription("a.v2", ""), Plans: complete, CSVs: csvs{old, works}}, ""},
		"works next to a pending dependency": {Facts{Subscription: newSubscription("a.v2", ""), Plans: complete, CSVs: csvs{works, newCSV("b.v1", v1alpha1.CSVPhasePending, "")}}, ""},
		"another version is installed":       {Facts{Subscription: newSubscription("a.v1", ""), Plans: complete, CSVs: csvs{works}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, reason := test.facts.Judge("a.v2"); got != test.want {
				t.Errorf("got %q (%s), want %q", got, reason, test.want)
			}
		})
	}
}

func TestReadPackages(t *testing.T) {
	packages, err := readPackages(strings.NewReader(`
{"schema": "olm.package", "name": "a", "defaultChannel": "stable"}
{"schema": "olm.channel", "package": "a", "name": "stable", "entries": [
  {"name": "a.v3", "replaces": "a.v1", "skips": ["a.v2"]}, {"name": "a.v1", "replaces": "a.v0"}, {"name": "a.v2", "replaces": "a.v1"},
  {"name": "a.v4", "replaces": "a.v3", "skipRange": ">=2.0.0 <4.0.0"}]}
{"schema": "olm.channel", "package": "a", "name": "beta", "entries": [{"name": "a.v4"}]}
{"schema": "olm.bundle", "package": "a", "name": "a.v4", "properties": [
  {"type": "olm.package", "value": {"packageName": "a", "version": "4.0.0"}},
  {"type": "olm.gvk", "value": {"group": "a.io", "version": "v1", "kind": "A"}},
  {"type": "olm.gvk.required", "value": {"group": "b.io", "version": "v1", "kind": "B"}},
  {"type": "olm.csv.metadata", "value": {"installModes": [{"type": "OwnNamespace", "supported": false}, {"type": "AllNamespaces", "supported": true}]}},
  {"type": "other", "value": "text"}]}
{"schema": "olm.bundle", "package": "a", "name": "a.v1", "properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}}]}
{"schema": "olm.bundle", "package": "a", "name": "a.v2", "properties": [{"type": "olm.package", "value": {"packageName": "a", "version": "2.0.0"}}]}
`))
	if err != nil || len(packages) != 1 {
		t.Fatalf("got %d packages, error %v, want 1", len(packages), err)
	}

	p := packages[0]
	stable := p.ChannelOf("a.v4")
	if stable == nil || stable.Name != "stable" {
		t.Fatalf("channel of a.v4: got %v, want the default channel", stable)
	}
	if got, want := stable.Chain(), []string{"a.v1", "a.v3", "a.v4"}; !slices.Equal(got, want) {
		t.Errorf("got the chain %q, want %q", got, want)
	}

	for _, edge := range []struct {
		from, to string
		want     bool
	}{{"a.v1", "a.v3", true}, {"a.v2", "a.v3", true}, {"a.v2", "a.v4", true}, {"a.v1", "a.v4", false}, {"a.v4", "a.v1", false}, {"a.v1", "a.v9", false}} {
		if got := p.HasEdge(stable, edge.from, edge.to); got != edge.want {
			t.Errorf("edge from %s to %s: got %t, want %t", edge.from, edge.to, got, edge.want)
		}
	}

	head := p.Bundle("a.v4")
	if head != p.Bundles[2] || !slices.Equal(head.InstallModes, []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeAllNamespaces}) ||
		!slices.Equal(head.Requires, []API{{"b.io", "v1", "B"}}) || !slices.Equal(head.Provides, []API{{"a.io", "v1", "A"}}) || !p.HasDependencies() {
		t.Errorf("got the newest bundle %+v", head)
	}
}
