package capability

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

func TestSets(t *testing.T) {
	sizes := map[configv1.ClusterVersionCapabilitySet]int{
		"None": 0, "v4.11": 4, "v4.12": 8, "v4.13": 9, "v4.14": 12, "v4.15": 14, "v4.16": 16, "v4.17": 16, "v4.18": 17, "vCurrent": 19, "": 19, "v9": 0,
	}
	for name, size := range sizes {
		if got := Set(name); got.Len() != size {
			t.Errorf("set %q has %d capabilities, not %d: %v", name, got.Len(), size, sets.List(got))
		}
	}
	want := []string{"MachineAPI", "baremetal", "marketplace", "openshift-samples"}
	if diff := cmp.Diff(want, sets.List(Set("v4.11"))); diff != "" {
		t.Errorf("v4.11 (-want +got):\n%s", diff)
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
