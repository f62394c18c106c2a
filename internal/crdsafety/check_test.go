package crdsafety

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

type crd = apiextensionsv1.CustomResourceDefinition

// version returns a version of a CRD, without a schema.
func version(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage}
}

// TestDocumentedMessages checks the CRD and the messages of the documentation.
func TestDocumentedMessages(t *testing.T) {
	const schema = "{type: object, %sproperties: {apiVersion: {type: string}, kind: {type: string}, metadata: {type: object}, status: {type: object}, spec: {type: object, properties: {%s}}%s}}"
	field := "pollInterval: {type: string}"
	for _, tc := range []struct {
		name, old, updated string
		change             func(*crd)
		want               string
	}{
		{
			name: "scope", change: func(c *crd) { c.Spec.Scope = apiextensionsv1.ClusterScoped },
			want: `"NoScopeChange" validation failed: scope changed from "Namespaced" to "Cluster"`,
		},
		{
			name: "stored version", change: func(c *crd) { c.Spec.Versions = append(c.Spec.Versions[:0], version("v1alpha2", true)) },
			want: `"NoStoredVersionRemoved" validation failed: stored version "v1alpha1" removed`,
		},
		{
			name: "field", old: fmt.Sprintf(schema, "", field, ""), updated: fmt.Sprintf(schema, "", "", ""),
			want: `"NoExistingFieldRemoved" validation failed: crd/test.example.com version/v1alpha1 field/^.spec.pollInterval may not be removed`,
		},
		{
			name: "required field", old: fmt.Sprintf(schema, "", "", ","+field), updated: fmt.Sprintf(schema, "required: [pollInterval], ", "", ","+field),
			want: `"ChangeValidator" validation failed: version "v1alpha1", field "^": new required fields added: [pollInterval]`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.old == "" {
				tc.old, tc.updated = "{type: object}", "{type: object}"
			}

			old, updated := sample(t, tc.old), sample(t, tc.updated)
			old.Name, updated.Name = "test.example.com", "test.example.com"
			if tc.change != nil {
				tc.change(updated)
			}

			want := "CustomResourceDefinition test.example.com failed upgrade safety validation. " + tc.want
			if err := Check(old, updated); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestDefinitions(t *testing.T) {
	const unknown = `"ChangeValidator" validation failed: definition ` + unknownText
	webhook := &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	for _, tc := range []struct {
		name string
		// both changes both CRDs. old and updated change one of them.
		both, old, updated func(*crd)
		want               []string
	}{
		{name: "nothing"},
		{
			name: "names that do not matter",
			updated: func(c *crd) {
				c.Spec.Names.Singular, c.Spec.Names.ShortNames, c.Spec.Names.Categories = "other", []string{"o"}, []string{"all"}
				c.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Age"}}
				c.Spec.Versions[0].Deprecated, c.Spec.Versions[0].DeprecationWarning = true, ptr.To("gone soon")
			},
		},
		{
			name: "scope", old: func(c *crd) { c.Spec.Scope = apiextensionsv1.ClusterScoped },
			want: []string{`"NoScopeChange" validation failed: scope changed from "Cluster" to "Namespaced"`},
		},
		{
			name: "new version", updated: func(c *crd) {
				c.Spec.Versions[0].Storage = false
				c.Spec.Versions = append(c.Spec.Versions, version("v1", true))
			},
		},
		{
			name: "every stored version removed",
			old: func(c *crd) {
				c.Status.StoredVersions = []string{"v1alpha1", "v1alpha0"}
				c.Spec.Versions = append(c.Spec.Versions, version("v1alpha0", false))
			},
			updated: func(c *crd) { c.Spec.Versions[0].Name = "v1" },
			want: []string{
				`"NoStoredVersionRemoved" validation failed: stored version "v1alpha0" removed`,
				`"NoStoredVersionRemoved" validation failed: stored version "v1alpha1" removed`,
			},
		},
		{
			name: "version without stored objects removed", old: func(c *crd) { c.Spec.Versions = append(c.Spec.Versions, version("v1alpha0", false)) },
		},
		{name: "version not served any more", updated: func(c *crd) { c.Spec.Versions[0].Served = false }},
		{
			name: "kind", updated: func(c *crd) { c.Spec.Names.Kind = "Other" },
			want: []string{`"ChangeValidator" validation failed: spec.names.kind changed from "Sample" to "Other"`},
		},
		{name: "default list kind", old: func(c *crd) { c.Spec.Names.ListKind = "SampleList" }},
		{
			name: "list kind", updated: func(c *crd) { c.Spec.Names.ListKind = "Samples" },
			want: []string{unknown + `spec.names.listKind changed from "SampleList" to "Samples"`},
		},
		{
			name: "unknown fields", old: func(c *crd) { c.Spec.PreserveUnknownFields = true },
			want: []string{`"ChangeValidator" validation failed: spec.preserveUnknownFields changed from true to false: fields that the schema does not name would be lost`},
		},
		{name: "unknown fields kept", updated: func(c *crd) { c.Spec.PreserveUnknownFields = true }},
		{name: "conversion by webhook", updated: func(c *crd) { c.Spec.Conversion = webhook }},
		{name: "no conversion of one version", old: func(c *crd) { c.Spec.Conversion = webhook }},
		{
			name: "no conversion of like versions", both: func(c *crd) {
				c.Spec.Versions = append(c.Spec.Versions, c.Spec.Versions[0])
				c.Spec.Versions[1].Name = "v1"
			},
			old: func(c *crd) { c.Spec.Conversion = webhook },
		},
		{
			name: "no conversion of unlike versions", both: func(c *crd) {
				c.Spec.Versions = append(c.Spec.Versions, version("v1", false))
				c.Spec.Versions[1].Schema = sample(t, "{properties: {a: {}}}").Spec.Versions[0].Schema
			},
			old:  func(c *crd) { c.Spec.Conversion = webhook },
			want: []string{unknown + `spec.conversion.strategy changed from "Webhook" to "None"`},
		},
		{
			name: "subresources",
			old: func(c *crd) {
				c.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{}, Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a"},
				}
				c.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.a"}, {JSONPath: ".spec.b"}}
			},
			updated: func(c *crd) {
				c.Spec.Versions[0].SelectableFields = []apiextensionsv1.SelectableField{{JSONPath: ".spec.b"}, {JSONPath: ".spec.c"}}
			},
			want: []string{
				`"ChangeValidator" validation failed: version "v1alpha1" ` + unknownText + "subresource status removed",
				`"ChangeValidator" validation failed: version "v1alpha1" ` + unknownText + "subresource scale removed",
				`"ChangeValidator" validation failed: version "v1alpha1" ` + unknownText + `selectable field ".spec.a" removed`,
			},
		},
		{
			name: "new subresources", updated: func(c *crd) {
				c.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{}, Scale: &apiextensionsv1.CustomResourceSubresourceScale{},
				}
			},
		},
		{
			name: "other scale",
			old: func(c *crd) {
				c.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.a"}}
			},
			updated: func(c *crd) {
				c.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.b"}}
			},
			want: []string{`"ChangeValidator" validation failed: version "v1alpha1" ` + unknownText + "subresource scale changed"},
		},
		{name: "no schema", old: func(c *crd) { c.Spec.Versions[0].Schema = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old, updated := sample(t, "{type: object}"), sample(t, "{type: object}")
			for c, changes := range map[*crd][]func(*crd){old: {tc.both, tc.old}, updated: {tc.both, tc.updated}} {
				for _, change := range changes {
					if change != nil {
						change(c)
					}
				}
			}
			if diff := cmp.Diff(tc.want, messages(t, Check(old, updated))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFields(t *testing.T) {
	gone := func(field string) string {
		return `"NoExistingFieldRemoved" validation failed: crd/samples.test.example.com version/v1alpha1 field/` + field + " may not be removed"
	}
	unknown := func(field, text string) string {
		return fmt.Sprintf(`"ChangeValidator" validation failed: version "v1alpha1", field %q %s%s`, field, unknownText, text)
	}
	added := "field added where unknown fields were kept: objects may have other values in it"
	for _, tc := range []struct {
		name, old, updated string
		want               []string
	}{
		{name: "new field", old: "{properties: {}}", updated: "{properties: {a: {type: object, required: [b], properties: {b: {default: 1, enum: [1]}}}}}"},
		{name: "fields", old: "{properties: {b: {}, a: {properties: {c: {}}}}}", updated: "{}", want: []string{gone("^.a"), gone("^.b")}},
		{
			name: "a field, and others kept as they are", old: "{properties: {a: {}}}", updated: "{x-kubernetes-preserve-unknown-fields: true}",
			want: []string{gone("^.a")},
		},
		{
			name: "new field where all were kept", old: "{x-kubernetes-preserve-unknown-fields: true, properties: {a: {}}}",
			updated: "{x-kubernetes-preserve-unknown-fields: true, properties: {a: {}, b: {}}}", want: []string{unknown("^.b", added)},
		},
		{name: "elements", old: "{properties: {a: {items: {type: string}}}}", updated: "{properties: {a: {}}}", want: []string{gone("^.a[*]")}},
		{name: "new elements", old: "{properties: {a: {}}}", updated: "{properties: {a: {items: {type: string}}}}", want: []string{unknown("^.a", "items added")}},
		{name: "values", old: "{properties: {a: {additionalProperties: {type: string}}}}", updated: "{properties: {a: {}}}", want: []string{gone("^.a[*]")}},
		{name: "all values", old: "{properties: {a: {additionalProperties: true}}}", updated: "{properties: {a: {additionalProperties: false}}}", want: []string{gone("^.a[*]")}},
		{name: "new values", old: "{properties: {a: {type: object}}}", updated: "{properties: {a: {type: object, additionalProperties: {type: string}}}}"},
		{name: "new values of any type", old: "{properties: {a: {additionalProperties: false}}}", updated: "{properties: {a: {additionalProperties: true}}}"},
		{
			name: "new values where all were kept", old: "{properties: {a: {x-kubernetes-preserve-unknown-fields: true}}}",
			updated: "{properties: {a: {x-kubernetes-preserve-unknown-fields: true, additionalProperties: {type: string}}}}",
			want:    []string{unknown("^.a", "additionalProperties added")},
		},
		{
			name: "typed values", old: "{properties: {a: {additionalProperties: true}}}", updated: "{properties: {a: {additionalProperties: {type: string}}}}",
			want: []string{
				`"ChangeValidator" validation failed: version "v1alpha1", field "^.a[*]": type changed from "" to "string"`,
				`"ChangeValidator" validation failed: version "v1alpha1", field "^.a[*]": x-kubernetes-preserve-unknown-fields removed: fields that the schema does not name would be lost`,
			},
		},
		{
			name:    "everything at once, in order",
			old:     "{properties: {a: {type: string}, b: {}, c: {items: {type: string, maxLength: 3}}}}",
			updated: "{required: [a], properties: {a: {type: integer, default: 1}, c: {items: {type: string, maxLength: 2}}}}",
			want: []string{
				gone("^.b"),
				`"ChangeValidator" validation failed: version "v1alpha1", field "^": new required fields added: [a]`,
				`"ChangeValidator" validation failed: version "v1alpha1", field "^.a": type changed from "string" to "integer"`,
				`"ChangeValidator" validation failed: version "v1alpha1", field "^.a": default added: 1`,
				`"ChangeValidator" validation failed: version "v1alpha1", field "^.c[*]": maxLength decreased from 3 to 2`,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, messages(t, Check(sample(t, tc.old), sample(t, tc.updated)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestVersions compares each version with itself, and no version with another.
func TestVersions(t *testing.T) {
	old, updated := sample(t, "{properties: {a: {}}}"), sample(t, "{}")
	old.Spec.Versions = append(old.Spec.Versions, version("v1", false), version("v2", false))
	old.Spec.Versions[1].Schema = sample(t, "{properties: {b: {}, c: {}}}").Spec.Versions[0].Schema
	updated.Spec.Versions = append(updated.Spec.Versions, version("v1", false), version("v3", false))
	updated.Spec.Versions[1].Schema = sample(t, "{properties: {b: {}}}").Spec.Versions[0].Schema
	want := []string{
		`"NoExistingFieldRemoved" validation failed: crd/samples.test.example.com version/v1alpha1 field/^.a may not be removed`,
		`"NoExistingFieldRemoved" validation failed: crd/samples.test.example.com version/v1 field/^.c may not be removed`,
	}
	if diff := cmp.Diff(want, messages(t, Check(old, updated))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// nested returns a schema of nested fields with a leaf in the innermost one.
func nested(t *testing.T, depth int, leaf string) *crd {
	result := sample(t, "{type: object}")
	innermost := parse[apiextensionsv1.JSONSchemaProps](t, leaf)
	for range depth {
		innermost = &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"f": *innermost}}
	}
	result.Spec.Versions[0].Schema.OpenAPIV3Schema = innermost
	return result
}

func TestDepthIsBounded(t *testing.T) {
	const depth = 1000
	if err := Check(nested(t, depth, "{type: string}"), nested(t, depth, "{type: string}")); err != nil {
		t.Errorf("got error %v without a change, want none", err)
	}

	got := messages(t, Check(nested(t, depth, "{type: string}"), nested(t, depth, "{type: integer}")))
	if len(got) != 1 || !strings.HasSuffix(got[0], unknownText+"changes more than 200 levels deep are not judged") {
		t.Errorf("got messages %q, want one about the maximum depth", got)
	}
}

func TestViolationsAreBounded(t *testing.T) {
	old, name := sample(t, "{type: object}"), strings.Repeat("x", 5000)
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for i := range maxViolations + 100 {
		properties[fmt.Sprint(i, name)] = apiextensionsv1.JSONSchemaProps{}
	}

	old.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties = properties
	got := messages(t, Check(old, sample(t, "{type: object}")))
	if len(got) != maxViolations+1 {
		t.Errorf("got %d messages, want %d", len(got), maxViolations+1)
	}

	want := `"ChangeValidator" validation failed: definition ` + unknownText + "it has more than 10000 violations, and the rest was not compared"
	if got[len(got)-1] != want {
		t.Errorf("got last message %q, want %q", got[len(got)-1], want)
	}
	if size := len(got[0]); size > 2*maxTextBytes {
		t.Errorf("got a message of %d bytes, want at most %d", size, 2*maxTextBytes)
	}
}

func TestErrorHasALineForEach(t *testing.T) {
	err := Check(sample(t, "{properties: {a: {}, b: {}}}"), sample(t, "{}"))
	want := `CustomResourceDefinition samples.test.example.com failed upgrade safety validation. ` +
		`"NoExistingFieldRemoved" validation failed: crd/samples.test.example.com version/v1alpha1 field/^.a may not be removed
"NoExistingFieldRemoved" validation failed: crd/samples.test.example.com version/v1alpha1 field/^.b may not be removed`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
