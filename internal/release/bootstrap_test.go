package release_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/release"
)

// A bootstrap machine receives the operator's own manifests except exactly three, and the image
// policies.
func TestForBootstrap(t *testing.T) {
	policy := func(apiVersion, kind string) string {
		return "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata:\n  name: policy\n"
	}
	files := map[string]string{
		"manifests/0000_90_cluster-version-operator_00_prometheusrole.yaml":         configMapManifest("monitoring"),
		"manifests/0000_90_cluster-version-operator_01_prometheusrolebinding.yaml":  configMapManifest("monitoring"),
		"manifests/0000_90_cluster-version-operator_02_servicemonitor.yaml":         configMapManifest("monitoring"),
		"manifests/0000_90_cluster-version-operator_03_servicemonitor.yaml":         configMapManifest("another"),
		"manifests/0000_10_policy.yaml":                                             configMapManifest("plain"),
		"release-manifests/0000_10_a_00_policy.yaml":                                policy("config.openshift.io/v1", "ClusterImagePolicy") + "---\n" + configMapManifest("x"),
		"release-manifests/0000_10_a_01_policy.yaml":                                policy("config.openshift.io/v1alpha1", "ImagePolicy"),
		"release-manifests/0000_10_a_02_policy.yaml":                                policy("example.com/v1", "ImagePolicy"),
		"release-manifests/0000_90_cluster-version-operator_02_servicemonitor.yaml": configMapManifest("theirs"),
		"bootstrap/bootstrap-pod.yaml":                                              configMapManifest("pod") + "data: {image: '{{ .ReleaseImage }}'}\n",
		"bootstrap/notes.txt":                                                       "not read",
	}

	options := release.Options{ReleaseImage: "registry.example/release", Bootstrap: true, StrictTemplates: true}
	p := loadPayload(t, files, options)
	want := []string{
		"manifests/0000_00_cvo_00_namespace.yaml#1 own", "manifests/0000_10_policy.yaml#1 plain",
		"manifests/0000_90_cluster-version-operator_03_servicemonitor.yaml#1 another",
		"release-manifests/0000_10_a_00_policy.yaml#1 policy", "release-manifests/0000_10_a_01_policy.yaml#1 policy",
	}
	if diff := cmp.Diff(want, formatManifests(p.ForBootstrap())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bootstrap/bootstrap-pod.yaml#1 pod"}, formatManifests(p.Bootstrap)); diff != "" {
		t.Fatalf("manifests of the folder bootstrap, -want +got:\n%s", diff)
	}
	if data := p.Bootstrap[0].Object.Object["data"].(map[string]any); data["image"] != "registry.example/release" {
		t.Errorf("got data %v of the template, want image registry.example/release", data)
	}
	if p := loadPayload(t, files, release.Options{}); len(p.Bootstrap) != 0 || len(p.Manifests) != 11 {
		t.Errorf("without the option: got bootstrap manifests %v, want none", formatManifests(p.Bootstrap))
	}
	if p := loadPayload(t, nil, options); len(p.Bootstrap) != 0 {
		t.Errorf("without the folder: got bootstrap manifests %v, want none", formatManifests(p.Bootstrap))
	}

	files["bootstrap/bootstrap-pod.yaml"] = configMapManifest("pod") + "data: {image: '{{ .Unknown }}'}\n"
	_, err := release.Load(newPayloadFiles(files), options)
	if failed := (*release.Error)(nil); !errors.As(err, &failed) || !strings.HasPrefix(err.Error(), "bootstrap/bootstrap-pod.yaml: ") {
		t.Errorf("got %v, want a *release.Error with the file name", err)
	}
}
