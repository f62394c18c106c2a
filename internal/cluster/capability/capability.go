// Package capability resolves which of the optional parts of a platform a cluster has.
//
// Package internal/release defines the capabilities, their sets, and which manifests belong to
// one.
package capability

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Set returns the capabilities of a set with the given enabled feature gates, as
// release.CapabilitySet does. An unknown set is empty.
func Set(name configv1.ClusterVersionCapabilitySet, gates sets.Set[string]) sets.Set[string] {
	set, _ := release.CapabilitySet(name, gates)
	return set
}

// Known returns all capabilities that exist with the given enabled feature gates.
func Known(gates sets.Set[string]) sets.Set[string] { return Set(configv1.CapabilitySetCurrent, gates) }

// Wanted returns the capabilities that a spec requests, and those in always. A nil spec requests
// all known ones. The result is limited to those that are known with the given enabled feature
// gates.
func Wanted(spec *configv1.ClusterVersionCapabilitiesSpec, gates sets.Set[string], always ...string) sets.Set[string] {
	if spec == nil {
		return Known(gates)
	}

	requested := sets.New(always...)
	for _, capability := range spec.AdditionalEnabledCapabilities {
		requested.Insert(string(capability))
	}
	return requested.Union(Set(spec.BaselineCapabilitySet, gates)).Intersection(Known(gates))
}

// DisabledByGates returns the additional capabilities in a spec that are not known because their feature
// gates are not enabled.
func DisabledByGates(spec *configv1.ClusterVersionCapabilitiesSpec, gates sets.Set[string]) []string {
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

	// Implicit are the enabled capabilities that the spec does not ask for, sorted.
	Implicit []string
}

// Resolve returns the capabilities of a cluster. known are all known ones, and wanted are those
// of the spec. had are those that were enabled before. needed are those that an update must
// enable so that no object is left without a manager. A capability that was enabled once stays
// enabled as long as it is known.
func Resolve(known, wanted, had sets.Set[string], needed []string) Resolved {
	enabled := wanted.Union(had.Intersection(known)).Insert(needed...)
	return Resolved{
		Capabilities: release.Capabilities{Known: known, Enabled: enabled},
		Implicit:     sets.List(enabled.Difference(wanted)),
	}
}

// EnabledInStatus returns the enabled capabilities of a status.
func EnabledInStatus(status configv1.ClusterVersionCapabilitiesStatus) sets.Set[string] {
	result := sets.Set[string]{}
	for _, capability := range status.EnabledCapabilities {
		result.Insert(string(capability))
	}
	return result
}

// Status returns capabilities in the format of a ClusterVersion, sorted.
func Status(c release.Capabilities) configv1.ClusterVersionCapabilitiesStatus {
	return configv1.ClusterVersionCapabilitiesStatus{EnabledCapabilities: sortedCapabilities(c.Enabled), KnownCapabilities: sortedCapabilities(c.Known)}
}

func sortedCapabilities(names sets.Set[string]) []configv1.ClusterVersionCapability {
	var result []configv1.ClusterVersionCapability
	for name := range names {
		result = append(result, configv1.ClusterVersionCapability(name))
	}
	slices.Sort(result)
	return result
}
