package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

// overrideForPlan returns a copy of the extension with the fields that the annotation overrides.
// The field id has no effect: it only distinguishes requests.
func overrideForPlan(ext *olmv1.ClusterExtension, value string) (*olmv1.ClusterExtension, error) {
	wanted := ext.DeepCopy()
	if value == olmv1.PlanOnly {
		return wanted, nil
	}

	var fields struct {
		ID                      string                             `json:"id"`
		Version                 *string                            `json:"version"`
		Channels                *[]string                          `json:"channels"`
		Selector                *metav1.LabelSelector              `json:"selector"`
		UpgradeConstraintPolicy *olmv1.UpgradeConstraintPolicy     `json:"upgradeConstraintPolicy"`
		CRDUpgradeSafety        *olmv1.CRDUpgradeSafetyEnforcement `json:"crdUpgradeSafety"`
		Config                  *map[string]any                    `json:"config"`
	}

	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&fields)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the object")
		}
	}

	if err != nil || !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return nil, errors.Join(fmt.Errorf(
			"it must be %q, or a JSON object with some of version, channels, selector, upgradeConstraintPolicy, crdUpgradeSafety and config", olmv1.PlanOnly), err)
	}

	filter := wanted.Spec.Source.Catalog
	if fields.Version != nil {
		filter.Version = *fields.Version
	}
	if fields.Channels != nil {
		filter.Channels = *fields.Channels
	}
	if fields.Selector != nil {
		filter.Selector = fields.Selector
	}

	if policy := fields.UpgradeConstraintPolicy; policy != nil {
		if *policy != olmv1.UpgradeConstraintPolicyCatalogProvided && *policy != olmv1.UpgradeConstraintPolicySelfCertified {
			return nil, fmt.Errorf("upgradeConstraintPolicy %q: it is %s or %s", *policy,
				olmv1.UpgradeConstraintPolicyCatalogProvided, olmv1.UpgradeConstraintPolicySelfCertified)
		}
		filter.UpgradeConstraintPolicy = *policy
	}

	if enforcement := fields.CRDUpgradeSafety; enforcement != nil {
		if *enforcement != olmv1.CRDUpgradeSafetyEnforcementNone && *enforcement != olmv1.CRDUpgradeSafetyEnforcementStrict {
			return nil, fmt.Errorf("crdUpgradeSafety %q: it is %s or %s", *enforcement,
				olmv1.CRDUpgradeSafetyEnforcementNone, olmv1.CRDUpgradeSafetyEnforcementStrict)
		}
		if wanted.Spec.Install == nil {
			wanted.Spec.Install = &olmv1.ClusterExtensionInstallConfig{}
		}
		wanted.Spec.Install.Preflight = &olmv1.PreflightConfig{CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: *enforcement}}
	}

	return wanted, overrideConfig(&wanted.Spec, fields.Config)
}

// overrideConfig replaces the configuration of a spec unless config is nil. An empty one removes it.
func overrideConfig(spec *olmv1.ClusterExtensionSpec, config *map[string]any) error {
	if config == nil {
		return nil
	}

	spec.Config = nil
	if len(*config) == 0 {
		return nil
	}

	inline, err := json.Marshal(*config)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: inline}}
	return nil
}
