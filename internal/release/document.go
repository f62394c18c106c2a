package release

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

var errTooDeep = fmt.Errorf("is nested deeper than %d levels", maxDepth)

// parseManifests decodes the documents of a file. Documents without content are skipped; those
// with a comment or a blank line count for the numbers of documents. If there are faults, all
// are returned.
func parseManifests(file string, data []byte) ([]Manifest, []Fault) {
	var manifests []Manifest
	var faults []Fault
	first := map[Key]int{}
	err := forEachDocument(data, func(n int, raw []byte, err error) {
		m := Manifest{File: file, Document: n, Raw: raw}
		if err == nil {
			m.Object, err = decodeObject(raw)
		}
		if err == nil {
			_, err = m.Deletes()
		}
		if err != nil {
			faults = append(faults, Fault{File: file, Document: n, Err: err})
			return
		}
		if before, ok := first[m.Key()]; ok {
			faults = append(faults, Fault{File: file, Document: n, Err: fmt.Errorf("%s is already in document %d: a file may contain an object only once", m.Key(), before)})
			return
		}

		first[m.Key()] = n
		manifests = append(manifests, m)
	})
	if err != nil {
		faults = append(faults, Fault{File: file, Err: err})
	}

	return manifests, faults
}

// forEachDocument calls yield for each YAML or JSON document with content: with its number from
// 1, and the document as JSON or its error. The returned error is about the whole file.
func forEachDocument(data []byte, yield func(n int, raw []byte, err error)) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		// A YAML flow mapping also starts with a brace, so invalid JSON is parsed as YAML below.
		if docs, err := splitJSONDocuments(data); err == nil {
			for i, doc := range docs {
				yield(i+1, doc, checkNestingDepth(doc))
			}
			return nil
		}
	}

	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	n := 0
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n++; n > maxManifests {
			return fmt.Errorf("holds more than the %d documents that a payload may have", maxManifests)
		}
		if raw, err := yamlToJSON(text); raw != nil || err != nil {
			yield(n, raw, err)
		}
	}
}

func splitJSONDocuments(data []byte) ([]json.RawMessage, error) {
	var docs []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	for len(docs) <= maxManifests {
		var doc json.RawMessage
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}

	return nil, fmt.Errorf("holds more than %d documents", maxManifests)
}

// yamlToJSON converts a YAML document to JSON. It returns nil for a document without content.
func yamlToJSON(text []byte) (raw []byte, err error) {
	defer func() {
		// A panic of the parser is caused by the text, not by the state of this program.
		if p := recover(); p != nil {
			raw, err = nil, fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	if err := checkAliasExpansion(text); err != nil {
		return nil, err
	}
	if raw, err = kyaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil
	}

	return raw, checkNestingDepth(raw)
}

// checkNestingDepth returns an error for JSON that is nested deeper than maxDepth.
func checkNestingDepth(raw []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return errTooDeep
			}
		case c == '}' || c == ']':
			depth--
		}
	}

	return nil
}

// checkAliasExpansion returns an error for YAML that exceeds the limit of a file after its
// aliases are expanded: a few hundred bytes can expand to gigabytes.
func checkAliasExpansion(text []byte) error {
	if !bytes.Contains(text, []byte("&")) || !bytes.Contains(text, []byte("*")) {
		return nil
	}

	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return err
	}

	size, err := anchorSizes{}.expandedSize(&root, 0)
	if err == nil && size > maxFileBytes {
		err = fmt.Errorf("has more than %d bytes when its aliases are replaced", maxFileBytes)
	}

	return err
}

// anchorSizes are the expanded sizes of nodes with an anchor. 0 marks a node whose size is being
// computed.
type anchorSizes map[*yaml.Node]int

// expandedSize returns the approximate size of a node with expanded aliases in bytes. It stops
// slightly above maxFileBytes.
func (s anchorSizes) expandedSize(node *yaml.Node, depth int) (int, error) {
	if depth > 2*maxDepth {
		return 0, errTooDeep
	}

	if node.Kind == yaml.AliasNode {
		if size, ok := s[node.Alias]; ok && size == 0 {
			return 0, fmt.Errorf("line %d: alias %q stands within what it stands for", node.Line, node.Value)
		} else if ok {
			return size, nil
		}
		return s.expandedSize(node.Alias, depth+1)
	}

	if node.Anchor != "" {
		s[node] = 0
	}

	size := len(node.Value) + 1
	for _, child := range node.Content {
		n, err := s.expandedSize(child, depth+1)
		if err != nil {
			return 0, err
		}
		size = min(size+n, 2*maxFileBytes)
	}

	if node.Anchor != "" {
		s[node] = size
	}

	return size, nil
}

// decodeObject decodes a Kubernetes object. It must have apiVersion, kind and name, and valid
// annotations.
func decodeObject(raw []byte) (unstructured.Unstructured, error) {
	var object unstructured.Unstructured
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object.Object); err != nil {
		return object, fmt.Errorf("is not a Kubernetes object: %w", describeJSONError(err))
	}

	var problems []string
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		if value, err := nestedString(object, field...); err != nil {
			problems = append(problems, err.Error())
		} else if value == "" {
			problems = append(problems, strings.Join(field, ".")+" is missing")
		}
	}

	if metadata, ok := object.Object["metadata"].(map[string]any); ok {
		if _, err := nestedString(object, "metadata", "namespace"); err != nil {
			problems = append(problems, err.Error())
		}
		problems = append(problems, validateAnnotations(metadata["annotations"])...)
	}

	if len(problems) > 0 {
		return object, fmt.Errorf("is not a Kubernetes object: %s", strings.Join(problems, ", "))
	}

	return object, nil
}

// validateAnnotations returns the errors of annotations. A single value that is not a string
// would hide all other annotations.
func validateAnnotations(value any) []string {
	if value == nil {
		return nil
	}

	annotations, ok := value.(map[string]any)
	if !ok {
		return []string{"metadata.annotations is not an object"}
	}

	var problems []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if _, ok := annotations[key].(string); !ok {
			problems = append(problems, fmt.Sprintf("annotation %q is not a text", key))
		}
	}

	return problems
}

// nestedString returns the string value of a field; "" if the field is absent or null.
func nestedString(object unstructured.Unstructured, field ...string) (string, error) {
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, field...)
	if err != nil {
		return "", fmt.Errorf("%s is missing: what would hold it is not an object", strings.Join(field, "."))
	}
	if !found || value == nil {
		return "", nil
	}

	text, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a text", strings.Join(field, "."))
	}

	return text, nil
}
