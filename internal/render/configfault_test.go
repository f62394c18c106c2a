package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

func TestCheckConfig(t *testing.T) {
	const (
		own = v1alpha1.InstallModeTypeOwnNamespace
		all = v1alpha1.InstallModeTypeAllNamespaces
	)
	for _, c := range []struct {
		name   string
		modes  []v1alpha1.InstallModeType
		config string
		// want are the paths of the faults, and a part of the message of each.
		want [][2]string
	}{
		{name: "nothing is required", modes: []v1alpha1.InstallModeType{all}},
		{name: "null is unset", modes: []v1alpha1.InstallModeType{all}, config: `{"watchNamespace":null}`},
		{name: "required", modes: []v1alpha1.InstallModeType{own}, want: [][2]string{{"watchNamespace", `required field "watchNamespace" is missing`}}},
		{name: "another namespace", modes: []v1alpha1.InstallModeType{own}, config: `{"watchNamespace":"b"}`, want: [][2]string{{"watchNamespace", `must be "a"`}}},
		{name: "unknown", modes: []v1alpha1.InstallModeType{all}, config: `{"watchNamespace":"a"}`, want: [][2]string{{"watchNamespace", `unknown field "watchNamespace"`}}},
		{name: "pattern", modes: []v1alpha1.InstallModeType{own, all}, config: `{"watchNamespace":"A B"}`, want: [][2]string{{"watchNamespace", "must match pattern"}}},
		{
			name: "inside of lists", modes: []v1alpha1.InstallModeType{all}, config: `{"deploymentConfig":{"env":[{"name":"A"},{"value":1}]}}`,
			want: [][2]string{{"deploymentConfig/env/1/name", "is missing"}, {"deploymentConfig/env/1/value", "must be of type string"}},
		},
		{
			name: "keys with dots", modes: []v1alpha1.InstallModeType{all}, config: `{"deploymentConfig":{"nodeSelector":{"a.b/c":1},"resources":{"limits":{"x.y/z":[]}}}}`,
			want: [][2]string{{"deploymentConfig/nodeSelector/a.b|c", "must be of type string"}, {"deploymentConfig/resources/limits/x.y|z", "must be of type"}},
		},
		{name: "no object", modes: []v1alpha1.InstallModeType{all}, config: `[]`, want: [][2]string{{"", "must be of type object"}}},
		{name: "no JSON", modes: []v1alpha1.InstallModeType{all}, config: `{`, want: [][2]string{{"", "is not JSON"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := CheckConfig(bundleWithModes(c.modes...), "a", []byte(c.config))
			var got, want []string
			for i, fault := range faults {
				var steps []string
				for _, step := range fault.Path {
					steps = append(steps, strings.ReplaceAll(step, "/", "|"))
				}
				got = append(got, strings.Join(steps, "/"))
				if i < len(c.want) && !slices.ContainsFunc(c.want, func(w [2]string) bool { return w[0] == got[i] && strings.Contains(fault.Message, w[1]) }) {
					t.Errorf("got the message %q at %q, want one that contains the expected part", fault.Message, got[i])
				}
			}
			for _, w := range c.want {
				want = append(want, w[0])
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}
