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

// Included is a cluster, as far as it decides which manifests it has.
type Included struct {
	// Profile of the cluster. Empty means release.DefaultProfile.
	Profile string
	// FeatureSet of the cluster. Empty means release.DefaultFeatureSet.
	FeatureSet string
	// FeatureGates that are on.
	FeatureGates []string
	// Capabilities that the cluster has. Nil: all.
	Capabilities []string
}

// IsEmpty reports whether nothing is said of the cluster.
func (i Included) IsEmpty() bool {
	return i.Profile == "" && i.FeatureSet == "" && len(i.FeatureGates) == 0 && i.Capabilities == nil
}

// choose returns the manifests that the cluster has.
func (i Included) choose(manifests []release.Manifest, major uint64) []release.Manifest {
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

// installConfig is what is read of an install-config.yaml. The rest says nothing about which
// manifests a cluster has.
type installConfig struct {
	FeatureSet   string                                   `json:"featureSet"`
	FeatureGates []string                                 `json:"featureGates"`
	Capabilities *configv1.ClusterVersionCapabilitiesSpec `json:"capabilities"`
}

// with completes what is known of the cluster by what its install-config.yaml says.
func (i Included) with(data []byte) (Included, error) {
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

	return i.withCapabilities("capabilities", config.Capabilities)
}

// withCapabilities has the cluster have the capabilities that a spec asks for, unless it is
// said already which it has. The field is where the spec stands.
func (i Included) withCapabilities(field string, spec *configv1.ClusterVersionCapabilitiesSpec) (Included, error) {
	if i.Capabilities != nil || spec == nil {
		return i, nil
	}

	baseline := cmp.Or(spec.BaselineCapabilitySet, configv1.CapabilitySetCurrent)
	if baseline == configv1.CapabilitySetCurrent {
		return i, nil // It has all, also those of which only the release knows.
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
