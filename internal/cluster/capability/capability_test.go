package capability

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

func TestSets(t *testing.T) {
	all := []string{
		"Build", "CSISnapshot", "CloudControllerManager", "CloudCredential", "ClusterAPI", "CompatibilityRequirements", "Console", "DeploymentConfig", "ImageRegistry", "Ingress",
		"Insights", "MachineAPI", "NodeTuning", "OperatorLifecycleManager", "OperatorLifecycleManagerV1", "Storage", "baremetal", "marketplace", "openshift-samples",
	}
	want := sets.New[string]()
	for _, set := range []struct {
		name configv1.ClusterVersionCapabilitySet
		// adds are those that it has beside those of the set before.
		adds []string
	}{
		{"None", nil},
		{"v4.11", []string{"baremetal", "marketplace", "openshift-samples", "MachineAPI"}},
		{"v4.12", []string{"Console", "Insights", "Storage", "CSISnapshot"}},
		{"v4.13", []string{"NodeTuning"}},
		{"v4.14", []string{"Build", "DeploymentConfig", "ImageRegistry"}},
		{"v4.15", []string{"OperatorLifecycleManager", "CloudCredential"}},
		{"v4.16", []string{"Ingress", "CloudControllerManager"}},
		{"v4.17", nil},
		{"v4.18", []string{"OperatorLifecycleManagerV1"}},
		{"vCurrent", all},
		{"", nil}, // the same as vCurrent
	} {
		want.Insert(set.adds...)
		if diff := cmp.Diff(sets.List(want), sets.List(Set(set.name))); diff != "" {
			t.Errorf("set %q (-want +got):\n%s", set.name, diff)
		}
	}
	if got := Set("v9"); got.Len() > 0 {
		t.Errorf("a set that nobody knows has %v", got)
	}
}

func TestResolve(t *testing.T) {
	none := &configv1.ClusterVersionCapabilitiesSpec{BaselineCapabilitySet: configv1.CapabilitySetNone}
	cases := map[string]struct {
		spec              *configv1.ClusterVersionCapabilitiesSpec
		always            []string
		had               []string
		needed            []string
		enabled, implicit []string
	}{
		"none": {spec: none},
		"additional": {
			spec: &configv1.ClusterVersionCapabilitiesSpec{
				BaselineCapabilitySet: configv1.CapabilitySetNone, AdditionalEnabledCapabilities: []configv1.ClusterVersionCapability{"Console"},
			},
			enabled: []string{"Console"},
		},
		"always":              {spec: none, always: []string{"Ingress"}, enabled: []string{"Ingress"}},
		"what was stays":      {spec: none, had: []string{"Console", "Build"}, enabled: []string{"Build", "Console"}, implicit: []string{"Build", "Console"}},
		"what an update adds": {spec: none, needed: []string{"Storage"}, enabled: []string{"Storage"}, implicit: []string{"Storage"}},
		"wanted and needed": {
			spec:   &configv1.ClusterVersionCapabilitiesSpec{BaselineCapabilitySet: "v4.11"},
			needed: []string{"baremetal"}, enabled: sets.List(Set("v4.11")),
		},
		"unset": {enabled: sets.List(Known())},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Resolve(Wanted(c.spec, c.always...), sets.New(c.had...), c.needed)
			if diff := cmp.Diff(sets.List(sets.New(c.enabled...)), sets.List(got.Enabled)); diff != "" {
				t.Errorf("enabled (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(sets.List(sets.New(c.implicit...)), got.Implicit); diff != "" {
				t.Errorf("implicit (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	status := Status(Resolve(sets.New("marketplace", "Console"), nil, nil).Capabilities)
	if diff := cmp.Diff([]configv1.ClusterVersionCapability{"Console", "marketplace"}, status.EnabledCapabilities); diff != "" {
		t.Errorf("enabled (-want +got):\n%s", diff)
	}
	if len(status.KnownCapabilities) != 19 {
		t.Errorf("known are %v", status.KnownCapabilities)
	}
	if diff := cmp.Diff(sets.New("Console", "marketplace"), Had(status)); diff != "" {
		t.Errorf("had (-want +got):\n%s", diff)
	}
}
