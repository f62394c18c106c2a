// Package capability knows the optional parts of a platform: which there are, which sets of
// them there are, and which of them a cluster has.
//
// It decides only. Which manifests belong to a capability is known to internal/release.
package capability

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// sets in the order of versions: each one has all of those before it.
var growth = []struct {
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

// Set gives the capabilities of a set. The empty name stands for CapabilitySetCurrent, which
// has every known capability; a name that is not known has none.
func Set(name configv1.ClusterVersionCapabilitySet) sets.Set[string] {
	if name == "" {
		name = configv1.CapabilitySetCurrent
	}
	result := sets.Set[string]{}
	for _, step := range growth {
		for _, capability := range step.added {
			result.Insert(string(capability))
		}
		if step.set == name {
			return result
		}
	}
	return sets.Set[string]{}
}

// Known gives every capability.
func Known() sets.Set[string] { return Set(configv1.CapabilitySetCurrent) }

// Wanted gives the capabilities that a spec asks for, those always included that are given.
func Wanted(spec *configv1.ClusterVersionCapabilitiesSpec, always ...string) sets.Set[string] {
	result := sets.New(always...)
	if spec == nil {
		return result.Union(Set(""))
	}
	for _, capability := range spec.AdditionalEnabledCapabilities {
		result.Insert(string(capability))
	}
	return result.Union(Set(spec.BaselineCapabilitySet))
}

// Resolved are the capabilities of a cluster.
type Resolved struct {
	release.Capabilities

	// Implicit are those that are enabled though the spec does not ask for them, sorted.
	Implicit []string
}

// Resolve gives the capabilities of a cluster from those that its spec wants, those that it
// has had, and those that an update must add so that nothing is left without an owner. A
// capability that was enabled once stays so.
func Resolve(wanted, had sets.Set[string], needed []string) Resolved {
	enabled := wanted.Union(had).Insert(needed...)
	return Resolved{
		Capabilities: release.Capabilities{Known: Known(), Enabled: enabled},
		Implicit:     sets.List(enabled.Difference(wanted)),
	}
}

// Had gives the capabilities that a status says the cluster has.
func Had(status configv1.ClusterVersionCapabilitiesStatus) sets.Set[string] {
	result := sets.Set[string]{}
	for _, capability := range status.EnabledCapabilities {
		result.Insert(string(capability))
	}
	return result
}

// Status gives capabilities as a ClusterVersion reports them, sorted.
func Status(c release.Capabilities) configv1.ClusterVersionCapabilitiesStatus {
	return configv1.ClusterVersionCapabilitiesStatus{EnabledCapabilities: sorted(c.Enabled), KnownCapabilities: sorted(c.Known)}
}

func sorted(names sets.Set[string]) []configv1.ClusterVersionCapability {
	var result []configv1.ClusterVersionCapability
	for name := range names {
		result = append(result, configv1.ClusterVersionCapability(name))
	}
	slices.Sort(result)
	return result
}
