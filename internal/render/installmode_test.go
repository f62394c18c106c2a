package render

import (
	"errors"
	"slices"
	"testing"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

func TestTargetNamespaces(t *testing.T) {
	const (
		own    = v1alpha1.InstallModeTypeOwnNamespace
		single = v1alpha1.InstallModeTypeSingleNamespace
		multi  = v1alpha1.InstallModeTypeMultiNamespace
		all    = v1alpha1.InstallModeTypeAllNamespaces
	)

	for _, c := range []struct {
		name    string
		modes   []v1alpha1.InstallModeType
		watch   string
		want    string
		wantErr string
	}{
		{name: "all", modes: []v1alpha1.InstallModeType{all}, watch: "", want: ""},
		{name: "all of several", modes: []v1alpha1.InstallModeType{single, own, all}, watch: "", want: ""},
		{name: "own", modes: []v1alpha1.InstallModeType{own}, watch: "install", want: "install"},
		{name: "single", modes: []v1alpha1.InstallModeType{single}, watch: "other", want: "other"},
		{
			name: "own of single", modes: []v1alpha1.InstallModeType{single}, watch: "install",
			wantErr: `invalid configuration: invalid value "install": must be different from "install" (the install namespace) because this operator uses SingleNamespace install mode to watch a different namespace: supported install modes [SingleNamespace] do not support target namespaces [install]: in spec.config.inline set watchNamespace to one namespace other than the install namespace "install"`,
		}, {
			name: "single of own", modes: []v1alpha1.InstallModeType{own}, watch: "other",
			wantErr: `invalid configuration: invalid value "other": must be "install" (the namespace where the operator is installed) because this operator only supports OwnNamespace install mode: supported install modes [OwnNamespace] do not support target namespaces [other]: in spec.config.inline set watchNamespace to "install", the install namespace`,
		}, {
			name: "single of all", modes: []v1alpha1.InstallModeType{all}, watch: "other",
			wantErr: `invalid configuration: unknown field "watchNamespace": supported install modes [AllNamespaces] do not support target namespaces [other]: in spec.config.inline leave watchNamespace unset, to watch all namespaces`,
		}, {
			name: "all of own", modes: []v1alpha1.InstallModeType{own}, watch: "",
			wantErr: `invalid configuration: required field "watchNamespace" is missing: supported install modes [OwnNamespace] do not support targeting all namespaces: in spec.config.inline set watchNamespace to "install", the install namespace`,
		}, {
			name: "all of own and single", modes: []v1alpha1.InstallModeType{single, own}, watch: "",
			wantErr: `invalid configuration: required field "watchNamespace" is missing: supported install modes [OwnNamespace SingleNamespace] do not support targeting all namespaces: in spec.config.inline set watchNamespace to "install", the install namespace, or set watchNamespace to one namespace other than the install namespace "install"`,
		}, {
			name: "multi", modes: []v1alpha1.InstallModeType{multi}, watch: "",
			wantErr: `invalid configuration: supported install modes [MultiNamespace] do not support targeting all namespaces: none of AllNamespaces, OwnNamespace and SingleNamespace is among them, and no other mode can be installed`,
		}, {
			name: "none", watch: "other",
			wantErr: `invalid configuration: supported install modes [] do not support target namespaces [other]: none of AllNamespaces, OwnNamespace and SingleNamespace is among them, and no other mode can be installed`,
		}, {
			name: "invalid", modes: []v1alpha1.InstallModeType{single}, watch: "Other",
			wantErr: `invalid configuration: invalid watch namespace 'Other': a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes := slices.Clone(c.modes)
			got, err := TargetNamespaces(modes, "install", c.watch)
			if c.wantErr != "" {
				var configError *ConfigError
				if !errors.As(err, &configError) || err.Error() != c.wantErr {
					t.Errorf("got error %v, want %s", err, c.wantErr)
				}
				return
			}

			if err != nil || !slices.Equal(got, []string{c.want}) {
				t.Errorf("got %q, error %v; want [%q]", got, err, c.want)
			}
			if !slices.Equal(modes, c.modes) {
				t.Errorf("got the modes %v, want their order unchanged", modes)
			}
		})
	}
}
