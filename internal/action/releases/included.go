package releases

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	configv1 "github.com/mainstay-dev/mainstay/api/config/v1"
	"github.com/mainstay-dev/mainstay/internal/release"
)

// Included describes the properties of a cluster that select its manifests.
type Included struct {
	// Profile is the cluster profile. Empty means release.DefaultProfile.
	Profile string
	// FeatureSet is the feature set of the cluster. Empty means release.DefaultFeatureSet.
	FeatureSet string
	// FeatureGates are the enabled feature gates.
	FeatureGates []string
	// Capabilities are the enabled capabilities. Nil means all.
	Capabilities []string
}

// IsEmpty reports whether no property is set.
func (i Included) IsEmpty() bool {
	return i.Profile == "" && i.FeatureSet == "" && len(i.FeatureGates) == 0 && i.Capabilities == nil
}

// selectManifests returns the manifests that the cluster contains.
func (i Included) selectManifests(manifests []release.Manifest, major uint64) []release.Manifest {
	cluster := release.Cluster{Profile: i.Profile, FeatureSet: i.FeatureSet, FeatureGates: sets.New(i.FeatureGates...), MajorVersion: major}
	capabilities := release.Capabilities{Known: sets.Set[string]{}, Enabled: sets.New(i.Capabilities...)}
	for _, m := range manifests {
		capabilities.Known.Insert(m.Capabilities()...)
	}

	if i.Capabilities == nil {
		capabilities.Enabled = capabilities.Known
	}

	return slices.DeleteFunc(cluster.Select(manifests), func(m release.Manifest) bool {
		_, excluded := capabilities.Excludes(m)
		return excluded
	})
}

// installConfig contains the fields of an install-config.yaml that select manifests.
type installConfig struct {
	FeatureSet   string                                   `json:"featureSet"`
	FeatureGates []string                                 `json:"featureGates"`
	Capabilities *configv1.ClusterVersionCapabilitiesSpec `json:"capabilities"`
}

// mergeInstallConfig returns a copy that is completed from an install-config.yaml.
// Properties that are set take precedence.
func (i Included) mergeInstallConfig(data []byte) (Included, error) {
	var config installConfig
	if err := yaml.Unmarshal(data, &config); err != nil {
		return i, fmt.Errorf("cannot be read as YAML: %w", err)
	}
	if i.FeatureSet == "" {
		i.FeatureSet = config.FeatureSet
	}

	for _, text := range config.FeatureGates {
		name, value, ok := strings.Cut(text, "=")
		if !ok || value != "true" && value != "false" {
			return i, fmt.Errorf("featureGates: %q must be written as Name=true or Name=false", text)
		}
		if value == "true" {
			i.FeatureGates = append(i.FeatureGates, name)
		}
	}

	return i.mergeCapabilities("capabilities", config.Capabilities)
}

// mergeCapabilities returns a copy with the capabilities of a spec, unless capabilities are
// set. Errors name the field that contains the spec.
func (i Included) mergeCapabilities(field string, spec *configv1.ClusterVersionCapabilitiesSpec) (Included, error) {
	if i.Capabilities != nil || spec == nil {
		return i, nil
	}

	baseline := cmp.Or(spec.BaselineCapabilitySet, configv1.CapabilitySetCurrent)
	if baseline == configv1.CapabilitySetCurrent {
		return i, nil // all capabilities, including those that only the release knows
	}

	set, known := release.CapabilitySet(baseline, sets.New(i.FeatureGates...))
	if !known {
		return i, fmt.Errorf("%s.baselineCapabilitySet: %q is not known", field, baseline)
	}

	for _, name := range spec.AdditionalEnabledCapabilities {
		set.Insert(string(name))
	}

	i.Capabilities = sets.List(set)
	return i, nil
}
