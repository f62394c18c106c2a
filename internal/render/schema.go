package render

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// oneOfTypes is what Kubernetes types say that stand for several types of JSON, such
// as resource.Quantity.
type oneOfTypes interface{ OpenAPIV3OneOfTypes() []string }

// schemaType is what Kubernetes types say that encode themselves, such as metav1.Time.
type schemaType interface{ OpenAPISchemaType() []string }

// quantityPattern is a number with an optional exponent or suffix, such as 1.5Gi.
const quantityPattern = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$`

// schemaOf is the JSON schema of a Go type with the habits of Kubernetes' own types: a
// field is required unless its tag says omitempty or omitzero, and others than the
// type's fields are refused. The type must not contain itself.
func schemaOf(t reflect.Type) spec.Schema {
	switch self := reflect.New(t).Interface().(type) {
	case *resource.Quantity:
		schema := ofType(self.OpenAPIV3OneOfTypes()...)
		schema.Pattern = quantityPattern
		return schema
	case oneOfTypes:
		return ofType(self.OpenAPIV3OneOfTypes()...)
	case schemaType:
		return ofType(self.OpenAPISchemaType()...)
	}

	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Struct:
		properties := map[string]spec.Schema{}
		required := addFields(t, properties, nil)
		return object(properties, required)
	case reflect.Map:
		value := schemaOf(t.Elem())
		schema := ofType("object")
		schema.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &value}
		return schema
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return ofType("string")
		}
		item := schemaOf(t.Elem())
		schema := ofType("array")
		schema.Items = &spec.SchemaOrArray{Schema: &item}
		return schema

	case reflect.String:
		return ofType("string")
	case reflect.Bool:
		return ofType("boolean")
	case reflect.Float32, reflect.Float64:
		return ofType("number")
	case reflect.Int, reflect.Int32, reflect.Int64:
		return ofType("integer")
	default:
		return spec.Schema{}
	}
}

// addFields adds the fields of a struct, those of inlined structs among them, and
// gives the names of the required ones.
func addFields(t reflect.Type, properties map[string]spec.Schema, required []string) []string {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			required = addFields(field.Type, properties, required)
		case name != "":
			properties[name] = schemaOf(field.Type)
			if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
				required = append(required, name)
			}
		}
	}

	return required
}

// object is the schema of an object that has no other fields than these.
func object(properties map[string]spec.Schema, required []string) spec.Schema {
	schema := ofType("object")
	schema.Properties = properties
	schema.Required = required
	schema.AdditionalProperties = &spec.SchemaOrBool{Allows: false}
	return schema
}

func ofType(types ...string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: types}}
}
