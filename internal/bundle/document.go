package bundle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

// splitDocuments splits YAML or JSON into its documents, each as JSON. Empty documents are
// left out. With an error it returns the documents before the invalid one.
func splitDocuments(data []byte) ([]json.RawMessage, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		// A brace also opens a YAML flow mapping. What is not JSON is parsed as YAML below.
		if docs, err := splitJSONDocuments(data); err == nil {
			return docs, nil
		}
	}

	var docs []json.RawMessage
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, fmt.Errorf("document %d: %w", n, err)
		}

		doc, err := convertYAMLToJSON(text)
		if err != nil {
			return docs, fmt.Errorf("document %d: %w", n, err)
		}
		if doc != nil {
			docs = append(docs, doc)
		}
	}
}

func splitJSONDocuments(data []byte) ([]json.RawMessage, error) {
	var docs []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var doc json.RawMessage
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		if err := checkNestingDepth(doc); err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
}

// convertYAMLToJSON converts a YAML document to JSON. It returns nil for a document without
// content.
func convertYAMLToJSON(text []byte) (json.RawMessage, error) {
	if err := checkAliasExpansion(text); err != nil {
		return nil, err
	}

	var doc []byte
	err := recoverParserPanic(func() (err error) {
		if err := checkSingleDocument(text); err != nil {
			return err
		}
		doc, err = kyaml.YAMLToJSON(text)
		return err
	})
	if err != nil {
		return nil, err
	}
	if bytes.Equal(bytes.TrimSpace(doc), []byte("null")) {
		return nil, nil
	}

	return doc, checkNestingDepth(doc)
}

// checkSingleDocument returns an error for a text with a second document that no line of
// "---" separates from the first. The parser would ignore it silently. Such a document is
// only possible after one that starts with a brace, or with line breaks other than a line
// feed, or after a line of "...".
func checkSingleDocument(text []byte) error {
	mayEndEarly := bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) || bytes.HasPrefix(text, []byte("...")) || bytes.Contains(text, []byte("\n..."))
	if !mayEndEarly && !bytes.ContainsAny(text, "\r\u0085\u2028\u2029") {
		return nil
	}

	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		var node yaml.Node
		err := decoder.Decode(&node)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 0 && len(node.Content) > 0 && node.Content[0].Tag != "!!null":
			return fmt.Errorf("line %d: a further document follows: put a line with nothing but --- before it, and end the lines with a line feed", node.Line)
		}
	}
}

// recoverParserPanic converts a panic of a parser into an error, because it is caused by
// the text, not by the state of this program.
func recoverParserPanic(parse func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	return parse()
}

// checkNestingDepth returns an error for JSON that is nested deeper than maxNestingDepth.
func checkNestingDepth(doc []byte) error {
	depth, inString := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxNestingDepth {
				return fmt.Errorf("is nested deeper than %d levels", maxNestingDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}

	return nil
}

// checkAliasExpansion returns an error for YAML that exceeds the limit of a file when its
// aliases are expanded. A few hundred bytes can expand to gigabytes.
func checkAliasExpansion(text []byte) error {
	if !bytes.Contains(text, []byte("&")) || !bytes.Contains(text, []byte("*")) {
		return nil
	}

	var root yaml.Node
	if err := recoverParserPanic(func() error { return yaml.Unmarshal(text, &root) }); err != nil {
		return err
	}

	size, err := expandedNodeSize(&root, map[*yaml.Node]int{}, 0)
	if err != nil {
		return err
	}
	if size > maxFileBytes {
		return fmt.Errorf("has more than %d bytes when its aliases are replaced", maxFileBytes)
	}

	return nil
}

// expandedNodeSize returns approximately how many bytes a node has with expanded aliases,
// at most a little above maxFileBytes. Sizes of anchored nodes are cached in known, where 0
// marks a node whose size is being computed.
func expandedNodeSize(node *yaml.Node, known map[*yaml.Node]int, depth int) (int, error) {
	if depth > 2*maxNestingDepth {
		return 0, fmt.Errorf("is nested deeper than %d levels", maxNestingDepth)
	}

	if node.Kind == yaml.AliasNode {
		if size, seen := known[node.Alias]; seen && size == 0 {
			return 0, fmt.Errorf("line %d: alias %q stands within what it stands for", node.Line, node.Value)
		} else if seen {
			return size, nil
		}
		return expandedNodeSize(node.Alias, known, depth+1)
	}

	if node.Anchor != "" {
		known[node] = 0
	}

	size := len(node.Value) + 1
	for _, child := range node.Content {
		n, err := expandedNodeSize(child, known, depth+1)
		if err != nil {
			return 0, err
		}
		size = min(size+n, 2*maxFileBytes)
	}

	if node.Anchor != "" {
		known[node] = size
	}

	return size, nil
}

// decodeDocuments decodes the documents of a file. With an error it returns the documents
// before the first one that is not a JSON object.
func decodeDocuments(data []byte) ([]map[string]any, error) {
	docs, err := splitDocuments(data)
	var contents []map[string]any
	for i, doc := range docs {
		var content map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &content); err != nil {
			return contents, fmt.Errorf("document %d: is not a Kubernetes object: %w", i+1, err)
		}
		contents = append(contents, content)
	}

	return contents, err
}

// ListEntry is an entry of a list of objects.
type ListEntry struct {
	// Object is the entry, nil if it is not an object.
	Object map[string]any
	// Err is the reason why the entry is not an object.
	Err error
}

// ReadList decodes a text that is one YAML or JSON list of objects, within the limits of
// ReadManifest. An empty text is an empty list.
func ReadList(data []byte) ([]ListEntry, error) {
	if len(data) > maxFileBytes {
		return nil, &limitError{fmt.Sprintf("is larger than the %d bytes that a list may have", maxFileBytes)}
	}

	docs, err := splitDocuments(data)
	switch {
	case err != nil:
		return nil, err
	case len(docs) == 0:
		return nil, nil
	case len(docs) > 1:
		return nil, fmt.Errorf("holds %d documents, it must hold one list", len(docs))
	}

	var items []json.RawMessage
	if err := json.Unmarshal(docs[0], &items); err != nil {
		return nil, errors.New("is not a list: start each entry with a dash")
	}

	entries := make([]ListEntry, len(items))
	for i, item := range items {
		var content map[string]any
		err := kjson.UnmarshalCaseSensitivePreserveInts(item, &content)
		if err == nil && content == nil {
			err = errors.New("is empty")
		}
		if err != nil {
			entries[i].Err = fmt.Errorf("is not an object: %w", err)
			continue
		}
		entries[i].Object = content
	}

	return entries, nil
}

// flattenList returns the object, or the items of a List.
func flattenList(content map[string]any) ([]unstructured.Unstructured, error) {
	object := unstructured.Unstructured{Object: content}
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return nil, errors.New("is not a Kubernetes object: kind or apiVersion is missing")
	}

	if object.GetAPIVersion() != "v1" || object.GetKind() != "List" {
		if object.GetName() == "" {
			return nil, fmt.Errorf("%s has no metadata.name", object.GetKind())
		}
		return []unstructured.Unstructured{object}, nil
	}

	items, _ := content["items"].([]any)
	var objects []unstructured.Unstructured
	for i, item := range items {
		itemContent, _ := item.(map[string]any)
		found, err := flattenList(itemContent)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		objects = append(objects, found...)
	}

	return objects, nil
}
