package v1_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operatorv1 "github.com/mainstay-dev/mainstay/api/operator/v1"
	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

// Each case is a policy as YAML, which is sent to a real API server. refused is a part of the message, and
// empty if the policy is accepted.
func TestRules(t *testing.T) {
	cases := map[string]struct{ name, policy, refused string }{
		"nothing":                 {"", "{}", ""},
		"another name":            {"other", "{}", "whose name is cluster"},
		"everything":              {"", "{files: [{path: /etc/a, actions: [{type: Drain}, {type: Reload, reload: {serviceName: a.service}}]}], units: [{name: a.service, actions: [{type: DaemonReload}, {type: Restart, restart: {serviceName: a.service}}]}], sshkey: {actions: [{type: None}]}}", ""},
		"no actions":              {"", "{sshkey: {actions: []}}", "should have at least 1 items"},
		"an unknown action":       {"", "{sshkey: {actions: [{type: Explode}]}}", "Unsupported value"},
		"a reboot with others":    {"", "{sshkey: {actions: [{type: Drain}, {type: Reboot}]}}", "None and Reboot stand alone"},
		"nothing with others":     {"", "{sshkey: {actions: [{type: None}, {type: Drain}]}}", "None and Reboot stand alone"},
		"a reload without a unit": {"", "{sshkey: {actions: [{type: Reload}]}}", "reload is required when type is Reload"},
		"a unit for a drain":      {"", "{sshkey: {actions: [{type: Drain, restart: {serviceName: a.service}}]}}", "restart is required when type is Restart, and not allowed otherwise"},
		"an option for a unit":    {"", "{sshkey: {actions: [{type: Reload, reload: {serviceName: -H.service}}]}}", "should match"},
		"a unit without a type":   {"", "{sshkey: {actions: [{type: Reload, reload: {serviceName: a}}]}}", "should match"},
		"a relative path":         {"", "{files: [{path: etc, actions: [{type: None}]}]}", "should match"},
		"a path twice":            {"", "{files: [{path: /a, actions: [{type: None}]}, {path: /a, actions: [{type: None}]}]}", "Duplicate"},
	}

	c := env.Client(t)
	for name, rule := range cases {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte("spec: {managementState: Managed, logLevel: Normal, operatorLogLevel: Normal, nodeDisruptionPolicy: "+rule.policy+"}"), &object.Object); err != nil {
				t.Fatal(err)
			}

			object.SetGroupVersionKind(operatorv1.GroupVersion.WithKind(operatorv1.MachineConfigurationKind))
			object.SetName(operatorv1.MachineConfigurationName)
			if rule.name != "" {
				object.SetName(rule.name)
			}

			err := c.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case rule.refused == "" && err != nil:
				t.Errorf("got error %v, want none", err)
			case rule.refused != "" && (err == nil || !strings.Contains(err.Error(), rule.refused)):
				t.Errorf("got error %v, want one that contains %q", err, rule.refused)
			}
		})
	}
}
