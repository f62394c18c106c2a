package builder

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// FromYAML returns the object of a manifest, which may be incomplete. It panics if the manifest is not valid YAML.
func FromYAML(manifest string) *unstructured.Unstructured {
	data, err := yaml.YAMLToJSON([]byte(manifest))
	object := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(data, &object.Object) // This package keeps integers.
	}
	if err != nil {
		panic(fmt.Sprintf("reading a manifest: %v\n%s", err, manifest))
	}
	return object
}
