package crdsafety

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const (
	// maxDepth is how many fields may stand in each other. A Pod in a field of a spec
	// takes about 20; whole chains of types that contain themselves, unrolled, about 50.
	maxDepth = 200
	// maxName is how many bytes of a field's name stand in a path.
	maxName = 253
)

// anything is the schema of a value about which nothing is said.
var anything = &apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &yes}

var yes = true

// walk compares the schemas of a version, field by field.
type walk struct {
	report  *report
	crd     string
	version string
	// path are the steps from the root to the field at hand.
	path []string
}

// schema compares the schemas of the field at hand and, below it, of all fields that
// both have. Fields that only the updated schema has are new, and objects have no values
// for them.
func (w *walk) schema(old, updated *apiextensionsv1.JSONSchemaProps) {
	if w.report.full() {
		return
	}

	if len(w.path) > maxDepth {
		if !sameValue(old, updated) {
			w.unknown(fmt.Sprintf("changes more than %d levels deep are not judged", maxDepth))
		}
		return
	}

	for _, rule := range rules {
		rule(w, old, updated)
	}

	w.properties(old, updated)
	w.inside("items", elements(old.Items), elements(updated.Items), false)
	w.inside("additionalProperties", values(old.AdditionalProperties), values(updated.AdditionalProperties), !keepsUnknown(old))
}

func (w *walk) properties(old, updated *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		before := old.Properties[name]
		if after, ok := updated.Properties[name]; ok {
			w.below(step(name), func() { w.schema(&before, &after) })
		} else {
			w.below(step(name), w.removed)
		}
	}

	if !keepsUnknown(old) {
		return
	}

	for _, name := range slices.Sorted(maps.Keys(updated.Properties)) {
		if _, ok := old.Properties[name]; !ok {
			w.below(step(name), func() {
				w.unknown("field added where unknown fields were kept: objects may have other values in it")
			})
		}
	}
}

// inside compares the schemas of the elements of lists or of the values of maps. Nil
// means that there is none.
func (w *walk) inside(attribute string, old, updated *apiextensionsv1.JSONSchemaProps, mayBeAdded bool) {
	switch {
	case old == nil && updated == nil:
	case old == nil && mayBeAdded:
	case old == nil:
		w.unknown(attribute + " added")
	case updated == nil:
		w.below("[*]", w.removed)
	default:
		w.below("[*]", func() { w.schema(old, updated) })
	}
}

// below does something for a field in the field at hand.
func (w *walk) below(step string, do func()) {
	w.path = append(w.path, step)
	do()
	w.path = w.path[:len(w.path)-1]
}

// field is the path of the field at hand.
func (w *walk) field() string { return shorten(strings.Join(w.path, ""), maxText) }

func (w *walk) removed() {
	w.report.add(Violation{
		Validator: NoExistingFieldRemoved, Version: w.version, Field: w.field(),
		Message: fmt.Sprintf("crd/%s version/%s field/%s may not be removed", w.crd, w.version, w.field()),
	})
}

// prohibited reports a change of the field at hand that is not safe.
func (w *walk) prohibited(change string) {
	w.report.add(Violation{
		Validator: ChangeValidator, Version: w.version, Field: w.field(),
		Message: fmt.Sprintf("version %q, field %q: %s", w.version, w.field(), change),
	})
}

// unknown reports a change of the field at hand that cannot be judged.
func (w *walk) unknown(change string) {
	w.report.add(Violation{
		Validator: ChangeValidator, Version: w.version, Field: w.field(), Unknown: true,
		Message: unknownChange(fmt.Sprintf("version %q, field %q", w.version, w.field()), change),
	})
}

// elements returns the schema of the elements of a list.
func elements(items *apiextensionsv1.JSONSchemaPropsOrArray) *apiextensionsv1.JSONSchemaProps {
	if items == nil {
		return nil
	}
	return items.Schema
}

// values returns the schema of the values of a map.
func values(properties *apiextensionsv1.JSONSchemaPropsOrBool) *apiextensionsv1.JSONSchemaProps {
	switch {
	case properties == nil:
		return nil
	case properties.Schema != nil:
		return properties.Schema
	case properties.Allows:
		return anything
	}

	return nil
}

// keepsUnknown reports whether objects may have fields that the schema does not name.
func keepsUnknown(schema *apiextensionsv1.JSONSchemaProps) bool {
	return schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
}

// step is a field's name in a path: as it is where it reads as one name.
func step(name string) string {
	for _, c := range name {
		if !strings.ContainsRune("_-$", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "[" + strconv.Quote(shorten(name, maxName)) + "]"
		}
	}

	if name == "" {
		return `[""]`
	}
	return "." + shorten(name, maxName)
}
