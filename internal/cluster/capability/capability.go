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

// Set returns the capabilities of a set under feature gates that are on, as release.CapabilitySet
// does. A name that is not known has none.
func Set(name configv1.ClusterVersionCapabilitySet, gates sets.Set[string]) sets.Set[string] {
	set, _ := release.CapabilitySet(name, gates)
	return set
}

// Known returns every capability that there is under feature gates that are on.
func Known(gates sets.Set[string]) sets.Set[string] { return Set(configv1.CapabilitySetCurrent, gates) }

// Wanted returns the capabilities that a spec asks for, and those that are always included, as far
// as they are known under feature gates that are on.
func Wanted(spec *configv1.ClusterVersionCapabilitiesSpec, gates sets.Set[string], always ...string) sets.Set[string] {
	asked := sets.New(always...)
	if spec == nil {
		return asked.Union(Known(gates))
	}

	for _, capability := range spec.AdditionalEnabledCapabilities {
		asked.Insert(string(capability))
	}
	return asked.Union(Set(spec.BaselineCapabilitySet, gates)).Intersection(Known(gates))
}

// Gated returns the additional capabilities that a spec asks for and that are not known, because
// their feature gates are not on.
func Gated(spec *configv1.ClusterVersionCapabilitiesSpec, gates sets.Set[string]) []string {
	if spec == nil {
		return nil
	}

	known := Known(gates)
	var found []string
	for _, capability := range spec.AdditionalEnabledCapabilities {
		if !known.Has(string(capability)) {
			found = append(found, string(capability))
		}
	}

	return found
}

// Resolved are the capabilities of a cluster.
type Resolved struct {
	release.Capabilities

	// Implicit are those that are enabled though the spec does not ask for them, sorted.
	Implicit []string
}

// Resolve returns the capabilities of a cluster from those that are known, those that its spec
// wants, those that it has had, and those that an update must add so that nothing is left without
// an owner. A capability that was enabled once stays so, as long as it is known.
func Resolve(known, wanted, had sets.Set[string], needed []string) Resolved {
	enabled := wanted.Union(had.Intersection(known)).Insert(needed...)
	return Resolved{
		Capabilities: release.Capabilities{Known: known, Enabled: enabled},
		Implicit:     sets.List(enabled.Difference(wanted)),
	}
}

// Had returns the capabilities that a status says the cluster has.
func Had(status configv1.ClusterVersionCapabilitiesStatus) sets.Set[string] {
	result := sets.Set[string]{}
	for _, capability := range status.EnabledCapabilities {
		result.Insert(string(capability))
	}
	return result
}

// Status returns capabilities as a ClusterVersion reports them, sorted.
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
