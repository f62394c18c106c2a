package fbc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"github.com/mainstay-dev/mainstay/internal/fbc/jsontext"
	"github.com/mainstay-dev/mainstay/internal/fbc/yamltext"
)

// nodeMarks are the separators of the list items, keys and lines of a YAML document.
var nodeMarks = [][]byte{[]byte("\n"), []byte(","), []byte("["), []byte("{"), []byte("- ")}

// appendYAMLAsJSON appends the canonical JSON form of a YAML document. It reads YAML 1.1, the
// dialect of Kubernetes. The result is at most BlobBytes long, even if the document has aliases,
// and nested at most Depth deep.
func appendYAMLAsJSON(dst, text []byte, limits Limits) ([]byte, error) {
	result, _, err := convertYAMLToJSON(dst, nil, text, limits)
	return result, err
}

// convertYAMLToJSON implements appendYAMLAsJSON. It uses scratch as a buffer and returns it for
// reuse.
func convertYAMLToJSON(dst, scratch, text []byte, limits Limits) (result, used []byte, err error) {
	nodes := 0
	for _, mark := range nodeMarks {
		nodes += bytes.Count(text, mark)
	}

	if nodes > limits.YAMLNodes {
		return nil, scratch, fmt.Errorf("is a YAML document with more than %d lines and list items: write it as JSON, or split it", limits.YAMLNodes)
	}

	// A panic of the parser is caused by the text and not by the state of this program, so
	// it is returned as an error.
	defer func() {
		if p := recover(); p != nil {
			result, used, err = nil, nil, fmt.Errorf("cannot be parsed as YAML: %v", p)
		}
	}()
	scratch, ok := yamltext.AppendJSON(scratch[:0], text, limits.Depth, resolveYAMLScalar)
	if ok && len(scratch) <= limits.BlobBytes {
		if canonical, _, err := jsontext.Compact(dst, scratch, limits.Depth); err == nil {
			return canonical, scratch, nil
		}
	}

	result, err = parseCompleteYAML(dst, text, limits)
	return result, scratch, err
}

// parseCompleteYAML implements appendYAMLAsJSON with a parser for all of YAML.
func parseCompleteYAML(dst, text []byte, limits Limits) ([]byte, error) {
	value, err := decodeSingleYAMLDocument(text)
	if err != nil {
		return nil, fmt.Errorf("cannot be parsed as YAML: %w", err)
	}

	w := &jsonWriter{out: dst, limit: len(dst) + limits.BlobBytes}
	if err := w.writeValue(value, limits.Depth); err != nil {
		return nil, err
	}

	return w.out, nil
}

// decodeSingleYAMLDocument decodes the only document of a text. It returns an error if there are
// more, which the parser would silently ignore.
func decodeSingleYAMLDocument(text []byte) (any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var value any
	if err := decoder.Decode(&value); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}

	for {
		var further any
		switch err := decoder.Decode(&further); {
		case errors.Is(err, io.EOF):
			return value, nil
		case err != nil:
			return nil, err
		case further != nil:
			return nil, errors.New("a further document follows: put a line with nothing but --- before it, and end the lines with a line feed")
		}
	}
}

// resolveYAMLScalar appends the value of a plain scalar as JSON.
func resolveYAMLScalar(dst, scalar []byte) ([]byte, bool) {
	var value any
	if yaml.Unmarshal(scalar, &value) != nil {
		return dst, false
	}
	w := &jsonWriter{out: dst, limit: math.MaxInt}
	err := w.writeValue(value, 0)
	return w.out, err == nil
}

// jsonWriter writes values of the YAML parser as JSON.
type jsonWriter struct {
	out   []byte
	limit int
}

func (w *jsonWriter) writeValue(value any, depth int) error {
	if len(w.out) > w.limit {
		return fmt.Errorf("is larger than %d bytes once its aliases are followed", w.limit)
	}

	switch v := value.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case string:
		w.out = jsontext.AppendQuoted(w.out, v)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case uint64:
		w.out = strconv.AppendUint(w.out, v, 10)
	case float64:
		return w.writeNumber(v)
	case []any:
		return w.writeList(v, depth-1)
	case map[any]any:
		return w.writeObject(v, depth-1)
	default:
		return fmt.Errorf("has a value of a type that JSON does not have: %T", value)
	}

	return nil
}

func (w *jsonWriter) writeNumber(v float64) error {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Errorf("has the number %v, which JSON does not have", v)
	}
	text, err := json.Marshal(v)
	w.out = append(w.out, text...)
	return err
}

func (w *jsonWriter) writeList(list []any, depth int) error {
	if depth < 0 {
		return errors.New("is nested too deep")
	}

	w.out = append(w.out, '[')
	for i, v := range list {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.writeValue(v, depth); err != nil {
			return err
		}
	}

	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) writeObject(object map[any]any, depth int) error {
	if depth < 0 {
		return errors.New("is nested too deep")
	}

	type field struct {
		name  string
		value any
	}
	fields := make([]field, 0, len(object))
	for key, v := range object {
		name, err := formatYAMLKey(key)
		if err != nil {
			return err
		}
		fields = append(fields, field{name, v})
	}

	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	w.out = append(w.out, '{')
	for i, f := range fields {
		if i > 0 {
			if f.name == fields[i-1].name {
				return fmt.Errorf("has two keys that both read %q in JSON: keep one", f.name)
			}
			w.out = append(w.out, ',')
		}
		w.out = append(jsontext.AppendQuoted(w.out, f.name), ':')
		if err := w.writeValue(f.value, depth); err != nil {
			return err
		}
	}

	w.out = append(w.out, '}')
	return nil
}

// formatYAMLKey returns the JSON key for a YAML key, which may be any scalar.
func formatYAMLKey(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case bool:
		return strconv.FormatBool(k), nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case uint64:
		return strconv.FormatUint(k, 10), nil
	case float64:
		return strconv.FormatFloat(k, 'g', -1, 64), nil
	default:
		return "", fmt.Errorf("has a key that is not a scalar: %.100v", key)
	}
}
