package render

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
	"github.com/mainstay-dev/mainstay/internal/bundle"
)

func bundleWithModes(modes ...v1alpha1.InstallModeType) *bundle.Bundle {
	b := &bundle.Bundle{}
	for _, mode := range modes {
		b.CSV.Spec.InstallModes = append(b.CSV.Spec.InstallModes, v1alpha1.InstallMode{Type: mode, Supported: true})
	}
	return b
}

func TestConfigSchema(t *testing.T) {
	const (
		own    = v1alpha1.InstallModeTypeOwnNamespace
		single = v1alpha1.InstallModeTypeSingleNamespace
		all    = v1alpha1.InstallModeTypeAllNamespaces
	)
	for _, c := range []struct {
		name         string
		modes        []v1alpha1.InstallModeType
		wantWatch    string
		wantRequired []string
	}{
		{name: "all only", modes: []v1alpha1.InstallModeType{all}},
		{
			name: "all and single", modes: []v1alpha1.InstallModeType{all, single},
			wantWatch: `{"description":"The namespace that the extension watches. It must not be the install namespace. When unset it watches all namespaces.","type":"string","maxLength":63,"pattern":"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}`,
		}, {
			name: "own only", modes: []v1alpha1.InstallModeType{own}, wantRequired: []string{"watchNamespace"},
			wantWatch: `{"description":"The namespace that the extension watches. It must be the install namespace.","type":"string","maxLength":63,"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}`,
		}, {
			name: "own and single", modes: []v1alpha1.InstallModeType{own, single}, wantRequired: []string{"watchNamespace"},
			wantWatch: `{"description":"The namespace that the extension watches.","type":"string","maxLength":63,"pattern":"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := ConfigSchema(bundleWithModes(c.modes...))
			watch := ""
			if property, ok := schema.Properties["watchNamespace"]; ok {
				encoded, err := json.Marshal(property)
				if err != nil {
					t.Fatal(err)
				}
				watch = string(encoded)
			}

			if diff := cmp.Diff(c.wantWatch, watch); diff != "" {
				t.Errorf("watchNamespace (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wantRequired, schema.Required); diff != "" {
				t.Errorf("required (-want +got):\n%s", diff)
			}

			fields := schema.Properties["deploymentConfig"].Properties
			for _, name := range []string{"env", "envFrom", "volumes", "volumeMounts", "tolerations", "resources", "nodeSelector", "affinity", "annotations", "selector"} {
				if _, ok := fields[name]; !ok {
					t.Errorf("the schema of deploymentConfig lacks the field %s", name)
				}
			}

			if len(fields) != 10 {
				t.Errorf("got %d fields of deploymentConfig, want 10", len(fields))
			}
		})
	}
}

func TestParseConfig(t *testing.T) {
	quantity := func(text string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(text)}}
	}
	all, oneNamespace := bundleWithModes("AllNamespaces"), bundleWithModes("OwnNamespace", "SingleNamespace")
	for _, c := range []struct {
		name, config string
		bundle       *bundle.Bundle
		want         Config
		problems     []string
	}{
		{name: "nothing", config: "", bundle: all},
		{name: "null", config: "null", bundle: all},
		{name: "empty", config: "{}", bundle: oneNamespace},
		{name: "null fields", config: `{"watchNamespace": null, "deploymentConfig": {"env": null}}`, bundle: all, want: Config{DeploymentConfig: &v1alpha1.SubscriptionConfig{}}},
		{name: "namespace", config: `{"watchNamespace": "a"}`, bundle: oneNamespace, want: Config{WatchNamespace: "a"}},
		{name: "number as quantity", config: `{"deploymentConfig": {"resources": {"limits": {"cpu": 2}}}}`, bundle: all, want: Config{DeploymentConfig: &v1alpha1.SubscriptionConfig{Resources: new(quantity("2"))}}},
		{name: "text as quantity", config: `{"deploymentConfig": {"resources": {"limits": {"cpu": "1.5e3"}}}}`, bundle: all, want: Config{DeploymentConfig: &v1alpha1.SubscriptionConfig{Resources: new(quantity("1.5e3"))}}},
		{name: "no JSON", config: "{", bundle: all, problems: []string{"spec.config.inline is not JSON: unexpected end of JSON input"}},
		{name: "a list", config: "[]", bundle: all, problems: []string{`spec.config.inline must be of type object: "array"`}},
		{name: "no namespaces to choose", config: `{"watchNamespace": "a"}`, bundle: all, problems: []string{`unknown field "watchNamespace": spec.config.inline.watchNamespace is a forbidden property`}},
		{name: "empty namespace", config: `{"watchNamespace": ""}`, bundle: oneNamespace, problems: []string{`field "watchNamespace" must match pattern: spec.config.inline.watchNamespace should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'`}},
		{name: "other case", config: `{"watchnamespace": "a"}`, bundle: oneNamespace, problems: []string{`unknown field "watchnamespace": spec.config.inline.watchnamespace is a forbidden property`}},
		{
			name: "everything wrong", bundle: oneNamespace,
			config: `{"watchNamespace": 1, "more": 1, "deploymentConfig": {"env": [{"value": "x"}], "resources": {"limits": {"cpu": "much"}}, "tolerations": {}, "nodeSelector": {"a": 1}, "replicas": 2,
				"volumes": [{"name": "v", "emptyDir": {"sizeLimit": true}, "magic": {}}]}}`,
			problems: []string{
				`field "deploymentConfig.resources.limits.cpu" must match pattern: spec.config.inline.deploymentConfig.resources.limits.cpu should match '^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$'`,
				`required field "deploymentConfig.env[0].name" is missing: spec.config.inline.deploymentConfig.env[0].name is required`,
				`spec.config.inline.deploymentConfig.nodeSelector.a must be of type string: "integer"`,
				`spec.config.inline.deploymentConfig.tolerations must be of type array: "object"`,
				`spec.config.inline.deploymentConfig.volumes[0].emptyDir.sizeLimit must be of type string,number: "boolean"`,
				`spec.config.inline.watchNamespace must be of type string: "integer"`,
				`unknown field "deploymentConfig.replicas": spec.config.inline.deploymentConfig.replicas is a forbidden property`,
				`unknown field "deploymentConfig.volumes[0].magic": spec.config.inline.deploymentConfig.volumes[0].magic is a forbidden property`,
				`unknown field "more": spec.config.inline.more is a forbidden property`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseConfig(c.bundle, []byte(c.config))
			var problems []string
			if configError := (*ConfigError)(nil); errors.As(err, &configError) {
				problems = configError.Problems
			} else if err != nil {
				t.Fatalf("got error %v, want a ConfigError", err)
			}

			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(`{"watchNamespace": "a"}`)
	f.Add(`{"deploymentConfig": {"env": [{"name": "a"}], "resources": {"limits": {"cpu": "1"}}, "volumes": [{"name": "v", "ephemeral": {}}]}}`)
	f.Add(`{"deploymentConfig": {"affinity": {"nodeAffinity": {}}, "selector": {"matchLabels": {"a": "b"}}}}`)
	f.Add(`[null, {"a": [null]}]`)
	b := testBundle(f, "foo")
	f.Fuzz(func(t *testing.T, text string) {
		config, err := ParseConfig(b, []byte(text))
		if err != nil {
			if configError := (*ConfigError)(nil); !errors.As(err, &configError) || len(configError.Problems) == 0 || slices.Contains(configError.Problems, "") {
				t.Errorf("got error %#v, want a ConfigError with problems", err)
			}
			return
		}
		opts := Options{InstallNamespace: "ns", WatchNamespace: config.WatchNamespace, DeploymentConfig: config.DeploymentConfig}
		if _, err := Render(b, opts); err != nil {
			if configError := (*ConfigError)(nil); !errors.As(err, &configError) {
				t.Errorf("got error %v from rendering with a valid configuration, want none", err)
			}
		}
	})
}
