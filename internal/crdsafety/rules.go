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
)

// schema is short for the type in the rules' signatures.
type schema = apiextensionsv1.JSONSchemaProps

// rules judge the attributes of a field's schema. Every attribute is judged by one of
// them or by the walk, but for those that only describe: description, title, example and
// externalDocs.
var rules = []func(w *walk, old, updated *schema){
	ruleType, ruleFormat, ruleRequired, ruleDefault, ruleEnum,
	ruleBounds, ruleMultipleOf, rulePattern, ruleUnique, ruleNullable,
	rulePreserve, ruleEmbedded, ruleLists, ruleMaps,
	ruleValidations, ruleJunctors, ruleRest,
}

func ruleType(w *walk, old, updated *schema) {
	if old.Type != updated.Type {
		w.prohibited(changed("type", old.Type, updated.Type))
	}
}

// widerFormats are formats that accept all that the other accepts; of an integer
// without a format, all that is stored is an int64, and of a number a double.
var widerFormats = map[[2]string]bool{
	{"int32", "int64"}: true, {"float", "double"}: true,
}

func ruleFormat(w *walk, old, updated *schema) {
	a, b := old.Format, updated.Format
	switch {
	case a == b, b == "", widerFormats[[2]string{a, b}]:
	case a == "" && (old.Type == "integer" && b == "int64" || old.Type == "number" && b == "double"):
	default:
		w.unknown(changed("format", a, b))
	}
}

func ruleRequired(w *walk, old, updated *schema) {
	if added := missing(updated.Required, old.Required); len(added) > 0 {
		w.prohibited("new required fields added: " + list(added))
	}
}

func ruleDefault(w *walk, old, updated *schema) {
	a, b := canonical(old.Default), canonical(updated.Default)
	switch {
	case a == b:
	case a == "":
		w.prohibited("default added: " + shorten(b, maxText))
	case b == "":
		w.prohibited("default removed: " + shorten(a, maxText))
	default:
		w.prohibited("default changed from " + shorten(a, maxText) + " to " + shorten(b, maxText))
	}
}

func ruleEnum(w *walk, old, updated *schema) {
	a, b := enum(old), enum(updated)
	switch {
	case len(b) == 0:
	case len(a) == 0:
		w.prohibited("enum restrictions added: " + list(b))
	default:
		if removed := missing(a, b); len(removed) > 0 {
			w.prohibited("enum values removed: " + list(removed))
		}
	}
}

func enum(s *schema) []string {
	result := make([]string, len(s.Enum))
	for i := range s.Enum {
		if result[i] = canonical(&s.Enum[i]); result[i] == "" {
			result[i] = "null"
		}
	}
	return result
}

func ruleBounds(w *walk, old, updated *schema) {
	minimum(w, "minimum", old.Minimum, updated.Minimum)
	exclusive(w, "exclusiveMinimum", old.ExclusiveMinimum, updated.ExclusiveMinimum, old.Minimum, updated.Minimum)
	maximum(w, "maximum", old.Maximum, updated.Maximum)
	exclusive(w, "exclusiveMaximum", old.ExclusiveMaximum, updated.ExclusiveMaximum, old.Maximum, updated.Maximum)
	minimum(w, "minLength", old.MinLength, updated.MinLength)
	maximum(w, "maxLength", old.MaxLength, updated.MaxLength)
	minimum(w, "minItems", old.MinItems, updated.MinItems)
	maximum(w, "maxItems", old.MaxItems, updated.MaxItems)
	minimum(w, "minProperties", old.MinProperties, updated.MinProperties)
	maximum(w, "maxProperties", old.MaxProperties, updated.MaxProperties)
}

func minimum[N int64 | float64](w *walk, name string, old, updated *N) {
	switch {
	case updated == nil:
	case old == nil:
		w.prohibited(fmt.Sprintf("%s added: %v", name, *updated))
	case *updated > *old:
		w.prohibited(fmt.Sprintf("%s increased from %v to %v", name, *old, *updated))
	}
}

func maximum[N int64 | float64](w *walk, name string, old, updated *N) {
	switch {
	case updated == nil:
	case old == nil:
		w.prohibited(fmt.Sprintf("%s added: %v", name, *updated))
	case *updated < *old:
		w.prohibited(fmt.Sprintf("%s decreased from %v to %v", name, *old, *updated))
	}
}

// exclusive judges whether a bound itself became forbidden. A bound that moved is judged
// by its own rule.
func exclusive(w *walk, name string, old, updated bool, before, after *float64) {
	if updated && !old && before != nil && after != nil && *before == *after {
		w.prohibited(fmt.Sprintf("%s added: %v", name, *after))
	}
}

func ruleMultipleOf(w *walk, old, updated *schema) {
	a, b := old.MultipleOf, updated.MultipleOf
	switch {
	case b == nil:
	case a == nil:
		w.prohibited(fmt.Sprintf("multipleOf added: %v", *b))
	case math.Mod(*a, *b) != 0 && *a != *b:
		w.prohibited(fmt.Sprintf("multipleOf changed from %v to %v", *a, *b))
	}
}

func rulePattern(w *walk, old, updated *schema) {
	a, b := old.Pattern, updated.Pattern
	switch {
	case a == b, b == "":
	case a == "":
		w.prohibited(fmt.Sprintf("pattern added: %q", shorten(b, maxText)))
	default:
		w.unknown(changed("pattern", a, b))
	}
}

func ruleUnique(w *walk, old, updated *schema) {
	if updated.UniqueItems && !old.UniqueItems {
		w.prohibited("uniqueItems added")
	}
}

func ruleNullable(w *walk, old, updated *schema) {
	if old.Nullable && !updated.Nullable {
		w.prohibited("nullable removed")
	}
}

func rulePreserve(w *walk, old, updated *schema) {
	if keepsUnknown(old) && !keepsUnknown(updated) {
		w.prohibited("x-kubernetes-preserve-unknown-fields removed: fields that the schema does not name would be lost")
	}
}

// ruleEmbedded: without the mark, apiVersion, kind and metadata of the embedded object
// are lost where the schema does not name them.
func ruleEmbedded(w *walk, old, updated *schema) {
	switch {
	case updated.XEmbeddedResource && !old.XEmbeddedResource:
		w.prohibited("x-kubernetes-embedded-resource added")
	case old.XEmbeddedResource && !updated.XEmbeddedResource:
		w.unknown("x-kubernetes-embedded-resource removed")
	}

	if old.XIntOrString != updated.XIntOrString && old.Type == updated.Type {
		w.unknown(changed("x-kubernetes-int-or-string", old.XIntOrString, updated.XIntOrString))
	}
}

// ruleLists: sets and maps refuse duplicates, which a list may have. Whether anyone
// relies on whose elements are whose cannot be told.
func ruleLists(w *walk, old, updated *schema) {
	a, b := deref(old.XListType, "atomic"), deref(updated.XListType, "atomic")
	switch {
	case a != b && b == "atomic":
		w.unknown(changed("x-kubernetes-list-type", a, b))
	case a != b:
		w.prohibited(changed("x-kubernetes-list-type", a, b))
	case !sameSet(old.XListMapKeys, updated.XListMapKeys):
		w.unknown("x-kubernetes-list-map-keys changed from " + list(old.XListMapKeys) + " to " + list(updated.XListMapKeys))
	}
}

func ruleMaps(w *walk, old, updated *schema) {
	if a, b := deref(old.XMapType, "granular"), deref(updated.XMapType, "granular"); a != b {
		w.unknown(changed("x-kubernetes-map-type", a, b))
	}
}

// ruleValidations: a rule that goes allows more. What a new one refuses cannot be told.
func ruleValidations(w *walk, old, updated *schema) {
	known := map[string]bool{}
	for i := range old.XValidations {
		known[validation(&old.XValidations[i])] = true
	}

	for i := range updated.XValidations {
		if text := validation(&updated.XValidations[i]); !known[text] {
			known[text] = true
			w.unknown("x-kubernetes-validations added: " + shorten(text, maxText))
		}
	}
}

// validation is what a rule refuses; its message does not matter.
func validation(rule *apiextensionsv1.ValidationRule) string {
	text := fmt.Sprintf("%q", rule.Rule)
	if rule.OptionalOldSelf != nil && *rule.OptionalOldSelf {
		text += " with optionalOldSelf"
	}
	return text
}

// ruleJunctors: fewer demands and more alternatives allow more. Anything else cannot be
// told, for it may follow from what else the schema says.
func ruleJunctors(w *walk, old, updated *schema) {
	alternatives(w, "anyOf", junctor(old, old.AnyOf), junctor(updated, updated.AnyOf), missing[string])
	alternatives(w, "oneOf", junctor(old, old.OneOf), junctor(updated, updated.OneOf), func(a, b []string) []string {
		return append(missing(a, b), missing(b, a)...)
	})
	if added := missing(junctor(updated, updated.AllOf), junctor(old, old.AllOf)); len(added) > 0 {
		w.unknown("allOf changed: it demands more, or something else")
	}

	switch {
	case updated.Not == nil:
	case old.Not == nil:
		w.unknown("not added")
	case !sameValue(old.Not, updated.Not):
		w.unknown("not changed")
	}
}

// alternatives judges a list of which one must hold.
func alternatives(w *walk, name string, old, updated []string, narrowed func(old, updated []string) []string) {
	switch {
	case len(updated) == 0:
	case len(old) == 0:
		w.unknown(name + " added")
	case len(narrowed(old, updated)) > 0:
		w.unknown(name + " changed")
	}
}

// junctor returns the schemas of a junctor as text. What only repeats that a value is an
// integer or a string, as generators write it beside x-kubernetes-int-or-string, says
// nothing.
func junctor(s *schema, members []schema) []string {
	result := make([]string, 0, len(members))
	for i := range members {
		result = append(result, encode(&members[i]))
	}

	if s.XIntOrString {
		if len(result) == 2 && sameSet(result, intOrString) {
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

// ruleRest judges what the API server does not accept in structural schemas: it may stand
// in definitions from before they were asked for.
func ruleRest(w *walk, old, updated *schema) {
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
		{"items", tuple(old), tuple(updated)},
	} {
		if !sameValue(attribute.old, attribute.new) {
			w.unknown(attribute.name + " changed")
		}
	}
}

// tuple returns the schemas of a list whose elements have one each.
func tuple(s *schema) []schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.JSONSchemas
}

func changed[T any](what string, old, updated T) string {
	return what + " changed from " + quote(old) + " to " + quote(updated)
}

func quote(value any) string {
	if b, ok := value.(bool); ok {
		return strconv.FormatBool(b)
	}
	return fmt.Sprintf("%q", shorten(fmt.Sprint(value), maxText))
}

func deref(value *string, unset string) string {
	if value == nil {
		return unset
	}
	return cmp.Or(*value, unset)
}

// missing returns the elements of a that b lacks, sorted, each once.
func missing[T cmp.Ordered](a, b []T) []T {
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

func sameSet(a, b []string) bool { return len(missing(a, b)) == 0 && len(missing(b, a)) == 0 }

// list shows values as documented messages do: in brackets, with spaces between them.
func list(values []string) string {
	return "[" + shorten(strings.Join(values, " "), maxText) + "]"
}
