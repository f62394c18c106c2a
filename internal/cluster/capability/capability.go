// Package capability decides which of the optional parts of a platform a cluster has.
//
// Which parts and sets of them there are, and which manifests belong to one, is known to
// internal/release.
package capability

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Set gives the capabilities of a set, as release.CapabilitySet does. A name that is not known
// has none.
func Set(name configv1.ClusterVersionCapabilitySet) sets.Set[string] {
	set, _ := release.CapabilitySet(name)
	return set
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
