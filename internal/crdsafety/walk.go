package crdsafety

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

const (
	// maxDepth limits the nesting of fields. A Pod in a field of a spec takes about 20, and
	// unrolled recursive types about 50.
	maxDepth = 200
	// maxNameBytes limits a field's name in a path.
	maxNameBytes = 253
)

// permissiveSchema is the schema of a value without restrictions.
var permissiveSchema = &apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &yes}

var yes = true

// walker compares the schemas of a version, field by field.
type walker struct {
	report  *report
	crd     string
	version string
	// path is the steps from the root to the current field.
	path []string
}

// compareSchemas compares the schemas of the current field and of all fields below it that both
// have. Fields that only the updated schema has are new, and objects have no values for them.
func (w *walker) compareSchemas(old, updated *apiextensionsv1.JSONSchemaProps) {
	if w.report.hasReachedLimit() {
		return
	}

	if len(w.path) > maxDepth {
		if !equalValues(old, updated) {
			w.reportUnknown(fmt.Sprintf("changes more than %d levels deep are not judged", maxDepth))
		}
		return
	}

	for _, rule := range rules {
		rule(w, old, updated)
	}

	w.compareProperties(old, updated)
	w.compareNested("items", elementSchema(old.Items), elementSchema(updated.Items), false)
	w.compareNested("additionalProperties", valueSchema(old.AdditionalProperties), valueSchema(updated.AdditionalProperties), !keepsUnknownFields(old))
}

func (w *walker) compareProperties(old, updated *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		before := old.Properties[name]
		if after, ok := updated.Properties[name]; ok {
			w.visitChild(pathStep(name), func() { w.compareSchemas(&before, &after) })
		} else {
			w.visitChild(pathStep(name), w.reportRemoved)
		}
	}

	if !keepsUnknownFields(old) {
		return
	}

	for _, name := range slices.Sorted(maps.Keys(updated.Properties)) {
		if _, ok := old.Properties[name]; !ok {
			w.visitChild(pathStep(name), func() {
				w.reportUnknown("field added where unknown fields were kept: objects may have other values in it")
			})
		}
	}
}

// compareNested compares the schemas of the elements of lists or of the values of maps. Nil means
// that there is none.
func (w *walker) compareNested(attribute string, old, updated *apiextensionsv1.JSONSchemaProps, mayBeAdded bool) {
	switch {
	case old == nil && updated == nil:
	case old == nil && mayBeAdded:
	case old == nil:
		w.reportUnknown(attribute + " added")
	case updated == nil:
		w.visitChild("[*]", w.reportRemoved)
	default:
		w.visitChild("[*]", func() { w.compareSchemas(old, updated) })
	}
}

// visitChild calls do with the path of a child of the current field.
func (w *walker) visitChild(step string, do func()) {
	w.path = append(w.path, step)
	do()
	w.path = w.path[:len(w.path)-1]
}

// fieldPath returns the path of the current field.
func (w *walker) fieldPath() string { return excerpt.Start(strings.Join(w.path, ""), maxTextBytes) }

func (w *walker) reportRemoved() {
	w.report.add(Violation{
		Validator: NoExistingFieldRemoved, Version: w.version, Field: w.fieldPath(),
		Message: fmt.Sprintf("crd/%s version/%s field/%s may not be removed", w.crd, w.version, w.fieldPath()),
	})
}

// reportProhibited reports an unsafe change of the current field.
func (w *walker) reportProhibited(change string) {
	w.report.add(Violation{
		Validator: ChangeValidator, Version: w.version, Field: w.fieldPath(),
		Message: fmt.Sprintf("version %q, field %q: %s", w.version, w.fieldPath(), change),
	})
}

// reportUnknown reports a change of the current field whose safety is unknown.
func (w *walker) reportUnknown(change string) {
	w.report.add(Violation{
		Validator: ChangeValidator, Version: w.version, Field: w.fieldPath(), Unknown: true,
		Message: unknownChangeMessage(fmt.Sprintf("version %q, field %q", w.version, w.fieldPath()), change),
	})
}

// elementSchema returns the schema of the elements of a list.
func elementSchema(items *apiextensionsv1.JSONSchemaPropsOrArray) *apiextensionsv1.JSONSchemaProps {
	if items == nil {
		return nil
	}
	return items.Schema
}

// valueSchema returns the schema of the values of a map.
func valueSchema(properties *apiextensionsv1.JSONSchemaPropsOrBool) *apiextensionsv1.JSONSchemaProps {
	switch {
	case properties == nil:
		return nil
	case properties.Schema != nil:
		return properties.Schema
	case properties.Allows:
		return permissiveSchema
	}

	return nil
}

// keepsUnknownFields reports whether objects may have fields that the schema does not have.
func keepsUnknownFields(schema *apiextensionsv1.JSONSchemaProps) bool {
	return schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
}

// pathStep returns a field's name in a path. Names with special characters are quoted.
func pathStep(name string) string {
	for _, c := range name {
		if !strings.ContainsRune("_-$", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "[" + strconv.Quote(excerpt.Start(name, maxNameBytes)) + "]"
		}
	}

	if name == "" {
		return `[""]`
	}
	return "." + excerpt.Start(name, maxNameBytes)
}
