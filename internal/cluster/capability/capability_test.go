package capability

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

func TestSets(t *testing.T) {
	all := []string{
		"Build", "CSISnapshot", "CloudControllerManager", "CloudCredential", "Console", "DeploymentConfig", "ImageRegistry", "Ingress",
		"Insights", "MachineAPI", "NodeTuning", "OperatorLifecycleManager", "OperatorLifecycleManagerV1", "Storage", "baremetal", "marketplace", "openshift-samples",
	}
	want := sets.New[string]()
	for _, set := range []struct {
		name configv1.ClusterVersionCapabilitySet
		// adds are the capabilities that the previous set does not have.
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
		if diff := cmp.Diff(sets.List(want), sets.List(Set(set.name, nil))); diff != "" {
			t.Errorf("set %q (-want +got):\n%s", set.name, diff)
		}
	}

	if got := Set("v9", nil); got.Len() > 0 {
		t.Errorf("got capabilities %v of an unknown set, want none", got)
	}
}

// Two capabilities are known, requested and kept only while their feature gates are enabled.
func TestGates(t *testing.T) {
	const api, requirements = "ClusterAPI", "CompatibilityRequirements"
	spec := &configv1.ClusterVersionCapabilitiesSpec{
		BaselineCapabilitySet: configv1.CapabilitySetNone, AdditionalEnabledCapabilities: []configv1.ClusterVersionCapability{"Console", api, requirements},
	}
	for name, c := range map[string]struct {
		gates          []string
		enabled, gated []string
	}{
		"none on": {enabled: []string{"Console"}, gated: []string{api, requirements}},
		"another": {gates: []string{"Other"}, enabled: []string{"Console"}, gated: []string{api, requirements}},
		"one on":  {gates: []string{"CRDCompatibilityRequirementOperator"}, enabled: []string{requirements, "Console"}, gated: []string{api}},
		"both on": {gates: []string{"CRDCompatibilityRequirementOperator", "ClusterAPIMachineManagement"}, enabled: []string{api, requirements, "Console"}},
	} {
		gates := sets.New(c.gates...)
		got := Resolve(Known(gates), Wanted(spec, gates), sets.New(api, requirements), nil)
		if diff := cmp.Diff(c.enabled, sets.List(got.Enabled)); diff != "" {
			t.Errorf("%s: enabled (-want +got):\n%s", name, diff)
		}
		if got, want := Known(gates).Len(), 19-len(c.gated); got != want {
			t.Errorf("%s: got %d known capabilities, want %d", name, got, want)
		}
		if diff := cmp.Diff(c.gated, DisabledByGates(spec, gates)); diff != "" {
			t.Errorf("%s: gated (-want +got):\n%s", name, diff)
		}
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
		"always":             {spec: none, always: []string{"Ingress"}, enabled: []string{"Ingress"}},
		"always, unknown":    {spec: none, always: []string{"Ingress", "Unknown"}, enabled: []string{"Ingress"}},
		"unset, unknown":     {always: []string{"Unknown"}, enabled: sets.List(Known(nil))},
		"enabled before":     {spec: none, had: []string{"Console", "Build"}, enabled: []string{"Build", "Console"}, implicit: []string{"Build", "Console"}},
		"added by an update": {spec: none, needed: []string{"Storage"}, enabled: []string{"Storage"}, implicit: []string{"Storage"}},
		"wanted and needed": {
			spec:   &configv1.ClusterVersionCapabilitiesSpec{BaselineCapabilitySet: "v4.11"},
			needed: []string{"baremetal"}, enabled: sets.List(Set("v4.11", nil)),
		},
		"unset": {enabled: sets.List(Known(nil))},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Resolve(Known(nil), Wanted(c.spec, nil, c.always...), sets.New(c.had...), c.needed)
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
	status := Status(Resolve(Known(nil), sets.New("marketplace", "Console"), nil, nil).Capabilities)
	if diff := cmp.Diff([]configv1.ClusterVersionCapability{"Console", "marketplace"}, status.EnabledCapabilities); diff != "" {
		t.Errorf("enabled (-want +got):\n%s", diff)
	}
	if len(status.KnownCapabilities) != 17 {
		t.Errorf("got known capabilities %v, want 17", status.KnownCapabilities)
	}
	if diff := cmp.Diff(sets.New("Console", "marketplace"), EnabledInStatus(status)); diff != "" {
		t.Errorf("had (-want +got):\n%s", diff)
	}
}
