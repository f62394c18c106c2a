package content

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
)

// appendJSONObject appends a JSON object with sorted keys. The values are already JSON.
func appendJSONObject(out []byte, object map[string][]byte) []byte {
	out = append(out, '{')
	for i, key := range slices.Sorted(maps.Keys(object)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendQuoted(out, key), ':')
		out = append(out, object[key]...)
	}

	return append(out, '}')
}

// maxYAMLBytes is the largest manifest that is parsed as YAML, which takes several times its
// size in memory. An object that is stored in a cluster is smaller than 1.5 MiB.
const maxYAMLBytes = 4 << 20

// yamlToJSON converts a manifest to compact JSON.
func yamlToJSON(manifest []byte) ([]byte, error) {
	if len(manifest) > maxYAMLBytes {
		return nil, fmt.Errorf("is a YAML document larger than %d bytes: write it as JSON", maxYAMLBytes)
	}

	converted, err := yaml.YAMLToJSON(manifest)
	if err != nil {
		return nil, err
	}

	// Compact replaces invalid UTF-8.
	compact, _, err := jsontext.Compact(nil, converted, 0)
	if err == nil && compact[0] != '{' {
		err = errors.New("is not an object")
	}

	return compact, err
}
