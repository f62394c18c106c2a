package v1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

// Each case is an OperatorHub as YAML without its type. refused is a part of the message, and empty if the OperatorHub
// is accepted.
func TestOperatorHubRules(t *testing.T) {
	cases := map[string]struct{ object, refused string }{
		"only the name":        {"metadata: {name: cluster}", ""},
		"another name":         {"metadata: {name: other}", "there is one OperatorHub, and its name is cluster"},
		"all off":              {"{metadata: {name: cluster}, spec: {disableAllDefaultSources: true}}", ""},
		"one on":               {"{metadata: {name: cluster}, spec: {disableAllDefaultSources: true, sources: [{name: a, disabled: false}]}}", ""},
		"twice":                {"{metadata: {name: cluster}, spec: {sources: [{name: a, disabled: false}, {name: a, disabled: true}]}}", ""},
		"no name":              {"{metadata: {name: cluster}, spec: {sources: [{name: '', disabled: true}]}}", "at least 1"},
		"a long name":          {"{metadata: {name: cluster}, spec: {sources: [{name: " + strings.Repeat("a", 254) + ", disabled: true}]}}", "253"},
		"no value of disabled": {"{metadata: {name: cluster}, spec: {sources: [{name: a}]}}", "Required value"},
		"an unknown field":     {"{metadata: {name: cluster}, spec: {sourcs: []}}", "unknown field"},
	}

	c := env.Client(t)
	for name, rule := range cases {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(rule.object), &object.Object); err != nil {
				t.Fatal(err)
			}

			object.SetAPIVersion("config.openshift.io/v1")
			object.SetKind("OperatorHub")
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
