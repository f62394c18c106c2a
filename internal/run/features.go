package run

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
)

// featureCertManager takes the certificates of webhooks from cert-manager where it is.
const featureCertManager = "WebhookProviderCertManager"

// features are the feature gates that scripts of the field set. What they name is on;
// the value says what turning one off does instead, and is empty where that works.
var features = map[string]string{
	"APIV1MetasHandler":                 "the metas endpoint stays on",
	"BoxcutterRuntime":                  "roll-out always goes through ClusterObjectSets",
	"DeploymentConfig":                  "spec.config.inline.deploymentConfig stays on",
	"PreflightPermissions":              "permissions stay checked before an installation",
	"SingleOwnNamespaceInstallSupport":  "SingleNamespace and OwnNamespace stay on",
	"SyntheticPermissions":              "it has no effect",
	featureCertManager:                  "",
	"WebhookProviderOpenshiftServiceCA": "it has no effect",
}

// featureGates is the flag --feature-gates: NAME=true|false, comma separated.
type featureGates map[string]bool

// String returns the gates as they were set.
func (g featureGates) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		pairs = append(pairs, name+"="+strconv.FormatBool(g[name]))
	}
	return strings.Join(pairs, ",")
}

// Set reads gates. A name that nobody knows is an error: it is most likely misspelt.
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
		if _, known := features[name]; !known {
			return fmt.Errorf("unknown feature %q; known are %s", name, strings.Join(slices.Sorted(maps.Keys(features)), ", "))
		}

		g[name] = on
	}

	return nil
}

// Type names the value in the help text.
func (g featureGates) Type() string { return "NAME=BOOL,…" }

// enabled reports whether a feature is on, which it is unless it was turned off.
func (g featureGates) enabled(name string) bool {
	on, set := g[name]
	return on || !set
}

// warn says what a gate that was turned off, and cannot be, does instead.
func (g featureGates) warn(log logr.Logger) {
	for _, name := range slices.Sorted(maps.Keys(g)) {
		if !g[name] && features[name] != "" {
			log.Info("A feature cannot be turned off", "feature", name, "effect", features[name])
		}
	}
}
