package validate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	library "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/testing/checkout"
)

const goodCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Foo, plural: foos}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string}
              size: {type: integer, default: 1}
              parts: {type: object, additionalProperties: {type: string}}
              any: {type: object, additionalProperties: true}
              flags: {type: array, items: {type: string}}
          status: {type: object, properties: {n: {type: integer}}}
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object}}
`

// parseCRD parses a CRD from YAML.
func parseCRD(t testing.TB, text string) map[string]any {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return content
}

// setPath changes a CRD at a path of keys and indices.
func setPath(t testing.TB, content map[string]any, path string, value string) {
	t.Helper()
	var decoded any
	if err := yaml.Unmarshal([]byte(value), &decoded); err != nil {
		t.Fatal(err)
	}

	steps := strings.Split(path, "/")
	var at any = content
	for i, step := range steps {
		last := i == len(steps)-1
		switch container := at.(type) {
		case map[string]any:
			switch {
			case last && value == "":
				delete(container, step)
			case last:
				container[step] = decoded
			case container[step] == nil:
				container[step] = map[string]any{}
			}
			at = container[step]
		case []any:
			var n int
			if _, err := fmt.Sscan(step, &n); err != nil || n >= len(container) {
				t.Fatalf("%s: no element %s", path, step)
			}
			if last {
				container[n] = decoded
			}
			at = container[n]
		default:
			t.Fatalf("%s: no field %s", path, step)
		}
	}
}

// mutations are changes of goodCRD that violate a rule or are just valid.
var mutations = []struct {
	name    string
	changes []string // path, value
}{
	{"good", nil},
	{"name", []string{"metadata/name", "foo.example.com"}},
	{"no name", []string{"metadata/name", ""}},
	{"bad name", []string{"metadata/name", "Foos_.example.com"}},
	{"namespace", []string{"metadata/namespace", "a"}},
	{"annotations", []string{"metadata/annotations", "{'a b': x, '': w, ok/status: z}"}},
	{"labels", []string{"metadata/labels", "{a: '-', 'x y': z}"}},
	{"no group", []string{"spec/group", ""}},
	{"bad group", []string{"spec/group", "Example.com"}},
	{"short group", []string{"spec/group", "example", "metadata/name", "foos.example"}},
	{"no scope", []string{"spec/scope", ""}},
	{"bad scope", []string{"spec/scope", "Galaxy"}},
	{"protected group", []string{"spec/group", "x.k8s.io", "metadata/name", "foos.x.k8s.io"}},
	{"kubernetes.io", []string{"spec/group", "kubernetes.io", "metadata/name", "foos.kubernetes.io"}},
	{"approved group", []string{"spec/group", "x.k8s.io", "metadata/name", "foos.x.k8s.io", "metadata/annotations", "{api-approved.kubernetes.io: 'https://github.com/a'}"}},
	{"unapproved group", []string{"spec/group", "x.k8s.io", "metadata/name", "foos.x.k8s.io", "metadata/annotations", "{api-approved.kubernetes.io: 'unapproved, why'}"}},
	{"badly approved group", []string{"spec/group", "x.k8s.io", "metadata/name", "foos.x.k8s.io", "metadata/annotations", "{api-approved.kubernetes.io: 'yes'}"}},
	{"no names", []string{"spec/names", "{}"}},
	{"bad names", []string{"spec/names", "{plural: Foos, singular: '1', kind: F-, listKind: Foo_List, shortNames: [ok, Bad, ''], categories: [all, A]}"}},
	{"kind and list", []string{"spec/names", "{plural: foos, kind: Foo, listKind: Foo}"}},
	{"preserve", []string{"spec/preserveUnknownFields", "true"}},
	{"preserve and conversion", []string{"spec/preserveUnknownFields", "true", "spec/conversion", "{strategy: Webhook}"}},
	{"preserve without defaults", []string{"spec/preserveUnknownFields", "true", "spec/versions/0/schema/openAPIV3Schema", "{type: object}"}},
	{"no versions", []string{"spec/versions", "[]"}},
	{"no storage", []string{"spec/versions/0/storage", "false"}},
	{"two storages", []string{"spec/versions/1/storage", "true"}},
	{"one name twice", []string{"spec/versions/1/name", "v1"}},
	{"bad version name", []string{"spec/versions/1/name", "'1.0'"}},
	{"no schema", []string{"spec/versions/1/schema", ""}},
	{"schema not structural", []string{"spec/versions/1/schema", "{openAPIV3Schema: {properties: {a: {}}}}"}},
	{"warning without deprecation", []string{"spec/versions/1/deprecationWarning", "old"}},
	{"empty warning", []string{"spec/versions/1/deprecated", "true", "spec/versions/1/deprecationWarning", "''"}},
	{"unprintable warning", []string{"spec/versions/1/deprecated", "true", "spec/versions/1/deprecationWarning", `"a\u0007\u200b"`}},
	{"long warning", []string{"spec/versions/1/deprecated", "true", "spec/versions/1/deprecationWarning", strings.Repeat("a", 257)}},
	{"good warning", []string{"spec/versions/1/deprecated", "true", "spec/versions/1/deprecationWarning", "gone"}},
	{"scale", []string{"spec/versions/0/subresources", "{status: {}, scale: {specReplicasPath: .spec.n, statusReplicasPath: .status.n, labelSelectorPath: .status.s}}"}},
	{"empty scale", []string{"spec/versions/0/subresources", "{scale: {specReplicasPath: '', statusReplicasPath: ''}}"}},
	{"bad scale", []string{"spec/versions/0/subresources", "{scale: {specReplicasPath: spec.n, statusReplicasPath: .spec.n, labelSelectorPath: s}}"}},
	{"other scale", []string{"spec/versions/0/subresources", "{scale: {specReplicasPath: .n, statusReplicasPath: .n, labelSelectorPath: .s}}"}},
	{"columns", []string{"spec/versions/0/additionalPrinterColumns", "[{name: a, type: string, jsonPath: .a}, {}, {name: b, type: x, format: z, jsonPath: b}, {name: c, type: date, format: date-time, jsonPath: .}]"}},
	{"selectable", []string{"spec/versions/0/selectableFields", "[{jsonPath: .spec.color}, {jsonPath: .spec.size}]"}},
	{"bad selectable", []string{"spec/versions/0/selectableFields",
		"[{jsonPath: ''}, {jsonPath: spec.color}, {jsonPath: .spec.none}, {jsonPath: .spec}, {jsonPath: .metadata.name}, {jsonPath: .spec.color}, {jsonPath: .spec.color}, " +
			"{jsonPath: '.spec.flags[0]'}, {jsonPath: '.spec.none[0]'}, {jsonPath: '[spec]'}, {jsonPath: .spec.}, {jsonPath: .}, {jsonPath: .spec.any.x}, {jsonPath: .spec.flags.x}]"}},
	{"many selectable", []string{"spec/versions/0/selectableFields",
		"[{jsonPath: .spec.parts.a}, {jsonPath: .spec.parts.b}, {jsonPath: .spec.parts.c}, {jsonPath: .spec.parts.d}, {jsonPath: .spec.parts.e}, {jsonPath: .spec.parts.f}, {jsonPath: .spec.parts.g}, " +
			"{jsonPath: .spec.parts.h}, {jsonPath: .spec.color}]"}},
	{"selectable without schema", []string{"spec/versions/1/schema", "", "spec/versions/1/selectableFields", "[{jsonPath: .a}]"}},
	{"selectable in all versions", []string{"spec/versions/0/selectableFields", "[{jsonPath: .a}]", "spec/versions/1/selectableFields", "[{jsonPath: .a}]"}},
	{"conversion", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b, path: /x/y/}}}}"}},
	{"other conversion", []string{"spec/conversion", "{strategy: Magic}"}},
	{"no conversion strategy", []string{"spec/conversion", "{}"}},
	{"conversion with an unused webhook", []string{"spec/conversion", "{strategy: None, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://a'}}}"}},
	{"conversion without a webhook", []string{"spec/conversion", "{strategy: Webhook}"}},
	{"conversion without a client", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1beta1]}}"}},
	{"conversion with neither", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {}}}"}},
	{"conversion with both", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://a', service: {name: a, namespace: b}}}}"}},
	{"review versions", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v2, v2, V3], clientConfig: {url: 'https://a'}}}"}},
	{"webhook URL", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'http://u@/p?q#f'}}}"}},
	{"no webhook URL", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: ':'}}}"}},
	{"webhook service", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b, port: 70000, path: a//B_/}}}}"}},
	{"webhook service, slashes", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b, path: //}}}}"}},
	{"bad CA", []string{"spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {caBundle: YQ==, url: 'https://a'}}}"}},
	{"old", []string{"apiVersion", "apiextensions.k8s.io/v1beta1"}},
	{"old, pruning", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/preserveUnknownFields", "false"}},
	{"old, one version", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/versions", "", "spec/version", "v1"}},
	{"old, another version", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/version", "V2"}},
	{"old, all twice", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/validation", "{openAPIV3Schema: {type: object}}", "spec/subresources", "{status: {}}",
		"spec/additionalPrinterColumns", "[{name: a, type: string, JSONPath: .a}]", "spec/versions/0/subresources", "{status: {}}",
		"spec/versions/0/additionalPrinterColumns", "[{name: a, type: string, JSONPath: .a}]"}},
	{"old, all the same", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/versions",
		"[{name: v1, storage: true, schema: {openAPIV3Schema: {type: object}}, subresources: {}, additionalPrinterColumns: [{name: a, type: string, JSONPath: .a}]}," +
			" {name: v2, schema: {openAPIV3Schema: {type: object}}, subresources: {}, additionalPrinterColumns: [{name: a, type: string, JSONPath: .a}]}]"}},
	{"old, top level", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/validation", "{openAPIV3Schema: {type: object, properties: {a: {type: string}}}}", "spec/selectableFields", "[{jsonPath: .a}, {jsonPath: .b}]",
		"spec/subresources", "{scale: {}}", "spec/additionalPrinterColumns", "[{}]", "spec/versions", "[{name: v1, storage: true}]"}},
	{"old, selectable without schema", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/selectableFields", "[{jsonPath: .a}]"}},
	{"old, conversion", []string{"apiVersion", "apiextensions.k8s.io/v1beta1", "spec/conversion", "{strategy: Webhook, webhookClientConfig: {url: 'https://a'}}"}},
}

// errorTexts returns errors without their values, because those of the library are pointers
// and structs.
func errorTexts(faults field.ErrorList) []string {
	var list []string
	for _, fault := range faults {
		if !strings.Contains(fault.Field, "openAPIV3Schema") && !strings.Contains(fault.Field, "status") {
			list = append(list, fmt.Sprintf("%s: %s: %s", fault.Field, fault.Type, fault.Detail))
		}
	}

	slices.Sort(list)
	return list
}

// validateByLibrary returns the library's errors. survived is false if the library panics.
func validateByLibrary(t *testing.T, crd *apiextensions.CustomResourceDefinition) (faults field.ErrorList, survived bool) {
	t.Helper()
	defer func() {
		if recover() != nil {
			survived = false
		}
	}()
	return library.ValidateCustomResourceDefinition(t.Context(), crd), true
}

func compareWithLibrary(t *testing.T, content map[string]any) {
	t.Helper()
	document, unknown, err := decodeCRD(content)
	if err != nil || unknown {
		t.Fatalf("cannot be decoded: %v", err)
	}

	want, survived := validateByLibrary(t, document.internal)
	if !survived {
		t.Fatal("the library panics")
	}
	if diff := cmp.Diff(errorTexts(want), errorTexts(validateCRD(document.internal))); diff != "" {
		t.Errorf("faults (-want as from the library +got):\n%s", diff)
	}
}

func TestCRDRulesAreTheLibrarys(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			content := parseCRD(t, goodCRD)
			for i := 0; i < len(m.changes); i += 2 {
				setPath(t, content, m.changes[i], m.changes[i+1])
			}
			compareWithLibrary(t, content)
		})
	}
}

func TestCRDRulesAreTheLibrarysForRealCRDs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(checkout.SharedData(t, "bundles"), "*", "*", "manifests", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, error %v", len(files), err)
	}

	seen, broken := map[string]bool{}, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		content := parseCRD(t, string(text))
		if content["kind"] != "CustomResourceDefinition" || seen[string(text)] {
			continue
		}

		seen[string(text)] = true
		t.Run(filepath.Base(file), func(t *testing.T) { compareWithLibrary(t, content) })
		if document, _, err := decodeCRD(content); err == nil && len(validateCRD(document.internal)) > 0 {
			broken++
		}
	}

	t.Logf("%d different CRDs, %d of them with faults", len(seen), broken)
}

// TestCRDRulesThatDifferFromLibrary checks the rules in which this package differs because the library
// is wrong or prints secrets.
func TestCRDRulesThatDifferFromLibrary(t *testing.T) {
	for _, c := range []struct{ name, path, value, want string }{
		{"the service's name", "spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: b}}}}",
			"spec.conversion.webhookClientConfig.service.name: Required value"},
		{"the service's namespace", "spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: b}}}}",
			"spec.conversion.webhookClientConfig.service.namespace: Required value"},
		{"no password", "spec/conversion", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: 'https://user:secret@host'}}}",
			`spec.conversion.webhookClientConfig.url: Invalid value: "user": user information is not permitted in the URL`},
		{"names of versions", "spec/versions/0/storage", "false", `spec.versions: Invalid value: ["v1","v1beta1"]: must have exactly one version marked as storage version`},
		{"a field below an untyped one", "spec/versions/0/selectableFields", "[{jsonPath: .spec.any.x.y}]",
			`spec.versions[0].selectableFields[0].jsonPath: Invalid value: ".spec.any.x.y": is an invalid path: does not refer to a valid field`},
	} {
		content := parseCRD(t, goodCRD)
		setPath(t, content, c.path, c.value)
		document, _, err := decodeCRD(content)
		if err != nil {
			t.Fatal(err)
		}

		var got []string
		for _, fault := range validateCRD(document.internal) {
			got = append(got, fault.Error())
		}

		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", c.name, diff)
		}
	}
}

func FuzzCRD(f *testing.F) {
	for _, m := range mutations {
		content := parseCRD(f, goodCRD)
		for i := 0; i < len(m.changes); i += 2 {
			setPath(f, content, m.changes[i], m.changes[i+1])
		}

		text, err := json.Marshal(content)
		if err != nil {
			f.Fatal(err)
		}

		f.Add(string(text))
	}

	f.Fuzz(func(t *testing.T, text string) {
		var content map[string]any
		if json.Unmarshal([]byte(text), &content) != nil {
			return
		}

		document, unknown, err := decodeCRD(content)
		if err != nil || unknown {
			return
		}

		for _, fault := range validateCRD(document.internal) {
			if fault.Field == "" || fault.Error() == "" {
				t.Errorf("got fault %#v, want one with a field and a message", fault)
			}
		}
	})
}
