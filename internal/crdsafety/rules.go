package crdsafety

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// schema is an alias for the signatures of rules.
type schema = apiextensionsv1.JSONSchemaProps

// rules compare the attributes of a field's schema. Every attribute is compared by one of them or
// by the walker, except those that only describe: description, title, example and externalDocs.
var rules = []func(w *walker, old, updated *schema){
	compareType, compareFormat, compareRequired, compareDefault, compareEnum,
	compareBounds, compareMultipleOf, comparePattern, compareUniqueItems, compareNullable,
	comparePreservedFields, compareEmbeddedResource, compareListType, compareMapType,
	compareValidations, compareJunctors, compareOtherAttributes,
}

func compareType(w *walker, old, updated *schema) {
	if old.Type != updated.Type {
		w.reportProhibited(describeChange("type", old.Type, updated.Type))
	}
}

// widerFormats are pairs of formats of which the second accepts all values of the first. Without a
// format, all stored integers are int64, and all numbers double.
var widerFormats = map[[2]string]bool{
	{"int32", "int64"}: true, {"float", "double"}: true,
}

func compareFormat(w *walker, old, updated *schema) {
	a, b := old.Format, updated.Format
	switch {
	case a == b, b == "", widerFormats[[2]string{a, b}]:
	case a == "" && (old.Type == "integer" && b == "int64" || old.Type == "number" && b == "double"):
	default:
		w.reportUnknown(describeChange("format", a, b))
	}
}

func compareRequired(w *walker, old, updated *schema) {
	if added := missingElements(updated.Required, old.Required); len(added) > 0 {
		w.reportProhibited("new required fields added: " + formatList(added))
	}
}

func compareDefault(w *walker, old, updated *schema) {
	a, b := canonicalJSON(old.Default), canonicalJSON(updated.Default)
	switch {
	case a == b:
	case a == "":
		w.reportProhibited("default added: " + excerpt.Start(b, maxTextBytes))
	case b == "":
		w.reportProhibited("default removed: " + excerpt.Start(a, maxTextBytes))
	default:
		w.reportProhibited("default changed from " + excerpt.Start(a, maxTextBytes) + " to " + excerpt.Start(b, maxTextBytes))
	}
}

func compareEnum(w *walker, old, updated *schema) {
	a, b := enumValues(old), enumValues(updated)
	switch {
	case len(b) == 0:
	case len(a) == 0:
		w.reportProhibited("enum restrictions added: " + formatList(b))
	default:
		if removed := missingElements(a, b); len(removed) > 0 {
			w.reportProhibited("enum values removed: " + formatList(removed))
		}
	}
}

func enumValues(s *schema) []string {
	result := make([]string, len(s.Enum))
	for i := range s.Enum {
		if result[i] = canonicalJSON(&s.Enum[i]); result[i] == "" {
			result[i] = "null"
		}
	}
	return result
}

func compareBounds(w *walker, old, updated *schema) {
	compareMinimum(w, "minimum", old.Minimum, updated.Minimum)
	compareExclusive(w, "exclusiveMinimum", old.ExclusiveMinimum, updated.ExclusiveMinimum, old.Minimum, updated.Minimum)
	compareMaximum(w, "maximum", old.Maximum, updated.Maximum)
	compareExclusive(w, "exclusiveMaximum", old.ExclusiveMaximum, updated.ExclusiveMaximum, old.Maximum, updated.Maximum)
	compareMinimum(w, "minLength", old.MinLength, updated.MinLength)
	compareMaximum(w, "maxLength", old.MaxLength, updated.MaxLength)
	compareMinimum(w, "minItems", old.MinItems, updated.MinItems)
	compareMaximum(w, "maxItems", old.MaxItems, updated.MaxItems)
	compareMinimum(w, "minProperties", old.MinProperties, updated.MinProperties)
	compareMaximum(w, "maxProperties", old.MaxProperties, updated.MaxProperties)
}

func compareMinimum[N int64 | float64](w *walker, name string, old, updated *N) {
	switch {
	case updated == nil:
	case old == nil:
		w.reportProhibited(fmt.Sprintf("%s added: %v", name, *updated))
	case *updated > *old:
		w.reportProhibited(fmt.Sprintf("%s increased from %v to %v", name, *old, *updated))
	}
}

func compareMaximum[N int64 | float64](w *walker, name string, old, updated *N) {
	switch {
	case updated == nil:
	case old == nil:
		w.reportProhibited(fmt.Sprintf("%s added: %v", name, *updated))
	case *updated < *old:
		w.reportProhibited(fmt.Sprintf("%s decreased from %v to %v", name, *old, *updated))
	}
}

// compareExclusive reports a bound that became exclusive. A changed bound is reported by its own
// rule.
func compareExclusive(w *walker, name string, old, updated bool, before, after *float64) {
	if updated && !old && before != nil && after != nil && *before == *after {
		w.reportProhibited(fmt.Sprintf("%s added: %v", name, *after))
	}
}

func compareMultipleOf(w *walker, old, updated *schema) {
	a, b := old.MultipleOf, updated.MultipleOf
	switch {
	case b == nil:
	case a == nil:
		w.reportProhibited(fmt.Sprintf("multipleOf added: %v", *b))
	case math.Mod(*a, *b) != 0 && *a != *b:
		w.reportProhibited(fmt.Sprintf("multipleOf changed from %v to %v", *a, *b))
	}
}

func comparePattern(w *walker, old, updated *schema) {
	a, b := old.Pattern, updated.Pattern
	switch {
	case a == b, b == "":
	case a == "":
		w.reportProhibited(fmt.Sprintf("pattern added: %q", excerpt.Start(b, maxTextBytes)))
	default:
		w.reportUnknown(describeChange("pattern", a, b))
	}
}

func compareUniqueItems(w *walker, old, updated *schema) {
	if updated.UniqueItems && !old.UniqueItems {
		w.reportProhibited("uniqueItems added")
	}
}

func compareNullable(w *walker, old, updated *schema) {
	if old.Nullable && !updated.Nullable {
		w.reportProhibited("nullable removed")
	}
}

func comparePreservedFields(w *walker, old, updated *schema) {
	if keepsUnknownFields(old) && !keepsUnknownFields(updated) {
		w.reportProhibited("x-kubernetes-preserve-unknown-fields removed: fields that the schema does not name would be lost")
	}
}

// compareEmbeddedResource compares embedded resources. Without the attribute, apiVersion, kind and
// metadata of the embedded object are lost unless the schema has them.
func compareEmbeddedResource(w *walker, old, updated *schema) {
	switch {
	case updated.XEmbeddedResource && !old.XEmbeddedResource:
		w.reportProhibited("x-kubernetes-embedded-resource added")
	case old.XEmbeddedResource && !updated.XEmbeddedResource:
		w.reportUnknown("x-kubernetes-embedded-resource removed")
	}

	if old.XIntOrString != updated.XIntOrString && old.Type == updated.Type {
		w.reportUnknown(describeChange("x-kubernetes-int-or-string", old.XIntOrString, updated.XIntOrString))
	}
}

// compareListType compares list types. Sets and maps refuse duplicates, which a list may have.
// Whether clients rely on the ownership of elements is unknown.
func compareListType(w *walker, old, updated *schema) {
	a, b := valueOrDefault(old.XListType, "atomic"), valueOrDefault(updated.XListType, "atomic")
	switch {
	case a != b && b == "atomic":
		w.reportUnknown(describeChange("x-kubernetes-list-type", a, b))
	case a != b:
		w.reportProhibited(describeChange("x-kubernetes-list-type", a, b))
	case !haveSameElements(old.XListMapKeys, updated.XListMapKeys):
		w.reportUnknown("x-kubernetes-list-map-keys changed from " + formatList(old.XListMapKeys) + " to " + formatList(updated.XListMapKeys))
	}
}

func compareMapType(w *walker, old, updated *schema) {
	if a, b := valueOrDefault(old.XMapType, "granular"), valueOrDefault(updated.XMapType, "granular"); a != b {
		w.reportUnknown(describeChange("x-kubernetes-map-type", a, b))
	}
}

// compareValidations compares CEL rules. A removed rule is safe. What a new rule refuses is unknown.
func compareValidations(w *walker, old, updated *schema) {
	known := map[string]bool{}
	for i := range old.XValidations {
		known[validationKey(&old.XValidations[i])] = true
	}

	for i := range updated.XValidations {
		if text := validationKey(&updated.XValidations[i]); !known[text] {
			known[text] = true
			w.reportUnknown("x-kubernetes-validations added: " + excerpt.Start(text, maxTextBytes))
		}
	}
}

// validationKey identifies what a CEL rule refuses. Its message does not matter.
func validationKey(rule *apiextensionsv1.ValidationRule) string {
	text := fmt.Sprintf("%q", rule.Rule)
	if rule.OptionalOldSelf != nil && *rule.OptionalOldSelf {
		text += " with optionalOldSelf"
	}
	return text
}

// compareJunctors compares allOf, anyOf, oneOf and not. Fewer requirements and more alternatives are
// safe. Other changes are unknown, because they may be implied by the rest of the schema.
func compareJunctors(w *walker, old, updated *schema) {
	compareAlternatives(w, "anyOf", encodeJunctor(old, old.AnyOf), encodeJunctor(updated, updated.AnyOf), missingElements[string])
	compareAlternatives(w, "oneOf", encodeJunctor(old, old.OneOf), encodeJunctor(updated, updated.OneOf), func(a, b []string) []string {
		return append(missingElements(a, b), missingElements(b, a)...)
	})
	if added := missingElements(encodeJunctor(updated, updated.AllOf), encodeJunctor(old, old.AllOf)); len(added) > 0 {
		w.reportUnknown("allOf changed: it demands more, or something else")
	}

	switch {
	case updated.Not == nil:
	case old.Not == nil:
		w.reportUnknown("not added")
	case !equalValues(old.Not, updated.Not):
		w.reportUnknown("not changed")
	}
}

// compareAlternatives compares lists of which one schema must match.
func compareAlternatives(w *walker, name string, old, updated []string, narrowed func(old, updated []string) []string) {
	switch {
	case len(updated) == 0:
	case len(old) == 0:
		w.reportUnknown(name + " added")
	case len(narrowed(old, updated)) > 0:
		w.reportUnknown(name + " changed")
	}
}

// encodeJunctor returns the encoded schemas of a junctor. It leaves out those that only repeat
// that a value is an integer or a string, which generators write for x-kubernetes-int-or-string.
func encodeJunctor(s *schema, members []schema) []string {
	result := make([]string, 0, len(members))
	for i := range members {
		result = append(result, encodeJSON(&members[i]))
	}

	if s.XIntOrString {
		if len(result) == 2 && haveSameElements(result, intOrString) {
			return nil
		}
		result = slices.DeleteFunc(result, func(text string) bool { return text == intOrStringDemand })
	}

	return result
}

var (
	intOrString       = []string{`{"type":"integer"}`, `{"type":"string"}`}
	intOrStringDemand = `{"anyOf":[` + strings.Join(intOrString, ",") + `]}`
)

// compareOtherAttributes compares attributes that the API server does not accept in structural
// schemas. Old CRDs may still contain them.
func compareOtherAttributes(w *walker, old, updated *schema) {
	for _, attribute := range []struct {
		name     string
		old, new any
	}{
		{"id", old.ID, updated.ID},
		{"$schema", old.Schema, updated.Schema},
		{"$ref", old.Ref, updated.Ref},
		{"patternProperties", old.PatternProperties, updated.PatternProperties},
		{"dependencies", old.Dependencies, updated.Dependencies},
		{"additionalItems", old.AdditionalItems, updated.AdditionalItems},
		{"definitions", old.Definitions, updated.Definitions},
		{"items", tupleSchemas(old), tupleSchemas(updated)},
	} {
		if !equalValues(attribute.old, attribute.new) {
			w.reportUnknown(attribute.name + " changed")
		}
	}
}

// tupleSchemas returns the schemas of a list whose elements have individual schemas.
func tupleSchemas(s *schema) []schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.JSONSchemas
}

func describeChange[T any](what string, old, updated T) string {
	return what + " changed from " + quoteValue(old) + " to " + quoteValue(updated)
}

func quoteValue(value any) string {
	if b, ok := value.(bool); ok {
		return strconv.FormatBool(b)
	}
	return fmt.Sprintf("%q", excerpt.Start(fmt.Sprint(value), maxTextBytes))
}

func valueOrDefault(value *string, unset string) string {
	if value == nil {
		return unset
	}
	return cmp.Or(*value, unset)
}

// missingElements returns the elements of a that b lacks, sorted, without duplicates.
func missingElements[T cmp.Ordered](a, b []T) []T {
	have := make(map[T]bool, len(b))
	for _, value := range b {
		have[value] = true
	}

	lacking := map[T]bool{}
	for _, value := range a {
		if !have[value] {
			lacking[value] = true
		}
	}

	return slices.Sorted(maps.Keys(lacking))
}

func haveSameElements(a, b []string) bool {
	return len(missingElements(a, b)) == 0 && len(missingElements(b, a)) == 0
}

// formatList formats values as in the documented messages: in brackets, separated by spaces.
func formatList(values []string) string {
	return "[" + excerpt.Start(strings.Join(values, " "), maxTextBytes) + "]"
}
