package run

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
)

// featureCertManager is the gate for webhook certificates from cert-manager.
const featureCertManager = "WebhookProviderCertManager"

// knownFeatures are the supported feature gates, with the names of upstream OLM. All of them are enabled. The
// value describes the effect of disabling a gate that cannot be disabled; it is empty for other gates.
var knownFeatures = map[string]string{
	"APIV1MetasHandler":                 "the metas endpoint stays on",
	"BoxcutterRuntime":                  "roll-out always goes through ClusterObjectSets",
	"DeploymentConfig":                  "spec.config.inline.deploymentConfig stays on",
	"OperatorLifecycleManagerV1":        "Operators stay on",
	"PreflightPermissions":              "permissions stay checked before an installation",
	"SingleOwnNamespaceInstallSupport":  "SingleNamespace and OwnNamespace stay on",
	"SyntheticPermissions":              "it has no effect",
	featureCertManager:                  "",
	"WebhookProviderOpenshiftServiceCA": "it has no effect",
}

// featureGates is the flag --feature-gates: NAME=true|false, separated by commas.
type featureGates map[string]bool

// String implements pflag.Value.
func (g featureGates) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		pairs = append(pairs, name+"="+strconv.FormatBool(g[name]))
	}
	return strings.Join(pairs, ",")
}

// Set implements pflag.Value. An unknown name is an error, because it is most likely misspelled.
func (g featureGates) Set(value string) error {
	for pair := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}

		name, state, ok := strings.Cut(strings.TrimSpace(pair), "=")
		on, err := strconv.ParseBool(state)
		if !ok || err != nil {
			return fmt.Errorf("%q is not NAME=true or NAME=false", pair)
		}
		if _, known := knownFeatures[name]; !known {
			return fmt.Errorf("unknown feature %q; the supported features are %s", name, strings.Join(slices.Sorted(maps.Keys(knownFeatures)), ", "))
		}

		g[name] = on
	}

	return nil
}

// Type implements pflag.Value.
func (g featureGates) Type() string { return "NAME=BOOL,…" }

// isEnabled reports whether a feature is enabled. Features are enabled by default.
func (g featureGates) isEnabled(name string) bool {
	on, set := g[name]
	return on || !set
}

// logIneffectiveGates logs the gates that were disabled but cannot be disabled.
func (g featureGates) logIneffectiveGates(log logr.Logger) {
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if !g[name] && knownFeatures[name] != "" {
			log.Info("A feature cannot be disabled", "feature", name, "effect", knownFeatures[name])
		}
	}
}
