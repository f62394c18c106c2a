package v1_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// Each case is a spec as YAML, which is sent to a real API server. refused is a part of the
// message, and empty if the spec is accepted.
func TestClusterVersionRules(t *testing.T) {
	stores := strings.Repeat("%s", 33)
	for i := range 33 {
		stores = strings.Replace(stores, "%s", fmt.Sprintf("{url: 'https://store.example/%d'},", i), 1)
	}

	cases := map[string]struct{ spec, refused string }{
		"an empty spec":                  {"", ""},
		"version":                        {"desiredUpdate: {version: 1.2.3}", ""},
		"image":                          {"desiredUpdate: {image: 'registry.example/release@sha256:00'}", ""},
		"architecture":                   {"desiredUpdate: {version: 1.2.3, architecture: Multi}", ""},
		"architecture and image":         {"desiredUpdate: {version: 1.2.3, architecture: Multi, image: a}", "cannot set both Architecture and Image"},
		"architecture without a version": {"desiredUpdate: {architecture: Multi}", "Version must be set if Architecture is set"},
		"empty architecture":             {"desiredUpdate: {architecture: '', image: a}", ""},
		"another architecture":           {"desiredUpdate: {version: 1.2.3, architecture: arm64}", "Unsupported value"},
		"accepted risk":                  {"desiredUpdate: {version: 1.2.3, acceptRisks: [{name: Slow}]}", ""},
		"accepted risk alone":            {"desiredUpdate: {acceptRisks: [{name: Slow}]}", ""},
		"no accepted risk":               {"desiredUpdate: {version: 1.2.3, acceptRisks: []}", "at least 1"},
		"accepted risk with a long name": {"desiredUpdate: {version: 1.2.3, acceptRisks: [{name: " + strings.Repeat("a", 257) + "}]}", "256"},
		"accepted risk twice":            {"desiredUpdate: {version: 1.2.3, acceptRisks: [{name: A}, {name: A}]}", "Duplicate"},
		"32 stores":                      {"signatureStores: [" + stores[:strings.LastIndex(stores, "{")] + "]", ""},
		"33 stores":                      {"signatureStores: [" + stores + "]", "32"},
		"no store":                       {"signatureStores: []", ""},
		"a store that is not a URL":      {"signatureStores: [{url: here}]", "url must be a valid absolute URL"},
		"baseline":                       {"capabilities: {baselineCapabilitySet: v4.11}", ""},
		"another baseline":               {"capabilities: {baselineCapabilitySet: v4.10}", "Unsupported value"},
		"marketplace alone":              {"capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [marketplace]}", "needs the OperatorLifecycleManager capability"},
		"marketplace with OLM":           {"capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [marketplace, OperatorLifecycleManager]}", ""},
		"marketplace over a baseline":    {"capabilities: {baselineCapabilitySet: v4.11, additionalEnabledCapabilities: [marketplace]}", ""},
		"ClusterAPI alone":               {"capabilities: {baselineCapabilitySet: None, additionalEnabledCapabilities: [ClusterAPI]}", "needs the CompatibilityRequirements capability"},
		"ClusterAPI without a baseline":  {"capabilities: {additionalEnabledCapabilities: [ClusterAPI]}", ""},
		"unknown capability":             {"capabilities: {additionalEnabledCapabilities: [Coffee]}", "Unsupported value"},
		"override":                       {"overrides: [{kind: Deployment, group: apps, namespace: a, name: b, unmanaged: true}]", ""},
		"override twice":                 {"overrides: [{kind: A, group: '', namespace: '', name: b, unmanaged: true}, {kind: A, group: '', namespace: '', name: b, unmanaged: false}]", "Duplicate"},
	}

	c := env.Client(t)
	for name, rule := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), clusterVersion(t, rule.spec), client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case rule.refused == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case rule.refused != "" && (err == nil || !strings.Contains(err.Error(), rule.refused)):
				t.Errorf("got error %v, want one that contains %q", err, rule.refused)
			}
		})
	}
}

// TestMarketplaceOnAClusterThatHasOLM checks that the enabled capabilities of the status count like those of the spec.
func TestMarketplaceOnAClusterThatHasOLM(t *testing.T) {
	c := env.Client(t)
	object := clusterVersion(t, "")
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = c.Delete(t.Context(), object) })
	object.Object["status"] = map[string]any{
		"desired": map[string]any{"version": "1.0.0", "image": "a"}, "observedGeneration": int64(1), "versionHash": "", "availableUpdates": nil,
		"capabilities": map[string]any{"enabledCapabilities": []any{"OperatorLifecycleManager"}},
	}
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}

	capabilities := map[string]any{"baselineCapabilitySet": "None", "additionalEnabledCapabilities": []any{"marketplace"}}
	if err := unstructured.SetNestedMap(object.Object, capabilities, "spec", "capabilities"); err != nil {
		t.Fatal(err)
	}
	if err := c.Update(t.Context(), object); err != nil {
		t.Errorf("got error %v, want none", err)
	}
}

func clusterVersion(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	text := "apiVersion: config.openshift.io/v1\nkind: ClusterVersion\nmetadata: {generateName: version-}\nspec:\n  clusterID: 3f0d6b5e-7c1a-4b0e-9a65-0f5b0f9d2c11\n"
	if spec != "" {
		text += "  " + spec + "\n"
	}
	if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}

	return object
}
