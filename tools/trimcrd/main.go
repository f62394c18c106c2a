// Command trimcrd removes the descriptions below properties of a CRD, so that the CRD stays small. A property itself
// keeps its description.
//
//	trimcrd FILE PROPERTY...
//
// A property is the path of its names from the root of the schema, such as spec.template. Items of lists have no name
// in the path.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: trimcrd FILE PROPERTY...")
		os.Exit(2)
	}
	if err := trimFile(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "trimcrd:", err)
		os.Exit(1)
	}
}

// trimFile removes the descriptions below the properties from the CRD in a file, and writes the file.
func trimFile(path string, properties []string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	trimmed, err := trimCRD(text, properties)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}

	return os.WriteFile(path, trimmed, 0o644)
}

// trimCRD returns a CRD without the descriptions below the properties, in every version. It returns an error if a
// version lacks one of them.
func trimCRD(text []byte, properties []string) ([]byte, error) {
	var crd map[string]any
	if err := yaml.Unmarshal(text, &crd); err != nil {
		return nil, err
	}

	spec, _ := crd["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, entry := range versions {
		version, _ := entry.(map[string]any)
		schema, _ := version["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		for _, path := range properties {
			property := findProperty(root, strings.Split(path, "."))
			if property == nil {
				return nil, fmt.Errorf("version %v has no property %s", version["name"], path)
			}

			for _, child := range listChildren(property) {
				removeDescriptions(child)
			}
		}
	}

	out, err := yaml.Marshal(crd)
	if err != nil {
		return nil, err
	}

	// The generator writes a separator before the document.
	separator := []byte("---\n")
	if bytes.HasPrefix(text, separator) {
		out = append(separator, out...)
	}
	return out, nil
}

// findProperty returns the schema of the property with a path below a schema. It returns nil if there is none.
func findProperty(schema map[string]any, path []string) map[string]any {
	for _, name := range path {
		for schema != nil && schema["properties"] == nil {
			schema, _ = schema["items"].(map[string]any)
		}
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[name].(map[string]any)
	}
	return schema
}

// listChildren returns the schemas directly below a schema: those of its properties, its items and its map values.
func listChildren(schema map[string]any) []map[string]any {
	var children []map[string]any
	properties, _ := schema["properties"].(map[string]any)
	for _, property := range properties {
		if child, ok := property.(map[string]any); ok {
			children = append(children, child)
		}
	}

	for _, key := range []string{"items", "additionalProperties"} {
		if child, ok := schema[key].(map[string]any); ok {
			children = append(children, child)
		}
	}

	return children
}

// removeDescriptions removes the descriptions of a schema and of everything below it.
func removeDescriptions(schema map[string]any) {
	delete(schema, "description")
	for _, child := range listChildren(schema) {
		removeDescriptions(child)
	}
}
