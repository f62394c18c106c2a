package crdsafety

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const unknownText = "has unknown change, refusing to determine that change is safe: "

// rulePairs are pairs of schemas of a field, and the messages for the change in each direction. "" is a safe change, and
// "?" is the prefix of an unknown change.
var rulePairs = []struct {
	name, a, b  string
	there, back string
}{
	{name: "nothing", a: "{type: string}", b: "{type: string}"},
	{name: "words", a: "{type: string}", b: "{type: string, description: d, title: t, example: e, externalDocs: {url: u}}"},
	{name: "type", a: "{type: string}", b: "{type: integer}", there: `type changed from "string" to "integer"`, back: `type changed from "integer" to "string"`},
	{name: "wider type", a: "{type: integer}", b: "{type: number}", there: `type changed from "integer" to "number"`, back: `type changed from "number" to "integer"`},
	{name: "type to int-or-string", a: "{type: string}", b: "{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}", there: `type changed from "string" to ""`, back: `type changed from "" to "string"`},
	{name: "required", a: "{type: object}", b: "{type: object, required: [b, a]}", there: "new required fields added: [a b]"},
	{name: "more required", a: "{type: object, required: [a]}", b: "{type: object, required: [b, a]}", there: "new required fields added: [b]"},
	{name: "default", a: "{type: string}", b: "{type: string, default: x}", there: `default added: "x"`, back: `default removed: "x"`},
	{name: "empty default", a: "{type: string}", b: `{type: string, default: ""}`, there: `default added: ""`, back: `default removed: ""`},
	{name: "other default", a: "{default: {a: 1, b: [true]}}", b: "{default: {a: 2, b: [true]}}", there: `default changed from {"a":1,"b":[true]} to {"a":2,"b":[true]}`, back: `default changed from {"a":2,"b":[true]} to {"a":1,"b":[true]}`},
	{name: "same default", a: "{default: {a: 1, b: 1.5}}", b: "{default: {b: 1.50, a: 1.0}}"},
	{name: "default, large numbers", a: "{default: 9007199254740993}", b: "{default: 9007199254740992}", there: "default changed from 9007199254740993 to 9007199254740992", back: "default changed from 9007199254740992 to 9007199254740993"},
	{name: "enum", a: "{type: string}", b: "{type: string, enum: [x, w]}", there: `enum restrictions added: ["x" "w"]`},
	{name: "enum values", a: "{enum: [x]}", b: "{enum: [z, x, w]}", back: `enum values removed: ["w" "z"]`},
	{name: "other enum values", a: "{enum: [x, w]}", b: "{enum: [x, z]}", there: `enum values removed: ["w"]`, back: `enum values removed: ["z"]`},
	{name: "enum in another order", a: "{enum: [x, 1, null]}", b: "{enum: [null, 1.0, x]}"},
	{name: "enum with null", a: "{enum: [x, null]}", b: "{enum: [x]}", there: "enum values removed: [null]"},
	{name: "exclusiveMinimum", a: "{minimum: 1}", b: "{minimum: 1, exclusiveMinimum: true}", there: "exclusiveMinimum added: 1"},
	{name: "exclusiveMinimum below", a: "{minimum: 1}", b: "{minimum: 0.5, exclusiveMinimum: true}", back: "minimum increased from 0.5 to 1"},
	{name: "exclusiveMaximum", a: "{maximum: 1}", b: "{maximum: 1, exclusiveMaximum: true}", there: "exclusiveMaximum added: 1"},
	{name: "exclusiveMaximum above", a: "{maximum: 1}", b: "{maximum: 2, exclusiveMaximum: true}", back: "maximum decreased from 2 to 1"},
	{name: "multipleOf", a: "{}", b: "{multipleOf: 2}", there: "multipleOf added: 2"},
	{name: "multipleOf a divisor", a: "{multipleOf: 6}", b: "{multipleOf: 3}", back: "multipleOf changed from 3 to 6"},
	{name: "format", a: "{type: string}", b: "{type: string, format: ipv4}", there: `?format changed from "" to "ipv4"`},
	{name: "other format", a: "{type: string, format: date}", b: "{type: string, format: ipv4}", there: `?format changed from "date" to "ipv4"`, back: `?format changed from "ipv4" to "date"`},
	{name: "format of integers", a: "{type: integer}", b: "{type: integer, format: int32}", there: `?format changed from "" to "int32"`},
	{name: "wider format", a: "{type: integer, format: int32}", b: "{type: integer, format: int64}", back: `?format changed from "int64" to "int32"`},
	{name: "format of all integers", a: "{type: integer}", b: "{type: integer, format: int64}"},
	{name: "format of all numbers", a: "{type: number}", b: "{type: number, format: double}"},
	{name: "pattern", a: "{type: string}", b: "{type: string, pattern: a+}", there: `pattern added: "a+"`},
	{name: "other pattern", a: "{pattern: a+}", b: "{pattern: a*}", there: `?pattern changed from "a+" to "a*"`, back: `?pattern changed from "a*" to "a+"`},
	{name: "uniqueItems", a: "{type: array}", b: "{type: array, uniqueItems: true}", there: "uniqueItems added"},
	{name: "nullable", a: "{nullable: true}", b: "{}", there: "nullable removed"},
	{name: "unknown fields", a: "{x-kubernetes-preserve-unknown-fields: true}", b: "{}", there: "x-kubernetes-preserve-unknown-fields removed: fields that the schema does not name would be lost"},
	{name: "embedded resource", a: "{}", b: "{x-kubernetes-embedded-resource: true}", there: "x-kubernetes-embedded-resource added", back: "?x-kubernetes-embedded-resource removed"},
	{name: "int-or-string", a: "{}", b: "{x-kubernetes-int-or-string: true}", there: `?x-kubernetes-int-or-string changed from false to true`, back: `?x-kubernetes-int-or-string changed from true to false`},
	{name: "list-type set", a: "{}", b: "{x-kubernetes-list-type: set}", there: `x-kubernetes-list-type changed from "atomic" to "set"`, back: `?x-kubernetes-list-type changed from "set" to "atomic"`},
	{name: "list-type atomic", a: "{}", b: "{x-kubernetes-list-type: atomic}"},
	{name: "list-map-keys", a: "{x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a]}", b: "{x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [b, a]}", there: "?x-kubernetes-list-map-keys changed from [a] to [b a]", back: "?x-kubernetes-list-map-keys changed from [b a] to [a]"},
	{name: "list-map-keys in another order", a: "{x-kubernetes-list-map-keys: [a, b]}", b: "{x-kubernetes-list-map-keys: [b, a]}"},
	{name: "map-type", a: "{}", b: "{x-kubernetes-map-type: atomic}", there: `?x-kubernetes-map-type changed from "granular" to "atomic"`, back: `?x-kubernetes-map-type changed from "atomic" to "granular"`},
	{name: "map-type granular", a: "{}", b: "{x-kubernetes-map-type: granular}"},
	{name: "validations", a: "{}", b: "{x-kubernetes-validations: [{rule: self > 1}]}", there: `?x-kubernetes-validations added: "self > 1"`},
	{name: "message of a validation", a: "{x-kubernetes-validations: [{rule: r, message: a, fieldPath: .a}]}", b: "{x-kubernetes-validations: [{rule: r, messageExpression: b, reason: FieldValueInvalid}]}"},
	{name: "optionalOldSelf", a: "{x-kubernetes-validations: [{rule: r, optionalOldSelf: true}]}", b: "{x-kubernetes-validations: [{rule: r}]}", there: `?x-kubernetes-validations added: "r"`, back: `?x-kubernetes-validations added: "r" with optionalOldSelf`},
	{name: "anyOf", a: "{}", b: "{anyOf: [{required: [a]}]}", there: "?anyOf added"},
	{name: "more anyOf", a: "{anyOf: [{required: [a]}]}", b: "{anyOf: [{required: [b]}, {required: [a]}]}", back: "?anyOf changed"},
	{name: "oneOf", a: "{}", b: "{oneOf: [{required: [a]}]}", there: "?oneOf added"},
	{name: "more oneOf", a: "{oneOf: [{required: [a]}]}", b: "{oneOf: [{required: [a]}, {required: [b]}]}", there: "?oneOf changed", back: "?oneOf changed"},
	{name: "oneOf in another order", a: "{oneOf: [{required: [a]}, {required: [b]}]}", b: "{oneOf: [{required: [b]}, {required: [a]}]}"},
	{name: "allOf", a: "{}", b: "{allOf: [{required: [a]}]}", there: "?allOf changed: it demands more, or something else"},
	{name: "not", a: "{}", b: "{not: {required: [a]}}", there: "?not added"},
	{name: "other not", a: "{not: {required: [b]}}", b: "{not: {required: [a]}}", there: "?not changed", back: "?not changed"},
	{name: "what int-or-string says already", a: "{x-kubernetes-int-or-string: true}", b: "{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}"},
	{name: "the same as a demand", a: "{x-kubernetes-int-or-string: true}", b: "{x-kubernetes-int-or-string: true, allOf: [{anyOf: [{type: integer}, {type: string}]}]}"},
	{name: "id", a: "{}", b: "{id: a}", there: "?id changed", back: "?id changed"},
	{name: "$schema", a: "{}", b: "{$schema: a}", there: "?$schema changed", back: "?$schema changed"},
	{name: "$ref", a: "{}", b: "{$ref: a}", there: "?$ref changed", back: "?$ref changed"},
	{name: "patternProperties", a: "{}", b: "{patternProperties: {a: {}}}", there: "?patternProperties changed", back: "?patternProperties changed"},
	{name: "dependencies", a: "{}", b: "{dependencies: {a: [b]}}", there: "?dependencies changed", back: "?dependencies changed"},
	{name: "additionalItems", a: "{}", b: "{additionalItems: true}", there: "?additionalItems changed", back: "?additionalItems changed"},
	{name: "definitions", a: "{}", b: "{definitions: {a: {}}}", there: "?definitions changed", back: "?definitions changed"},
	{name: "items, one each", a: "{items: [{type: string}]}", b: "{items: [{type: integer}]}", there: "?items changed", back: "?items changed"},
	{name: "a long list", a: "{}", b: "{required: [" + strings.Repeat("x", 2000) + "]}", there: "new required fields added: [" + strings.Repeat("x", maxTextBytes-len("…")) + "…]"},
}

func TestRules(t *testing.T) {
	for _, attribute := range []string{"minimum", "minLength", "minItems", "minProperties"} {
		boundRules(t, attribute, 3, 2, "increased")
	}

	for _, attribute := range []string{"maximum", "maxLength", "maxItems", "maxProperties"} {
		boundRules(t, attribute, 2, 3, "decreased")
	}

	for _, tc := range rulePairs {
		t.Run(tc.name, func(t *testing.T) {
			judged(t, tc.a, tc.b, tc.there)
			judged(t, tc.b, tc.a, tc.back)
		})
	}
}

// boundRules checks a bound that is added, removed, tightened and loosened.
func boundRules(t *testing.T, attribute string, tight, loose int, tightened string) {
	t.Run(attribute, func(t *testing.T) {
		a, b := fmt.Sprintf("{%s: %d}", attribute, tight), fmt.Sprintf("{%s: %d}", attribute, loose)
		judged(t, "{}", a, fmt.Sprintf("%s added: %d", attribute, tight))
		judged(t, "{}", fmt.Sprintf("{%s: 0}", attribute), attribute+" added: 0")
		judged(t, a, "{}", "")
		judged(t, a, a, "")
		judged(t, a, b, "")
		judged(t, b, a, fmt.Sprintf("%s %s from %d to %d", attribute, tightened, loose, tight))
	})
}

// places are the possible places of a field: the surrounding schema and the path of the field.
var places = []struct{ around, path string }{
	{"{properties: {spec: {properties: {field: %s}}}}", "^.spec.field"},
	{"{properties: {list: {items: %s}}}", "^.list[*]"},
	{"{properties: {map: {additionalProperties: %s}}}", "^.map[*]"},
	{"{properties: {a: {items: {additionalProperties: {properties: {b-c: %s}}}}}}", "^.a[*][*].b-c"},
	{`{properties: {"a.b": %s}}`, `^["a.b"]`},
}

// judged checks the messages for a change of a field at each place of a schema.
func judged(t *testing.T, old, updated, want string) {
	t.Helper()
	for _, place := range places {
		var expected []string
		if text, unknown := strings.CutPrefix(want, "?"); unknown {
			expected = []string{fmt.Sprintf(`"ChangeValidator" validation failed: version "v1alpha1", field %q %s%s`, place.path, unknownText, text)}
		} else if want != "" {
			expected = []string{fmt.Sprintf(`"ChangeValidator" validation failed: version "v1alpha1", field %q: %s`, place.path, want)}
		}
		err := Check(sample(t, fmt.Sprintf(place.around, old)), sample(t, fmt.Sprintf(place.around, updated)))
		if diff := cmp.Diff(expected, messages(t, err)); diff != "" {
			t.Errorf("from %s to %s (-want +got):\n%s", old, updated, diff)
		}
	}
}

// TestEveryAttributeHasARule detects attributes that a later Kubernetes version adds.
func TestEveryAttributeHasARule(t *testing.T) {
	walked := []string{"properties", "items", "additionalProperties", "exclusiveMinimum", "exclusiveMaximum"}
	tested := map[string]bool{
		"minimum": true, "minLength": true, "minItems": true, "minProperties": true,
		"maximum": true, "maxLength": true, "maxItems": true, "maxProperties": true,
	}
	for _, name := range walked {
		tested[name] = true
	}

	for _, pair := range rulePairs {
		a, b := parse[map[string]any](t, pair.a), parse[map[string]any](t, pair.b)
		for _, schema := range []map[string]any{*a, *b} {
			for name := range schema {
				tested[name] = true
			}
		}
	}

	attributes := reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
	for i := range attributes.NumField() {
		name, _, _ := strings.Cut(attributes.Field(i).Tag.Get("json"), ",")
		if !tested[name] {
			t.Errorf("got no tested rule for the attribute %s, want one", name)
		}
	}
}
