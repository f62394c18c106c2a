package release

import (
	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
)

// capabilitySetSteps are the capability sets in the order of versions. Each set includes all
// sets before it.
var capabilitySetSteps = []struct {
	set   configv1.ClusterVersionCapabilitySet
	added []configv1.ClusterVersionCapability
}{
	{configv1.CapabilitySetNone, nil},
	{"v4.11", []configv1.ClusterVersionCapability{
		configv1.CapabilityBaremetal, configv1.CapabilityMarketplace, configv1.CapabilityOpenShiftSamples, configv1.CapabilityMachineAPI,
	}},
	{"v4.12", []configv1.ClusterVersionCapability{
		configv1.CapabilityConsole, configv1.CapabilityInsights, configv1.CapabilityStorage, configv1.CapabilityCSISnapshot,
	}},
	{"v4.13", []configv1.ClusterVersionCapability{configv1.CapabilityNodeTuning}},
	{"v4.14", []configv1.ClusterVersionCapability{
		configv1.CapabilityBuild, configv1.CapabilityDeploymentConfig, configv1.CapabilityImageRegistry,
	}},
	{"v4.15", []configv1.ClusterVersionCapability{
		configv1.CapabilityOperatorLifecycleManager, configv1.CapabilityCloudCredential,
	}},
	{"v4.16", []configv1.ClusterVersionCapability{configv1.CapabilityIngress, configv1.CapabilityCloudControllerManager}},
	{"v4.17", nil},
	{"v4.18", []configv1.ClusterVersionCapability{configv1.CapabilityOperatorLifecycleManagerV1}},
	{configv1.CapabilitySetCurrent, []configv1.ClusterVersionCapability{
		configv1.CapabilityCompatibilityRequirements, configv1.CapabilityClusterAPI,
	}},
}

// capabilityGates are the feature gates that must be enabled for a capability to be known.
var capabilityGates = map[configv1.ClusterVersionCapability]string{
	configv1.CapabilityCompatibilityRequirements: "CRDCompatibilityRequirementOperator",
	configv1.CapabilityClusterAPI:                "ClusterAPIMachineManagement",
}

// CapabilitySet returns the capabilities of a set, without those whose feature gates are not in
// gates. An empty name means CapabilitySetCurrent, which has every known capability. An unknown
// set is empty, and known is false.
func CapabilitySet(name configv1.ClusterVersionCapabilitySet, gates sets.Set[string]) (set sets.Set[string], known bool) {
	if name == "" {
		name = configv1.CapabilitySetCurrent
	}

	set = sets.Set[string]{}
	for _, step := range capabilitySetSteps {
		for _, capability := range step.added {
			if gate, isGated := capabilityGates[capability]; !isGated || gates.Has(gate) {
				set.Insert(string(capability))
			}
		}
		if step.set == name {
			return set, true
		}
	}

	return sets.Set[string]{}, false
}
