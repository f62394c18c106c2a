package bundle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/fbc"
	"github.com/mainstay-dev/mainstay/internal/testing/golden"
)

const fullSpec = `
  description: a <b> & c
  maturity: alpha
  minKubeVersion: 1.20.0
  keywords: [one]
  provider: {name: Foo Inc}
  links: [{name: home, url: https://foo.example}]
  maintainers: [{name: F, email: f@foo.example}]
  nativeAPIs: [{group: apps, version: v1, kind: Deployment}]
  relatedImages:
  - {name: operand, image: registry.example/operand:v1}
  - {name: controller, image: registry.example/controller:v1}
  customresourcedefinitions:
    owned:
    - name: foos.example.com
      version: v1
      kind: Foo
      specDescriptors: [{path: size, x-descriptors: [urn:count], value: {a: 1}}]
    required: [{name: bars.example.org, version: v2, kind: Bar}]
  apiservicedefinitions:
    owned: [{name: bazs, group: example.net, version: v1, kind: Baz, deploymentName: foo}]
    required: [{name: quxs, group: example.net, version: v3, kind: Qux}]
`

const fullDeployments = `  install:
    strategy: deployment
    spec:
      deployments:
      - name: foo
        spec:
          selector: {}
          template:
            spec:
              initContainers: [{name: i, image: registry.example/init:v1}]
              containers:
              - {name: c, image: registry.example/controller:v1}
              - {name: d, image: registry.example/proxy:v1}
`

func fullBundle(t *testing.T) *Bundle {
	t.Helper()
	csv := strings.Replace(csvYAML, "  install:\n    strategy: deployment\n", fullDeployments, 1) + fullSpec
	csv = strings.Replace(csv, "  annotations:\n", `  labels: {arch.amd64: supported}
  annotations:
    olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.8"}, {"type": "custom", "value": {"b": 1,  "a": 2}}]'
`, 1)
	return load(t, map[string]string{
		"manifests/csv.yaml": csv,
		"manifests/old.yaml": "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: olds.example.com}\n" +
			"spec: {group: example.com, version: v1alpha1, names: {kind: Old}}",
		"metadata/properties.yaml": `properties:
- {type: olm.package, value: {packageName: stale, version: 0.0.1}}
- {type: custom, value: {b: 1, a: 2}}
- {type: olm.gvk, value: {version: v1, group: example.com, kind: Foo}}
`,
		"metadata/dependencies.yaml": `dependencies:
- {type: olm.package, value: {packageName: bar, version: ">=1.0.0 <2.0.0"}}
- {type: olm.gvk, value: {group: example.org, kind: Bar, version: v2}}
- {type: olm.constraint, value: {failureMessage: no, cel: {rule: "true"}}}
`,
	})
}

func TestFBC(t *testing.T) {
	blob, err := fullBundle(t).FBC("registry.example/foo-bundle:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(blob, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "full.bundle.json", append(got, '\n'))
}

func TestFBCWithoutImage(t *testing.T) {
	b := load(t, nil)
	before := len(b.Properties)
	blob, err := b.FBC("")
	if err != nil {
		t.Fatal(err)
	}
	if blob.Image != "" || len(blob.RelatedImages) != 0 {
		t.Errorf("image %q, related images %v; want none", blob.Image, blob.RelatedImages)
	}
	if len(b.Properties) != before {
		t.Errorf("FBC changed the bundle's properties")
	}
}

func TestChannelEntry(t *testing.T) {
	want := fbc.ChannelEntry{Name: "foo.v1.2.3", Replaces: "foo.v1.2.2", Skips: []string{"foo.v1.2.1"}, SkipRange: ">=1.0.0 <1.2.3"}
	if diff := cmp.Diff(want, load(t, nil).ChannelEntry()); diff != "" {
		t.Errorf("channel entry (-want +got):\n%s", diff)
	}
}

func TestAnnotationPropertiesThatCannotBeRead(t *testing.T) {
	csv := strings.Replace(csvYAML, "  annotations:\n", "  annotations:\n    olm.properties: 'nonsense'\n", 1)
	b := load(t, map[string]string{"manifests/csv.yaml": csv})
	if len(b.Warnings) != 1 || !strings.Contains(b.Warnings[0], `ClusterServiceVersion "foo.v1.2.3": annotation olm.properties is passed over`) {
		t.Errorf("warnings %q", b.Warnings)
	}
}
