package validate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-dev/mainstay/internal/bundle"
	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

const goodAnnotations = `
annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: foo
  operators.operatorframework.io.bundle.channels.v1: stable
  operators.operatorframework.io.bundle.channel.default.v1: stable
`

// goodCSV has no findings with any options.
const goodCSV = `
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: foo.v1.2.3
  annotations:
    capabilities: Basic Install
    categories: Database, Networking
    alm-examples: '[{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}}, {"apiVersion": "example.com/v1beta1", "kind": "Foo"}]'
spec:
  displayName: Foo
  version: 1.2.3
  minKubeVersion: 1.20.0
  provider: {name: Foo Inc}
  maintainers: [{name: F, email: f@foo.example}]
  links: [{name: home, url: "https://foo.example"}]
  icon: [{base64data: YQ==, mediatype: image/png}]
  customresourcedefinitions:
    owned:
    - {name: foos.example.com, version: v1, kind: Foo, description: a foo}
    - {name: foos.example.com, version: v1beta1, kind: Foo, description: an old foo}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: foo
        spec:
          selector: {}
          template:
            spec:
              serviceAccountName: foo
              nodeSelector: {kubernetes.io/arch: amd64, kubernetes.io/os: linux}
              containers: [{name: c, image: registry.example/foo:v1, resources: {requests: {cpu: 1m, memory: 1Mi}}}]
  installModes:
  - {type: AllNamespaces, supported: true}
  - {type: OwnNamespace, supported: false}
`

// goodFS is a valid bundle with changed files. An empty text removes a file.
func goodFS(changes map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{
		"metadata/annotations.yaml": {Data: []byte(goodAnnotations)},
		"manifests/csv.yaml":        {Data: []byte(goodCSV)},
		"manifests/crd.yaml":        {Data: []byte(goodCRD)},
	}
	for name, text := range changes {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
		if text == "" {
			delete(fsys, name)
		}
	}

	return fsys
}

// replaceTexts replaces each old text by the new one that follows it. Each old text must
// exist.
func replaceTexts(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%q is not in the text", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}

	return text
}

// findingTexts returns the findings of a bundle, each as level and text.
func findingTexts(t *testing.T, fsys fstest.MapFS, options Options) []string {
	t.Helper()
	findings, err := Bundle(fsys, options)
	if err != nil {
		t.Fatal(err)
	}

	texts := []string{}
	for _, f := range findings {
		text := f.Text
		if !strings.HasPrefix(text, string(f.Level)+": ") {
			text = fmt.Sprintf("(%s) %s", f.Level, text)
		}
		texts = append(texts, text)
	}

	return texts
}

// compareFindings compares the findings. A text that ends with an ellipsis matches as a
// prefix.
func compareFindings(t *testing.T, want, got []string) {
	t.Helper()
	same := slices.EqualFunc(want, got, func(want, got string) bool {
		start, open := strings.CutSuffix(want, "…")
		return want == got || open && strings.HasPrefix(got, start)
	})
	if !same {
		t.Errorf("findings (-want +got):\n%s", cmp.Diff(want, got))
	}
}

func TestAGoodBundleHasNoFindings(t *testing.T) {
	compareFindings(t, []string{}, findingTexts(t, goodFS(nil), Options{Optional: optionalExcept("operatorhub")}))
	compareFindings(t, []string{`Warning: Value : (foo.v1.2.3) the validator "operatorhub" is deprecated: use operatorhub/v2, standardcapabilities and standardcategories`},
		findingTexts(t, goodFS(nil), Options{Optional: []string{"operatorhub", "unknown"}}))
}

func TestFormat(t *testing.T) {
	annotations := func(pairs ...string) map[string]string {
		return map[string]string{"metadata/annotations.yaml": replaceTexts(t, goodAnnotations, pairs...)}
	}
	dependencies := func(list string) map[string]string {
		return map[string]string{"metadata/dependencies.yaml": "dependencies: " + list}
	}
	const prefix = "operators.operatorframework.io.bundle."
	for _, c := range []struct {
		name    string
		changes map[string]string
		want    []string
	}{
		{"no folders", map[string]string{"metadata/annotations.yaml": "", "manifests/csv.yaml": "", "manifests/crd.yaml": "", "a": "b"},
			[]string{"(Error) Unable to locate manifests directory", "(Error) Unable to locate metadata directory"}},
		{"no manifests", map[string]string{"manifests/csv.yaml": "", "manifests/crd.yaml": ""}, []string{"(Error) Unable to locate manifests directory"}},
		{"no annotations", map[string]string{"metadata/annotations.yaml": "a: b"}, []string{"(Error) Could not find annotations file"}},
		{"another name", map[string]string{"metadata/annotations.yaml": "", "metadata/x": goodAnnotations}, []string{}},
		{"keys missing", map[string]string{"metadata/annotations.yaml": "annotations: {a: b}"}, []string{
			`(Error) Missing annotation "` + prefix + `mediatype.v1"`, `(Error) Missing annotation "` + prefix + `manifests.v1"`,
			`(Error) Missing annotation "` + prefix + `metadata.v1"`, `(Error) Missing annotation "` + prefix + `package.v1"`,
			`(Error) Missing annotation "` + prefix + `channels.v1"`,
		}},
		{"media type", annotations("registry+v1", "plain"), []string{`(Error) Expecting annotation "` + prefix + `mediatype.v1" to have value "registry+v1" instead of "plain"`}},
		{"empty channels", annotations("channels.v1: stable", "channels.v1: ''", "default.v1: stable", "default.v1: ''"), []string{
			`(Error) Expecting annotation "` + prefix + `channels.v1" to have non-empty value`,
			`(Error) Expecting annotation "` + prefix + `channel.default.v1" to have non-empty value`,
		}},
		{"empty manifests", map[string]string{"manifests/csv.yaml": "", "manifests/crd.yaml": "", "manifests/sub/a": "b"}, []string{"(Error) The directory manifests contains no yaml files"}},
		{"gvk", dependencies("[{type: olm.gvk, value: {}}, {type: olm.gvk, value: {group: g, kind: k}}]"),
			[]string{"(Error) API Group is empty", "(Error) API Version is empty", "(Error) API Kind is empty", "(Error) API Version is empty"}},
		{"package", dependencies("[{type: olm.package, value: {}}, {type: olm.package, value: {packageName: a, version: one}}, {type: olm.package, value: {packageName: a, version: '>1.0.0'}}]"),
			[]string{"(Error) Package name is empty", "(Error) Package version is empty", "(Error) Invalid semver format version"}},
		{"label", dependencies("[{type: olm.label, value: {}}, {type: olm.label, value: {}}, {type: olm.label, value: {label: a}}]"), []string{"(Error) Label information is missing", "(Error) Label information is missing"}},
		{"type", dependencies("[{type: olm.crd, value: {}}, {type: olm.gvk, value: a}, {type: olm.label}]"), []string{
			"(Error) couldn't parse dependency of type olm.crd", "(Error) couldn't parse dependency of type olm.gvk", "(Error) couldn't parse dependency of type olm.label",
		}},
		{"constraint", dependencies("[{type: olm.constraint, value: {failureMessage: a}}, {type: olm.constraint, value: {cel: {}}}, {type: olm.constraint, value: {cel: {rule: properties}}}, " +
			"{type: olm.constraint, value: {cel: {rule: 'properties.exists(p, true)'}}}, {type: olm.constraint, value: [1]}]"), []string{
			"(Error) The CEL field is missing", "(Error) The CEL expression is missing", "(Error) Invalid CEL expression: cel expressions must have type Bool",
			"(Error) couldn't parse dependency of type olm.constraint",
		}},
		{"invalid dependencies", map[string]string{"metadata/dependencies.yaml": "a: ["}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compareFindings(t, c.want, findingTexts(t, goodFS(c.changes), Options{}))
		})
	}
}

func TestContent(t *testing.T) {
	owned := "  customresourcedefinitions:\n    owned:\n"
	for _, c := range []struct {
		name    string
		changes map[string]string
		want    []string
	}{
		{"a folder", map[string]string{"manifests/sub/a.yaml": "a"}, []string{"(Error) Unable to read file manifests/sub in supported types"}},
		{"no YAML", map[string]string{"manifests/a.yaml": "a: ["}, []string{"(Error) manifests/a.yaml: document 1: yaml: line 1: did not find expected node content"}},
		{"hidden", map[string]string{"manifests/.a": "a: ["}, []string{"(Error) manifests/.a: document 1: yaml: …"}},
		{"empty", map[string]string{"manifests/a.yaml": "# a"}, []string{"(Error) manifests/a.yaml: holds no object"}},
		{"no kind", map[string]string{"manifests/a.yaml": "a: 1"}, []string{`(Error) Object 'Kind' is missing in '{"a":1}'`}},
		{"two documents", map[string]string{"manifests/a.yaml": "kind: Secret\nmetadata: {name: a}\n---\nkind: X"}, []string{"(Warning) manifests/a.yaml: holds 2 documents, of which only the first counts for catalogs"}},
		{"a broken second document", map[string]string{"manifests/a.yaml": "kind: Secret\nmetadata: {name: a}\n---\na: ["}, []string{"(Warning) manifests/a.yaml: only its first document counts for catalogs, and a further one is broken: …"}},
		{"another kind", map[string]string{"manifests/a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}"}, []string{"(Error) Deployment is not supported type for registryV1 bundle: manifests/a.yaml"}},
		{"metadata", map[string]string{"manifests/a.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: a, labels: {a b: c}}"}, []string{
			`(Error) error validating object metadata: [metadata.labels: Invalid value: "a b": name part must consist of …`,
		}},
		{"no name", map[string]string{"manifests/a.yaml": "kind: Secret"}, []string{"(Error) error validating object metadata: metadata.name: Required value: name or generateName is required. Secret null"}},
		{"a namespace", map[string]string{"manifests/a.yaml": "kind: Secret\nmetadata: {name: a, namespace: b}"},
			[]string{`(Error) error validating object metadata: metadata.namespace: Forbidden: not allowed on this type. Secret {"name":"a","namespace":"b"}`}},
		{"invalid metadata", map[string]string{"manifests/a.yaml": "kind: Secret\nmetadata: [a]"}, []string{"(Error) Secret: metadata: json: cannot unmarshal array…"}},
		{"a CRD of another version", map[string]string{"manifests/a.yaml": "apiVersion: apiextensions.k8s.io/v2\nkind: CustomResourceDefinition"}, []string{"(Error) Unsupported api version of CRD: apiextensions.k8s.io/v2"}},
		{"an invalid CRD", map[string]string{"manifests/a.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: 1"}, []string{"(Error) json: cannot unmarshal number…"}},
		{"a CRD with faults", map[string]string{"manifests/crd.yaml": replaceTexts(t, goodCRD, "name: foos.example.com", "name: foo.example.com")}, []string{
			`Error: Field metadata.name, Value foo.example.com: metadata.name: Invalid value: "foo.example.com": must be spec.names.plural+"."+spec.group`,
			`Error: Value { Foo foos.example.com v1}: owned CRD foos.example.com/v1 not found in bundle "foo.v1.2.3"`,
			`Error: Value { Foo foos.example.com v1beta1}: owned CRD foos.example.com/v1beta1 not found in bundle "foo.v1.2.3"`,
			`Warning: Value { Foo foo.example.com v1}: CRD foo.example.com/v1 is present in bundle "foo.v1.2.3" but not defined in CSV`,
			`Warning: Value { Foo foo.example.com v1beta1}: CRD foo.example.com/v1beta1 is present in bundle "foo.v1.2.3" but not defined in CSV`,
		}},
		{"an old CRD", map[string]string{"manifests/crd.yaml": replaceTexts(t, goodCRD, "k8s.io/v1\n", "k8s.io/v1beta1\n", "spec:\n", "spec:\n  preserveUnknownFields: false\n")},
			[]string{"(Warning) manifests/crd.yaml: apiextensions.k8s.io/v1beta1 is served by no Kubernetes from 1.22 on: use apiextensions.k8s.io/v1"}},
		{"no CRD", map[string]string{"manifests/crd.yaml": ""}, []string{
			`Error: Value { Foo foos.example.com v1}: owned CRD foos.example.com/v1 not found in bundle "foo.v1.2.3"`,
			`Error: Value { Foo foos.example.com v1beta1}: owned CRD foos.example.com/v1beta1 not found in bundle "foo.v1.2.3"`,
		}},
		{"an unlisted CRD", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "    - {name: foos.example.com, version: v1beta1, kind: Foo, description: an old foo}\n", "", `, {"apiVersion": "example.com/v1beta1", "kind": "Foo"}`, "")},
			[]string{`Warning: Value { Foo foos.example.com v1beta1}: CRD foos.example.com/v1beta1 is present in bundle "foo.v1.2.3" but not defined in CSV`}},
		{"an invalid CSV", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "displayName: Foo", "displayName: [Foo]")}, []string{"(Error) json: cannot unmarshal array…"}},
		{"a CSV in an API group of its own", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "operators.coreos.com/v1alpha1", "binding.operators.coreos.com/v1alpha1")}, []string{}},
		{"a CSV without an API group", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "operators.coreos.com/v1alpha1", "v1alpha1")}, []string{}},
		{"an object of the API group of CSVs", map[string]string{"manifests/a.yaml": "apiVersion: operators.coreos.com/v1alpha1\nkind: ServiceBinding\nmetadata: {name: a}"},
			[]string{"(Error) ServiceBinding is not supported type for registryV1 bundle: manifests/a.yaml"}},
		{"two CSVs of different API groups", map[string]string{"manifests/d.yaml": replaceTexts(t, goodCSV, "operators.coreos.com/v1alpha1", "binding.operators.coreos.com/v1alpha1")},
			[]string{"(Warning) manifests/d.yaml: a second ClusterServiceVersion: a bundle that has several cannot be installed"}},
		{"an invalid version", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "version: 1.2.3", "version: one")}, []string{`(Error) Invalid character(s) found in major number "0one"`}},
		{"two CSVs", map[string]string{"manifests/d.yaml": goodCSV}, []string{"(Warning) manifests/d.yaml: a second ClusterServiceVersion: a bundle that has several cannot be installed"}},
		{"release", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "version: 1.2.3\n", "version: 1.2.3\n  release: '1'\n")}, []string{}},
		{"substitutes", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "  annotations:\n", "  annotations:\n    olm.substitutesFor: foo.v1.2.2\n")}, []string{}},
		{"release and substitutes", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, "  annotations:\n", "  annotations:\n    olm.substitutesFor: foo.v1.2.2\n", "version: 1.2.3\n", "version: 1.2.3\n  release: '1'\n")},
			[]string{`Error: Value foo.v1.2.3: bundle "foo.v1.2.3" cannot have both a release version ("1") and olm.substitutesFor annotation ("foo.v1.2.2")`}},
		{"helm", map[string]string{"manifests/Chart.yaml": "name: a", "manifests/sub/a": "{", "metadata/annotations.yaml": replaceTexts(t, goodAnnotations, "registry+v1", "helm")}, []string{}},
		{"plain, without a CSV", map[string]string{
			"manifests/csv.yaml": "", "manifests/a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}", "metadata/annotations.yaml": replaceTexts(t, goodAnnotations, "registry+v1", "plain"),
		}, []string{}},
		{"owned without a group", map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, owned, owned+"    - {name: bars, version: v1, kind: Bar}\n")}, []string{
			"Error: couldn't parse plural.group from crd name: bars", `Error: Value { Bar bars v1}: owned CRD bars/v1 not found in bundle "foo.v1.2.3"`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compareFindings(t, c.want, findingTexts(t, goodFS(c.changes), Options{}))
		})
	}
}

func TestCSV(t *testing.T) {
	const csv = "Error: Value : (foo.v1.2.3) "
	const warning = "Warning: Value : (foo.v1.2.3) "
	examples := goodCSV[strings.Index(goodCSV, "    alm-examples"):strings.Index(goodCSV, "spec:")]
	for _, c := range []struct {
		name  string
		pairs []string
		want  []string
	}{
		{"name", []string{"name: foo.v1.2.3", "name: Foo_v1"}, []string{`Error: Value : (Foo_v1) metadata.name "Foo_v1" is invalid: a lowercase RFC 1123 subdomain must consist of …`}},
		{"long name", []string{"name: foo.v1.2.3", "name: " + strings.Repeat("a", 64)},
			[]string{`Error: Value : (` + strings.Repeat("a", 64) + `) metadata.name "` + strings.Repeat("a", 64) + `" is invalid: must be no more than 63 …`}},
		{"replaces", []string{"displayName: Foo", "displayName: Foo\n  replaces: a_b"}, []string{csv + `spec.replaces "a_b" is invalid: a lowercase RFC 1123 subdomain…`}},
		{"no apiVersion", []string{"apiVersion: operators.coreos.com/v1alpha1\n", ""}, []string{csv + "'apiVersion' is missing"}},
		{"no annotations", []string{"  annotations:\n    capabilities: Basic Install\n    categories: Database, Networking\n" + examples, ""}, []string{warning + "annotations not found"}},
		{"no examples", []string{examples, ""}, []string{warning + "example annotations not found"}},
		{"other examples", []string{"alm-examples", "olm.examples"}, []string{}},
		{"both examples", []string{"    alm-examples", "    olm.examples: '['\n    alm-examples"}, []string{warning + "both alm-examples and olm.examples are present: only alm-examples is used"}},
		{"example syntax", []string{`[{"apiVersion": "example.com/v1"`, `[{apiVersion: "example.com/v1"`}, []string{
			"Error: Value invalid character at 3\n [{a<--(see the invalid character): invalid example",
			"Warning: Value example.com/v1, Kind=Foo: provided API should have an example annotation",
			"Warning: Value example.com/v1beta1, Kind=Foo: provided API should have an example annotation",
		}},
		{"no list of examples", []string{examples, "    alm-examples: '1'\n"}, []string{
			"Error: Value json: cannot unmarshal number into Go value of type []json.RawMessage: error decoding example CustomResource",
			"Warning: Value example.com/v1, Kind=Foo: provided API should have an example annotation",
			"Warning: Value example.com/v1beta1, Kind=Foo: provided API should have an example annotation",
		}},
		{"example without a kind", []string{`{"apiVersion": "example.com/v1beta1", "kind": "Foo"}`, `{"apiVersion": "example.com/v1beta1"}`}, []string{
			`Error: Value Object 'Kind' is missing in '{"apiVersion": "example.com/v1beta1"}': error decoding example CustomResource`,
			"Warning: Value example.com/v1beta1, Kind=Foo: provided API should have an example annotation",
		}},
		{"foreign example", []string{`"example.com/v1beta1", "kind": "Foo"`, `"example.com/v1", "kind": "Bar"`}, []string{
			"Error: Value example.com/v1, Kind=Bar: example must have a provided API",
			"Warning: Value example.com/v1beta1, Kind=Foo: provided API should have an example annotation",
		}},
		{"example of an APIService", []string{`}]'`, `}, {"apiVersion": "example.net/v1", "kind": "Baz"}]'`, "  customres", "  apiservicedefinitions: {owned: [{name: bazs, group: example.net, version: v1, kind: Baz}]}\n  customres"}, []string{}},
		{"no install modes", []string{"installModes:\n  - {type: AllNamespaces, supported: true}\n  - {type: OwnNamespace, supported: false}\n", "installModes: []\n"}, []string{csv + "install modes not found"}},
		{"no supported install mode", []string{"supported: true", "supported: false"}, []string{csv + "none of InstallModeTypes are supported"}},
		{"an install mode twice", []string{"OwnNamespace", "AllNamespaces"}, []string{csv + "duplicate install modes present"}},
		{"conversion", []string{"supported: false", "supported: true", "  install:", "  webhookdefinitions: [{type: ConversionWebhook, generateName: a, sideEffects: None, admissionReviewVersions: [v1], conversionCRDs: [foos.example.com]}]\n  install:"},
			[]string{csv + "only AllNamespaces InstallModeType is supported when conversionCRDs is present"}},
		{"webhook", []string{"supported: false", "supported: true", "  install:", "  webhookdefinitions: [{type: ValidatingAdmissionWebhook, generateName: a, sideEffects: None, admissionReviewVersions: [v1]}]\n  install:"}, []string{}},
		{"conversion in all namespaces", []string{"  install:", "  webhookdefinitions: [{type: ConversionWebhook, generateName: a, sideEffects: None, admissionReviewVersions: [v1], conversionCRDs: [foos.example.com]}]\n  install:"}, []string{}},
		{"no minKubeVersion", []string{"  minKubeVersion: 1.20.0\n", ""}, []string{warning + "csv.Spec.minKubeVersion is not informed.…"}},
		{"bad minKubeVersion", []string{"1.20.0", "'1.20'"}, []string{csv + "csv.Spec.MinKubeVersion has an invalid value: 1.20"}},
		{"no display name", []string{"displayName: Foo", "displayName: ''"}, []string{"Error: Field Spec.DisplayName, Value field: required field missing"}},
		{"no strategy", []string{"strategy: deployment", "strategy: ''"}, []string{"Error: Field Spec.InstallStrategy.StrategyName, Value field: required field missing"}},
		{"no install", []string{"  install:\n    strategy: deployment\n    spec:\n      deployments:", "  other:\n    strategy: deployment\n    spec:\n      deployments:"}, []string{"Error: Field Spec.InstallStrategy, Value struct: required field missing"}},
		{"no deployments", []string{"      deployments:", "      permissions: [{serviceAccountName: a, rules: []}]\n      other:"}, []string{"Error: Field Spec.InstallStrategy.StrategySpec.DeploymentSpecs, Value field: required field missing"}},
		{"case", []string{"    capabilities", "    olm.skiprange: '<1.0.0'\n    OLM.skipRange: '<1.0.0'\n    capabilities"}, []string{
			"Error: Value foo.v1.2.3: provided annotation OLM.skipRange uses wrong case and should be olm.skipRange instead",
			"Error: Value foo.v1.2.3: provided annotation olm.skiprange uses wrong case and should be olm.skipRange instead",
		}},
		{"properties", []string{"    capabilities", "    olm.properties: '[]'\n    capabilities"}, []string{warning + "found olm.properties annotation, please define these properties in metadata/properties.yaml instead"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compareFindings(t, c.want, findingTexts(t, goodFS(map[string]string{"manifests/csv.yaml": replaceTexts(t, goodCSV, c.pairs...)}), Options{}))
		})
	}
}

// TestBundleLoads checks that a bundle which cannot be loaded is not valid, regardless of the
// results of the rules.
func TestBundleLoads(t *testing.T) {
	numeric := strings.Replace(goodCSV, "version: 1.2.3", "version: 1.2", 1)
	got := findingTexts(t, goodFS(map[string]string{"manifests/csv.yaml": numeric}), Options{})
	want := `(Error) ClusterServiceVersion "foo.v1.2.3": spec.version: a version must be a string, not 1.2: put it in quotes`
	if !slices.Contains(got, want) {
		t.Errorf("got findings %q, want %q among them", got, want)
	}
}

func TestErr(t *testing.T) {
	findings := Findings{{Error, Format, "a"}, {Warning, Format, "b"}, {Error, Content, "c"}}
	var invalid *InvalidError
	if err := findings.Err(); !errors.As(err, &invalid) || err.Error() != "Bundle validation errors: a,c" || !invalid.Format {
		t.Errorf("got error %v", err)
	}
	if err := findings[1:].Err(); !errors.As(err, &invalid) || err.Error() != "Bundle validation errors: c" || invalid.Format {
		t.Errorf("got error %v", err)
	}
	if err := (Findings{{Warning, Format, "b"}}).Err(); err != nil {
		t.Errorf("warnings only: got error %v, want none", err)
	}
}

func TestBundleSaysWhatCannotBeRead(t *testing.T) {
	fsys := goodFS(nil)
	fsys["manifests"] = &fstest.MapFile{Mode: os.ModeSymlink, Data: []byte("elsewhere")}
	delete(fsys, "manifests/csv.yaml")
	delete(fsys, "manifests/crd.yaml")
	if _, err := Bundle(fsys, Options{}); err == nil || !strings.HasPrefix(err.Error(), "manifests: must be a folder") {
		t.Errorf("got error %v", err)
	}
	if got := findingTexts(t, goodFS(map[string]string{"manifests/a.yaml": strings.Repeat("# large\n", 1<<20+1)}), Options{}); len(got) != 1 || got[0] != "(Error) Unable to read file manifests/a.yaml in supported types" {
		t.Errorf("a large file: %q", got)
	}
}

// TestRealBundles checks that every real bundle has the same findings each time.
func TestRealBundles(t *testing.T) {
	dirs := checkout.RealBundles(t)
	valid := 0
	for _, dir := range dirs {
		name := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
		files, err := bundle.ReadFiles(os.DirFS(dir))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := CheckFormat(files).Err(); err != nil {
			t.Errorf("%s: format: %v", name, err)
		}

		options := Options{Optional: optionalExcept(), KubeVersion: "1.25"}
		first := CheckContent(files, options)
		if again := CheckContent(files, options); !slices.Equal(first, again) {
			t.Errorf("%s: findings of a second validation (-want +got):\n%s", name, cmp.Diff(first, again))
		}
		if slices.DeleteFunc(first, func(f Finding) bool { return f.Validator != Content }).Err() == nil {
			valid++
		}
	}

	// Old bundles have CRDs of a version that API servers no longer serve.
	if valid < len(dirs)/3 {
		t.Errorf("got %d valid bundles of %d, want more", valid, len(dirs))
	}
}

// The labels of an image are checked like its annotations. The annotations take precedence.
func TestLabels(t *testing.T) {
	const prefix = "operators.operatorframework.io.bundle."
	for _, test := range []struct {
		name   string
		change func(map[string]string)
		want   []string
	}{
		{"equal", func(map[string]string) {}, []string{}},
		{"other labels", func(labels map[string]string) { labels["maintainer"] = "foo" }, []string{}},
		{"missing", func(labels map[string]string) { delete(labels, bundle.KeyPackage) }, []string{`(Warning) Missing label "` + prefix + `package.v1" of the image`}},
		{"another media type", func(labels map[string]string) { labels[bundle.KeyMediaType] = "helm" }, []string{
			`(Error) Expecting label "` + prefix + `mediatype.v1" of the image to have value "registry+v1" instead of "helm"`,
		}},
		{"no channels", func(labels map[string]string) { labels[bundle.KeyChannels] = " " }, []string{
			`(Error) Expecting label "` + prefix + `channels.v1" of the image to have non-empty value`,
		}},
		{"another package", func(labels map[string]string) { labels[bundle.KeyPackage] = "bar" }, []string{
			`(Warning) Label "` + prefix + `package.v1" of the image has value "bar", but "foo" in metadata/annotations.yaml takes precedence`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			labels := map[string]string{
				bundle.KeyMediaType: "registry+v1", bundle.KeyManifests: "manifests/", bundle.KeyMetadata: "metadata/",
				bundle.KeyPackage: "foo", bundle.KeyChannels: "stable", bundle.KeyDefaultChannel: "stable",
			}
			test.change(labels)
			if diff := cmp.Diff(test.want, findingTexts(t, goodFS(nil), Options{IsImage: true, Labels: labels})); diff != "" {
				t.Errorf("findings (-want +got)\n%s", diff)
			}
			if got := findingTexts(t, goodFS(nil), Options{Labels: labels}); len(got) > 0 {
				t.Errorf("got findings %q for a folder, which has no labels, want none", got)
			}
		})
	}

	if got := findingTexts(t, goodFS(nil), Options{IsImage: true}); len(got) != 6 {
		t.Errorf("got %q about an image without labels, want the six missing ones", got)
	}
}

func FuzzBundle(f *testing.F) {
	f.Add(goodAnnotations, goodCSV, goodCRD, "dependencies: [{type: olm.constraint, value: {cel: {rule: 'true'}}}]", "properties: [{type: olm.maxOpenShiftVersion, value: '4.8'}]")
	f.Add("annotations: {operators.operatorframework.io.bundle.channels.v1: ','}", "kind: ClusterServiceVersion", "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nspec: {minAvailable: 100%}", "dependencies: [{}]", "a")
	f.Add(goodAnnotations, "kind: ClusterServiceVersion\nspec: {version: 1, icon: [{}], maintainers: [{email: '<'}], links: [{url: ':'}]}", "kind: Role\nrules: [{apiGroups: [policy], resources: [podsecuritypolicies]}]", "[", "")
	f.Fuzz(func(t *testing.T, annotations, csv, object, dependencies, properties string) {
		fsys := fstest.MapFS{
			"metadata/annotations.yaml":  {Data: []byte(annotations)},
			"metadata/dependencies.yaml": {Data: []byte(dependencies)},
			"metadata/properties.yaml":   {Data: []byte(properties)},
			"manifests/csv.yaml":         {Data: []byte(csv)},
			"manifests/object.yaml":      {Data: []byte(object)},
		}

		files, err := bundle.ReadFiles(fsys)
		if err != nil {
			return
		}

		options := Options{Optional: optionalExcept(), KubeVersion: "1.26", Categories: &Categories{Name: "a", Data: []byte(properties)}}
		for _, finding := range append(CheckFormat(files), CheckContent(files, options)...) {
			if finding.Text == "" || finding.Validator == "" || finding.Level != Error && finding.Level != Warning {
				t.Errorf("got finding %#v", finding)
			}
		}
	})
}
