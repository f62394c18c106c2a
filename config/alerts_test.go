package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

// TestAlertsOfClassic checks when the alerts of OLM Classic fire, with the rules tests of promtool.
func TestAlertsOfClassic(t *testing.T) {
	promtool := checkout.FindProgram(t, "promtool")
	data, err := os.ReadFile(filepath.Join("classic", "olm-operator", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	var rule struct {
		Spec struct {
			Groups []struct {
				Name  string           `json:"name"`
				Rules []map[string]any `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(data, &rule); err != nil {
		t.Fatal(err)
	}

	tests, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	for _, group := range rule.Spec.Groups {
		for _, rule := range group.Rules {
			if rule["annotations"] == nil {
				t.Errorf("alert %v: got no annotations, want some", rule["alert"])
			}
			delete(rule, "annotations") // The tests check when an alert fires, not its text.
			name, _ := rule["alert"].(string)
			if strings.Count(string(tests), "alertname: "+name+"\n") < 2 {
				t.Errorf("alert %s: got fewer than two tests, want one in which it fires and one in which it does not", name)
			}
		}
	}

	rules, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	for name, data := range map[string][]byte{"rules.yaml": rules, "alerts.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "alerts.yaml")).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
