package render

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// oneOfTypes is implemented by Kubernetes types that encode as one of several JSON types, such as
// resource.Quantity.
type oneOfTypes interface{ OpenAPIV3OneOfTypes() []string }

// schemaType is implemented by Kubernetes types with their own encoding, such as metav1.Time.
type schemaType interface{ OpenAPISchemaType() []string }

// quantityPattern matches a number with an optional exponent or suffix, such as 1.5Gi.
const quantityPattern = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$`

// schemaOfType returns the JSON schema of a Go type with the conventions of Kubernetes' own types: a
// field is required unless its tag has omitempty or omitzero, and unknown fields are refused. The
// type must not be recursive.
func schemaOfType(t reflect.Type) spec.Schema {
	switch self := reflect.New(t).Interface().(type) {
	case *resource.Quantity:
		schema := newTypeSchema(self.OpenAPIV3OneOfTypes()...)
		schema.Pattern = quantityPattern
		return schema
	case oneOfTypes:
		return newTypeSchema(self.OpenAPIV3OneOfTypes()...)
	case schemaType:
		return newTypeSchema(self.OpenAPISchemaType()...)
	}

	switch t.Kind() {
	case reflect.Pointer:
		return schemaOfType(t.Elem())
	case reflect.Struct:
		properties := map[string]spec.Schema{}
		required := addStructFields(t, properties, nil)
		return newObjectSchema(properties, required)
	case reflect.Map:
		value := schemaOfType(t.Elem())
		schema := newTypeSchema("object")
		schema.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &value}
		return schema
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return newTypeSchema("string")
		}
		item := schemaOfType(t.Elem())
		schema := newTypeSchema("array")
		schema.Items = &spec.SchemaOrArray{Schema: &item}
		return schema

	case reflect.String:
		return newTypeSchema("string")
	case reflect.Bool:
		return newTypeSchema("boolean")
	case reflect.Float32, reflect.Float64:
		return newTypeSchema("number")
	case reflect.Int, reflect.Int32, reflect.Int64:
		return newTypeSchema("integer")
	default:
		return spec.Schema{}
	}
}

// addStructFields adds the fields of a struct, including those of inlined structs, to the
// properties. It returns the names of the required fields.
func addStructFields(t reflect.Type, properties map[string]spec.Schema, required []string) []string {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			required = addStructFields(field.Type, properties, required)
		case name != "":
			properties[name] = schemaOfType(field.Type)
			if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				required = append(required, name)
			}
		}
	}

	return required
}

// newObjectSchema returns the schema of an object with only the given fields.
func newObjectSchema(properties map[string]spec.Schema, required []string) spec.Schema {
	schema := newTypeSchema("object")
	schema.Properties = properties
	schema.Required = required
	schema.AdditionalProperties = &spec.SchemaOrBool{Allows: false}
	return schema
}

func newTypeSchema(types ...string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: types}}
}
