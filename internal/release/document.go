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

var errDepth = fmt.Errorf("is nested deeper than %d levels", maxDepth)

// parseManifests decodes the documents of a file. Documents without content are passed
// over; those with a comment or a blank line are counted. Of a file with faults it gives
// all of them.
func parseManifests(file string, data []byte) ([]Manifest, []Fault) {
	var manifests []Manifest
	var faults []Fault
	first := map[Key]int{}
	err := documents(data, func(n int, raw []byte, err error) {
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
			faults = append(faults, Fault{File: file, Document: n, Err: fmt.Errorf("%s stands in document %d already: one file may hold an object once", m.Key(), before)})
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

// documents returns each document of YAML or JSON that has content as JSON, or what is
// wrong with it, and its number from 1. Its own error is about the whole file.
func documents(data []byte, yield func(n int, raw []byte, err error)) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		// A brace also opens a mapping of YAML; what is no JSON is tried as YAML below.
		if docs, err := jsonDocuments(data); err == nil {
			for i, doc := range docs {
				yield(i+1, doc, checkDepth(doc))
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

func jsonDocuments(data []byte) ([]json.RawMessage, error) {
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

// yamlToJSON returns nil for a document without content.
func yamlToJSON(text []byte) (raw []byte, err error) {
	defer func() {
		// What a parser does not expect is the fault of the text, not of this program's
		// state.
		if p := recover(); p != nil {
			raw, err = nil, fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	if err := checkAliases(text); err != nil {
		return nil, err
	}
	if raw, err = kyaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil
	}

	return raw, checkDepth(raw)
}

// checkDepth refuses JSON that is nested deeper than maxDepth.
func checkDepth(raw []byte) error {
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
				return errDepth
			}
		case c == '}' || c == ']':
			depth--
		}
	}

	return nil
}

// checkAliases refuses YAML that grows beyond a file's limit when its aliases are
// replaced by what they stand for: a few hundred bytes can stand for gigabytes.
func checkAliases(text []byte) error {
	if !bytes.Contains(text, []byte("&")) || !bytes.Contains(text, []byte("*")) {
		return nil
	}

	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return err
	}

	size, err := sizes{}.of(&root, 0)
	if err == nil && size > maxFileBytes {
		err = fmt.Errorf("has more than %d bytes when its aliases are replaced", maxFileBytes)
	}

	return err
}

// sizes are those of nodes with an anchor, where 0 marks one whose size is being found.
type sizes map[*yaml.Node]int

// of is about how many bytes a node has without aliases, at most a little above
// maxFileBytes.
func (s sizes) of(node *yaml.Node, depth int) (int, error) {
	if depth > 2*maxDepth {
		return 0, errDepth
	}

	if node.Kind == yaml.AliasNode {
		if size, ok := s[node.Alias]; ok && size == 0 {
			return 0, fmt.Errorf("line %d: alias %q stands within what it stands for", node.Line, node.Value)
		} else if ok {
			return size, nil
		}
		return s.of(node.Alias, depth+1)
	}

	if node.Anchor != "" {
		s[node] = 0
	}

	size := len(node.Value) + 1
	for _, child := range node.Content {
		n, err := s.of(child, depth+1)
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

// decodeObject decodes an object that a cluster could have: with apiVersion, kind and
// name, and with annotations that can be read.
func decodeObject(raw []byte) (unstructured.Unstructured, error) {
	var object unstructured.Unstructured
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object.Object); err != nil {
		return object, fmt.Errorf("is not a Kubernetes object: %w", readable(err))
	}

	var wrong []string
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		if value, err := textAt(object, field...); err != nil {
			wrong = append(wrong, err.Error())
		} else if value == "" {
			wrong = append(wrong, strings.Join(field, ".")+" is missing")
		}
	}

	if metadata, ok := object.Object["metadata"].(map[string]any); ok {
		if _, err := textAt(object, "metadata", "namespace"); err != nil {
			wrong = append(wrong, err.Error())
		}
		wrong = append(wrong, wrongAnnotations(metadata["annotations"])...)
	}

	if len(wrong) > 0 {
		return object, fmt.Errorf("is not a Kubernetes object: %s", strings.Join(wrong, ", "))
	}

	return object, nil
}

// wrongAnnotations tells what keeps annotations from being read. A single one that is no
// text would hide all others.
func wrongAnnotations(value any) []string {
	if value == nil {
		return nil
	}

	annotations, ok := value.(map[string]any)
	if !ok {
		return []string{"metadata.annotations is not an object"}
	}

	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if _, ok := annotations[key].(string); !ok {
			wrong = append(wrong, fmt.Sprintf("annotation %q is not a text", key))
		}
	}

	return wrong
}

// textAt returns a field's text. A field that is absent or null has none.
func textAt(object unstructured.Unstructured, field ...string) (string, error) {
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
