package installplan

import (
	"strings"
	"testing"

	"github.com/mainstay-dev/mainstay/api/operators/v1alpha1"
)

// The type of a manifest is completed from its step, and then from the known API version of the kind.
func TestDecodeManifest(t *testing.T) {
	const (
		rbac    = "rbac.authorization.k8s.io"
		invalid = ": the InstallPlan contains invalid data"
	)
	for name, test := range map[string]struct {
		group, version, kind string // of the step
		manifest             string // without its name
		want, err            string
	}{
		"complete":                      {rbac, "v1", "Role", `"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role"`, rbac + "/v1, Kind=Role", ""},
		"other version than the step":   {"policy", "v1beta1", "PodDisruptionBudget", `"apiVersion":"policy/v1","kind":"PodDisruptionBudget"`, "policy/v1, Kind=PodDisruptionBudget", ""},
		"other group than the kind":     {"serving.example.com", "v1", "Service", `"apiVersion":"serving.example.com/v1","kind":"Service"`, "serving.example.com/v1, Kind=Service", ""},
		"no type":                       {rbac, "v1", "Role", "", rbac + "/v1, Kind=Role", ""},
		"no type, core":                 {"", "v1", "ServiceAccount", "", "/v1, Kind=ServiceAccount", ""},
		"no apiVersion":                 {rbac, "v1", "RoleBinding", `"kind":"RoleBinding"`, rbac + "/v1, Kind=RoleBinding", ""},
		"no kind":                       {"", "v1", "ConfigMap", `"apiVersion":"v1"`, "/v1, Kind=ConfigMap", ""},
		"empty type":                    {"", "v1", "Service", `"apiVersion":"","kind":""`, "/v1, Kind=Service", ""},
		"no group":                      {rbac, "v1", "ClusterRole", `"apiVersion":"v1","kind":"ClusterRole"`, rbac + "/v1, Kind=ClusterRole", ""},
		"no group, nor in the step":     {"", "v1", "ClusterRoleBinding", `"apiVersion":"v1"`, rbac + "/v1, Kind=ClusterRoleBinding", ""},
		"no version":                    {rbac, "v1", "Role", `"apiVersion":"rbac.authorization.k8s.io"`, rbac + "/v1, Kind=Role", ""},
		"no version, nor in the step":   {"", "", "Role", "", rbac + "/v1, Kind=Role", ""},
		"the version of a CRD":          {"apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition", "", "apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition", ""},
		"a ClusterServiceVersion":       {"", "", "ClusterServiceVersion", "", "operators.coreos.com/v1alpha1, Kind=ClusterServiceVersion", ""},
		"a Secret of a bundle":          {"", "v1", "BundleSecret", "", "/v1, Kind=Secret", ""},
		"no version of another kind":    {"monitoring.coreos.com", "", "ServiceMonitor", "", "", "the manifest of ServiceMonitor kettle has no apiVersion with a group and a version, and neither has its step" + invalid},
		"no group of another kind":      {"", "v1", "ServiceMonitor", `"apiVersion":"v1"`, "", "the manifest of ServiceMonitor kettle has no apiVersion with a group and a version, and neither has its step" + invalid},
		"another kind":                  {rbac, "v1", "Role", `"kind":"ClusterRole"`, "", `the manifest of Role kettle is one of kind "ClusterRole"` + invalid},
		"a Secret that is not a bundle": {"", "v1", "ConfigMap", `"apiVersion":"v1","kind":"Secret"`, "", `the manifest of ConfigMap kettle is one of kind "Secret"` + invalid},
	} {
		t.Run(name, func(t *testing.T) {
			step := &v1alpha1.Step{Resource: v1alpha1.StepResource{Group: test.group, Version: test.version, Kind: test.kind, Name: "kettle"}}
			manifest := `{"metadata":{"name":"kettle"}}`
			if test.manifest != "" {
				manifest = "{" + test.manifest + `,"metadata":{"name":"kettle"}}`
			}

			object, err := decodeManifest(step, manifest)
			got, failed := "", ""
			if err != nil {
				failed = err.Error()
			} else {
				got = object.GroupVersionKind().String()
			}
			if got != test.want || failed != test.err {
				t.Errorf("got %q, error %q\nwant %q, error %q", got, failed, test.want, test.err)
			}
		})
	}
}

// The error for a manifest that is not JSON does not contain it.
func TestDecodeManifestWithoutSecrets(t *testing.T) {
	step := &v1alpha1.Step{Resource: v1alpha1.StepResource{Version: "v1", Kind: v1alpha1.KindBundleSecret, Name: "login"}}
	for _, manifest := range []string{`{"stringData":{"password":"hunter2"},}`, `{"stringData":{"password":"hunter2"}}`, `["hunter2"]`, `"hunter2"`, ``, `null`} {
		_, err := decodeManifest(step, manifest)
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "BundleSecret login") {
			t.Errorf("%s: got error %v, want one that names the step and not the content", manifest, err)
		}
	}
}
